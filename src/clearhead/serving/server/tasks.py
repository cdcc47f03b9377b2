"""Translation, classes and tokens: what OpenAI's interface has no route for."""

from dataclasses import asdict
from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from clearhead.serving.server.answers import counts, spelled
from clearhead.serving.server.faults import Refused
from clearhead.serving.server.schemas import ClassifyBody, DetokenizeBody, TokenizeBody, TranslateBody
from clearhead.serving.server.service import Service
from clearhead.serving.server.streams import read_body, until_left


class TaskEndpoints:
    """The routes of clearhead's own."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def translate(self, request: Request) -> Response:
        """A translation of each text."""
        body = await read_body(request, TranslateBody, self.service)
        model = self.service.find(body.model)
        work = self.service.compute(model, partial(model.translations, body))
        prompts, found = await until_left(request.receive, work)
        read = sum(len(part.source or []) for prompt in prompts for part in prompt.parts or (prompt,))
        data = [
            {"index": place, "text": one.text, "score": one.score, "finish_reason": one.reason}
            for place, one in enumerate(found)
        ]
        written = sum(len(one.tokens) for one in found)
        return JSONResponse(
            {"object": "list", "data": data, "model": body.model, "usage": counts(read, written)}
        )

    async def classify(self, request: Request) -> Response:
        """The class of each text."""
        body = await read_body(request, ClassifyBody, self.service)
        model = self.service.find(body.model)
        work = self.service.compute(model, partial(model.classes, body))
        rows, found = await until_left(request.receive, work)
        data = [{"index": place, **asdict(one)} for place, one in enumerate(found)]
        read = sum(map(len, rows))
        return JSONResponse({"object": "list", "data": data, "model": body.model, "usage": counts(read, 0)})

    async def tokenize(self, request: Request) -> Response:
        """The tokens of a text, without the frame that a model adds."""
        body = await read_body(request, TokenizeBody, self.service)
        tokenizer = self.service.find(body.model).reader.tokenizer

        def answer() -> Response:
            ids = tokenizer.encode(body.text)
            pieces = [spelled(tokenizer, id) for id in ids]
            return JSONResponse({"tokens": ids, "pieces": pieces, "count": len(ids)})

        return await self.service.prepare(answer)

    async def detokenize(self, request: Request) -> Response:
        """The text of some tokens."""
        body = await read_body(request, DetokenizeBody, self.service)
        tokenizer = self.service.find(body.model).tokenizer
        if wrong := [id for id in body.tokens if id >= tokenizer.size]:
            raise Refused(
                f"tokens contain the id {wrong[0]}, but there are ids 0 to {tokenizer.size - 1}.",
                field="tokens",
            )
        return JSONResponse({"text": await self.service.prepare(partial(tokenizer.decode, body.tokens))})
