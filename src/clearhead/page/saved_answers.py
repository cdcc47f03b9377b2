"""The answers that a saved page contains: a question about a text enters; requests leave with the service's answers.

The requests are those of the page's views as they open, the most looked at first, so that where there is only room for
some, these are inside. A page that the browser saves contains what the browser has asked for instead.
"""

import json
import re
import zlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

from clearhead.page.service.requests import GenerationRequest, PassRequest
from clearhead.page.service.service import ExplorerService, as_json

POSITIONS = 48  # tokens of a stack whose readings are saved
LARGE = 5_000_000  # weights, above which readings are saved for one token only
TOKENS = 12  # that the view of generation generates

Request = tuple[str, bytes]


def saved_answers(
    service: ExplorerService, question: PassRequest, most_bytes: int | None
) -> dict[str, bytes]:
    """Requests and answers, of at most so many bytes when they are compressed; weights only if there is no limit."""
    answers: dict[str, bytes] = {}
    room = most_bytes
    for key, answer in requests(service, question, has_weights=most_bytes is None):
        if key in answers:
            continue
        if room is not None:
            size = len(zlib.compress(answer, 6)) + len(key)
            if size > room:
                continue
            room -= size
        answers[key] = answer
    return answers


def requests(service: ExplorerService, question: PassRequest, has_weights: bool) -> Iterator[Request]:
    """What the views ask for as they open, then the rest of the pass, then the weights."""
    structure = service.structure | {"example": question.text}
    yield "api/model", as_bytes(structure)
    asked = question.model_dump(mode="json", exclude_defaults=True)
    found = service.run_pass(question)
    yield posted("api/passes", asked), as_bytes(found)
    view = PassRequests(service, found)
    first = {stack: view.first(stack) for stack in found["tokens"]}
    attentions = [one["name"] for one in structure["attentions"] if one["heads"]]
    if attentions:
        yield from view.head()
        yield view.reading("heads")
        yield view.key("thumbnails"), service.thumbnails(view.captured)
    for stack, position in first.items():
        yield from view.at_token(stack, position)
    yield from view.stream(view.captured.top, first[view.captured.top])
    yield from view.whole()
    yield from generation(service, question)
    yield from view.sites([f"{name}.weights" for name in attentions])
    yield from (view.reading("pairs", attention=name) for name in attentions)
    for stack, tokens in found["tokens"].items() if structure["weights"] <= LARGE else ():
        for position in range(min(len(tokens), POSITIONS)):
            yield from view.at_token(stack, position)
    yield from view.sites(list(found["sites"]))
    if has_weights:
        biased = [one["name"] for one in structure["attentions"] if one["biased"]]
        yield from view.sites([*view.inputs(), *(f"{name}.bias" for name in biased)])
        yield from (
            (f"api/weights?name={name}", service.weights({"name": name})) for name in structure["parameters"]
        )


class PassRequests:
    """Requests about one pass."""

    def __init__(self, service: ExplorerService, found: dict[str, Any]) -> None:
        self.service, self.found, self.name = service, found, found["name"]
        self.structure, self.captured = service.structure, service.cache.get(self.name)
        self.is_transformer = self.structure["config"]["family"] == "transformer"
        pairs = found["pairs"]
        self.pair = max(pairs, key=lambda one: float(one["weight"])) if pairs else None

    def key(self, what: str) -> str:
        """The request for one of the pass's answers."""
        return f"api/passes/{self.name}/{what}"

    def reading(self, what: str, **query: object) -> Request:
        """One reading."""
        text = {key: str(value) for key, value in query.items()}
        found = self.service.reading(self.captured, what, text)
        return self.key(f"{what}?{urlencode(text)}"), as_bytes(found)

    def tensors(self, sites: list[str], **part: object) -> Request:
        """Tensors in one answer, of a head or some rows if they are named."""
        query = {"sites": ",".join(sites)} | {key: str(value) for key, value in part.items()}
        asked = "&".join(f"{key}={value}" for key, value in query.items())
        return self.key(f"tensors?{asked}"), self.service.tensors(self.captured, query)

    def sites(self, names: list[str]) -> Iterator[Request]:
        """Complete tensors."""
        return (self.tensors([name]) for name in names)

    def inputs(self) -> list[str]:
        """What each sublayer reads."""
        places = [name.rsplit(".", 1)[0] for name in self.found["sites"]]
        return [f"{place}.x" for place in dict.fromkeys(places) if place.endswith(("self", "cross", "ffn"))]

    def first(self, stack: str) -> int:
        """The token at which views of one token open."""
        is_own = (
            str(self.structure["opening"]).startswith(f"{stack}.") and self.structure["shape"] != "decoder"
        )
        last = len(self.found["tokens"][stack]) - 1
        return int(self.pair["query"]) if is_own and self.pair is not None else last

    def head(self) -> Iterator[Request]:
        """The tensors of the head that the page opens with."""
        assert self.pair is not None
        name = self.structure["opening"]
        one = next(one for one in self.structure["attentions"] if one["name"] == name)
        place = one["heads"].index(self.pair["head"])
        yield self.tensors([f"{name}.{key}" for key in ("q", "heads", "scores", "weights")], head=place)
        yield self.tensors([f"{name}.{key}" for key in ("k", "v")], head=one["reads"][place])
        yield self.tensors([f"{name}.weights"], head=place)

    def stream(self, stack: str, position: int) -> Iterator[Request]:
        """The stream and the hidden units at one token, and all tokens as they enter."""
        names = [name for name in self.found["sites"] if name.startswith(f"{stack}.")]
        yield from self.sites([name for name in names if ".embeddings." in name])
        if self.is_transformer:
            rows = f"{position}:{position + 1}"
            yield self.tensors(
                [name for name in names if re.search(r"\.embeddings\.out|\.residual\.", name)], rows=rows
            )
            yield from (self.tensors([name], rows=rows) for name in names if name.endswith(".ffn.hidden"))

    def at_token(self, stack: str, position: int) -> Iterator[Request]:
        """What is read at one token."""
        token, head = self.found["tokens"][stack][position], self.structure["head"]
        yield self.reading("neighbours", stack=stack, id=token["id"])
        if self.is_transformer:
            yield self.reading("stream", stack=stack, position=position)
        if stack != self.captured.top or head == "none":
            return
        yield self.reading("prediction", position=position)
        yield self.reading("lens", position=position)
        if head == "language":
            yield self.reading("choice", position=position, step=position, temperature=1, seed=1)
            yield from self.attribution(position)

    def attribution(self, position: int) -> Iterator[Request]:
        """What made the answer at one token."""
        if self.is_transformer:
            key, answer = self.reading("attribution", position=position)
            yield key, answer
            chosen = json.loads(answer)["answer"]["id"]
            yield self.reading("saliency", position=position, id=chosen, method="integrated")

    def whole(self) -> Iterator[Request]:
        """What is read off the whole text."""
        for stack in self.found["tokens"]:
            yield self.reading("projection", site=f"{stack}.embeddings.tokens")
        if self.structure["head"] == "language":
            yield self.reading("loss")
        elif self.structure["head"] == "classifier":
            yield self.reading("without")
            yield self.reading("prediction", position=0)
            yield from self.sites([name for name in ("head.pooled", "logits") if name in self.found["sites"]])
            yield from self.attribution(0)


def generation(service: ExplorerService, question: PassRequest) -> Iterator[Request]:
    """A generated text, and the pass over it."""
    structure = service.structure
    if structure["head"] != "language" or structure["shape"] == "encoder":
        return
    translates = structure["shape"] == "encoder-decoder"
    rules: dict[str, Any] = {
        "text": question.text,
        "temperature": 0 if translates else 1,
        "seed": 1,
        "max_tokens": TOKENS,
    }
    found = service.generate(GenerationRequest(**rules))
    yield posted("api/generations", rules), as_bytes(found)
    more = [step["token"]["id"] for step in found["steps"][:-1]]
    asked: dict[str, Any] = {"text": question.text} | ({"target": ""} if translates else {}) | {"more": more}
    after = service.run_pass(PassRequest(**asked))
    yield posted("api/passes", asked), as_bytes(after)
    decoders = [one["name"] for one in structure["attentions"] if one["name"].endswith("self")]
    names = [f"{name}.{key}" for name in decoders if name.startswith("decoder") for key in ("k", "v")]
    yield from PassRequests(service, after).sites(names)


def posted(path: str, body: dict[str, Any]) -> str:
    """A request with a body, as the page writes it."""
    return f"{path} {json.dumps(body, ensure_ascii=False, separators=(',', ':'))}"


def as_bytes(answer: object) -> bytes:
    """JSON, as the service sends it."""
    return json.dumps(as_json(answer), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def address(selection: dict[str, str]) -> str:
    """A selection as it is in the page's address."""
    return "#" + urlencode(selection, quote_via=quote)
