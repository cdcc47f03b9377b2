"""Completions, chat and embeddings, as OpenAI's clients expect them: a body enters, an answer or a stream leaves."""

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from clearhead.decoding.live.request import Part
from clearhead.serving.server.answers import FINISHES, CompletionLogprobs, chat_logprobs, joined, usage
from clearhead.serving.server.faults import as_json, refusal_of
from clearhead.serving.server.schemas import ChatBody, CompletionBody, EmbeddingBody
from clearhead.serving.server.served import Asked, listed
from clearhead.serving.server.service import Answer, Service
from clearhead.serving.server.streams import EventStream, read_body, until_left
from clearhead.serving.sockets import Way


class Endpoints:
    """The routes of OpenAI's interface that concern texts."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def models(self, request: Request) -> Response:
        """What is loaded."""
        return JSONResponse(
            {"object": "list", "data": [self.description(name) for name in self.service.models]}
        )

    async def model(self, request: Request) -> Response:
        """One model."""
        return JSONResponse(self.description(self.service.find(request.path_params["name"]).name))

    def description(self, name: str) -> dict[str, Any]:
        """A model as clients see it."""
        model = self.service.models[name]
        return {
            "id": name,
            "object": "model",
            "created": self.service.started,
            "owned_by": "clearhead",
            "tasks": model.tasks,
            "context": model.model.config.context,
            "labels": model.reader.labels if "classify" in model.tasks else None,
        }

    async def completions(self, request: Request) -> Response:
        """Continues prompts."""
        body = await read_body(request, CompletionBody, self.service)
        model = self.service.find(body.model)
        asked = partial(model.completions, body, salt_of(request))
        count, has_schema = len(listed(body.prompt)) * body.n, body.response_format is not None
        answer = await self.service.submit(model, count, asked, has_schema)
        texts = CompletionTexts(answer.asked, model.tokenizer)
        frame = frame_of("cmpl", "text_completion", body.model)
        if body.stream:
            return await streamed(request, answer, frame, texts.part, body.counts_usage)
        return await whole(request, answer, frame, texts.part, texts.choice)

    async def chat(self, request: Request) -> Response:
        """Answers a conversation."""
        body = await read_body(request, ChatBody, self.service)
        model = self.service.find(body.model)
        asked = partial(model.chat, body, salt_of(request))
        answer = await self.service.submit(model, body.n, asked, body.response_format is not None)
        texts = ChatTexts(answer.asked, model.tokenizer)
        if body.stream:
            frame = frame_of("chatcmpl", "chat.completion.chunk", body.model)
            return await streamed(request, answer, frame, texts.part, body.counts_usage)
        frame = frame_of("chatcmpl", "chat.completion", body.model)
        return await whole(request, answer, frame, texts.part, texts.choice)

    async def embeddings(self, request: Request) -> Response:
        """A vector for each text."""
        body = await read_body(request, EmbeddingBody, self.service)
        model = self.service.find(body.model)
        work = self.service.compute(model, partial(model.embeddings, body))
        rows, vectors = await until_left(request.receive, work)
        read = sum(map(len, rows))

        def shown(vector: Any) -> Any:
            if body.encoding_format == "float":
                return vector.tolist()
            return base64.b64encode(vector.numpy().astype("<f4").tobytes()).decode()

        data = [
            {"object": "embedding", "index": place, "embedding": shown(vector)}
            for place, vector in enumerate(vectors)
        ]
        counts = {"prompt_tokens": read, "total_tokens": read}
        return JSONResponse({"object": "list", "data": data, "model": body.model, "usage": counts})


class CompletionTexts:
    """The texts of `/v1/completions` as choices; a choice of a stream has what is new."""

    def __init__(self, asked: Asked, tokenizer: Any) -> None:
        self.asked, self.logprobs = asked, [CompletionLogprobs(tokenizer) for _ in asked.drafts]
        self.is_new = [True] * len(asked.drafts)

    def part(self, place: int, part: Part) -> dict[str, Any]:
        """What is new of a text."""
        draft, text, parts = self.asked.drafts[place], part.text, []
        if self.is_new[place] and self.asked.echoed:
            text = self.asked.echoed[place // self.asked.n] + text
            if self.asked.shows_logprobs:
                parts.append(self.logprobs[place].of_prompt(draft.prompt, draft.scores))
        self.is_new[place] = False
        if self.asked.shows_logprobs:
            parts.append(self.logprobs[place].of(part.tokens))
        return {
            "index": place,
            "text": text,
            "logprobs": joined(parts) if parts else None,
            "finish_reason": FINISHES[part.reason],
        }

    def choice(self, place: int, parts: list[dict[str, Any]]) -> dict[str, Any]:
        """A whole text, from its parts."""
        logprobs = [part["logprobs"] for part in parts if part["logprobs"] is not None]
        return {
            "index": place,
            "text": "".join(part["text"] for part in parts),
            "logprobs": joined(logprobs) if logprobs else None,
            "finish_reason": parts[-1]["finish_reason"],
        }


class ChatTexts:
    """The answers of `/v1/chat/completions` as choices."""

    def __init__(self, asked: Asked, tokenizer: Any) -> None:
        self.asked, self.tokenizer = asked, tokenizer
        self.is_new = [True] * len(asked.drafts)

    def part(self, place: int, part: Part) -> dict[str, Any]:
        """What is new of an answer."""
        role = {"role": "assistant"} if self.is_new[place] else {}
        self.is_new[place] = False
        return {
            "index": place,
            "delta": {**role, "content": part.text},
            "logprobs": chat_logprobs(self.tokenizer, part.tokens) if self.asked.shows_logprobs else None,
            "finish_reason": FINISHES[part.reason],
        }

    def choice(self, place: int, parts: list[dict[str, Any]]) -> dict[str, Any]:
        """A whole answer, from its parts."""
        content = "".join(part["delta"]["content"] for part in parts)
        logprobs = None
        if self.asked.shows_logprobs:
            entries = [entry for part in parts for entry in part["logprobs"]["content"]]
            logprobs = {"content": entries, "refusal": None}
        return {
            "index": place,
            "message": {"role": "assistant", "content": content, "refusal": None},
            "logprobs": logprobs,
            "finish_reason": parts[-1]["finish_reason"],
        }


PartOf = Callable[[int, Part], dict[str, Any]]
ChoiceOf = Callable[[int, list[dict[str, Any]]], dict[str, Any]]


def frame_of(prefix: str, kind: str, model: str) -> dict[str, Any]:
    """What surrounds choices."""
    now = time.time_ns()
    return {"id": f"{prefix}-{now:x}", "object": kind, "created": now // 10**9, "model": model}


async def whole(
    request: Request, answer: Answer, frame: dict[str, Any], part_of: PartOf, choice_of: ChoiceOf
) -> Response:
    """The answer once all texts are done."""

    async def collect() -> tuple[list[list[dict[str, Any]]], int]:
        parts: list[list[dict[str, Any]]] = [[] for _ in answer.asked.drafts]
        written = 0
        async for arrived in answer.parts():
            for place, part in arrived:
                parts[place].append(part_of(place, part))
                written += len(part.tokens)
        return parts, written

    parts, written = await until_left(request.receive, collect())
    counts = usage(answer.asked, written)
    request.scope["clearhead.details"] = {"read": counts["prompt_tokens"], "written": written}
    before, after = around_choice({**frame, "choices": [0], "usage": counts})
    choices = []
    for place, own in enumerate(parts):
        choices.append(to_json(choice_of(place, own)))
        await asyncio.sleep(0)  # others are served between two choices, which may be long
    return Response(before + b",".join(choices) + after, media_type="application/json")


async def streamed(
    request: Request, answer: Answer, frame: dict[str, Any], part_of: PartOf, counts_usage: bool
) -> Response:
    """The answer as server-sent events; what fails before the first token is an ordinary error."""
    parts = answer.parts()
    first = await until_left(request.receive, anext(parts))
    before, after = around_choice({**frame, "choices": [0]} | ({"usage": None} if counts_usage else {}))
    before, after = b"data: " + before, after + b"\n\n"
    written = 0

    def written_as_events(arrived: list[tuple[int, Part]]) -> bytes:
        nonlocal written
        written += sum(len(part.tokens) for _, part in arrived)
        return b"".join([before + to_json(part_of(place, part)) + after for place, part in arrived])

    def begin_writing(way: Way) -> None:
        def write(arrived: list[tuple[int, Part]]) -> bool:
            if is_open := way.is_open:
                way.write(written_as_events(arrived))
            return is_open

        answer.pass_at_once = write

    async def events() -> AsyncIterator[bytes]:
        try:
            yield written_as_events(first)
            async for arrived in parts:
                yield written_as_events(arrived)
        except Exception as error:
            yield event(as_json(refusal_of(error)))
        finally:
            await parts.aclose()  # type: ignore[attr-defined]
            request.scope["clearhead.details"] = {"read": answer.asked.prompt_tokens, "written": written}
        if counts_usage:
            yield event({**frame, "choices": [], "usage": usage(answer.asked, written)})
        yield b"data: [DONE]\n\n"

    return EventStream(events(), begin_writing)


def around_choice(values: dict[str, Any]) -> tuple[bytes, bytes]:
    """The JSON before and after the choices of some values, in which [0] is in their place."""
    before, after = to_json(values).rsplit(b"[0]", 1)
    return before + b"[", b"]" + after


def event(values: dict[str, Any]) -> bytes:
    """A server-sent event."""
    return b"data: " + to_json(values) + b"\n\n"


def salt_of(request: Request) -> bytes:
    """Who asks: requests of the same key may reuse what was read of each other's prompts."""
    salt: bytes = request.scope.get("clearhead.salt", b"")
    return salt
