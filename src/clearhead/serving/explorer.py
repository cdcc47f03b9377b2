"""The explorer's service: an ASGI app of its own, for `clearhead explore`, and to be mounted by a server.

    GET  /                                   the page, and page/… its files
    GET  api/model                           the structure of the model
    POST api/passes                          a text is read: tokens, sites, predictions, and a name
    GET  api/passes/NAME/tensors?sites=a,b   numbers, as a packet (see `packets`), of one head where asked
    GET  api/passes/NAME/WHAT                what is read off the pass (see `READINGS`)
    GET  api/weights?name=…&rows=a:b         a part of a weight, as a packet
    POST api/generations                     a text is written on from

JSON for structure, packets for numbers. One pass runs at a time; answers that need no model do not wait for it.
"""

import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import torch
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from clearhead.api import Model
from clearhead.config.decoding import DecodingConfig
from clearhead.errors import ClearheadError, InputError, suggest
from clearhead.serving import readings
from clearhead.serving.choices import Writing, choice
from clearhead.serving.describe import describe
from clearhead.serving.origin import LOOPBACK, OwnOriginOnly
from clearhead.serving.packets import pack
from clearhead.serving.passes import Pass, Passes, tokenizer_of
from clearhead.serving.questions import MOST_BYTES, Continuation, Question
from clearhead.serving.store import Gone, Store

PAGE = Path(__file__).parent / "page"
MOST_NUMBERS = 1 << 24  # in one packet
LONGEST_ERROR = 800  # characters
log = logging.getLogger(__name__)
T = TypeVar("T")
Query = dict[str, str]


class Explorer:
    """Answers the page's questions about one model."""

    def __init__(self, model: Model, name: str, folder: str, store: Store | None = None) -> None:
        self.model, self.passes = model, Passes(model)
        self.store = Store() if store is None else store
        self.structure = describe(model, name) | {"folder": folder}
        self.lock = Lock()

    def ask(self, question: Question) -> dict[str, Any]:
        """Reads a text; what the page needs to begin with."""
        with self.lock:
            seen = self.passes.ask(question)
        return {
            "name": self.store.add(seen),
            "question": question.model_dump(mode="json"),
            "tokens": {stack: [asdict(token) for token in tokens] for stack, tokens in seen.tokens.items()},
            "sites": {name: list(X.shape[1:]) for name, X in seen.trace.items()},
            "own_target": seen.own_target,
            "difference": seen.difference.size,
            "furthest": asdict(seen.difference),
            "largest": float(seen.trace["logits"].abs().max()) if "logits" in seen.trace else None,
            "seconds": seen.seconds,
            "bytes": seen.bytes,
            "norms": readings.stream_norms(seen),
            "causal": {stack: readings.stack_of(seen, stack).causal for stack in seen.ids},
            "window": {stack: readings.stack_of(seen, stack).window for stack in seen.ids},
            "scales": readings.scales(seen),
            "prediction": self.prediction(seen),
        }

    def prediction(self, seen: Pass, position: int = -1) -> list[dict[str, Any]]:
        """What the model says after a token: classes, or the likeliest next tokens."""
        if self.model.config.head == "none":
            return []
        readings.check_position(seen, seen.top, position)
        P = readings.shares(seen.trace["logits"], position)
        if self.model.config.head == "classifier":
            return readings.top_classes(self.model.reader.labels, P)
        return readings.top_tokens(tokenizer_of(self.model, seen.top), P, 10)

    def tensors(self, seen: Pass, query: Query) -> bytes:
        """Sites by name, of one head where asked for."""
        names = [name for name in query.get("sites", "").split(",") if name]
        found = {name: readings.tensor(seen, name, query.get("head")) for name in names}
        return self.packet(found)

    def packet(self, tensors: dict[str, torch.Tensor]) -> bytes:
        """Numbers for the page, refused where there are too many at once."""
        count = sum(X.numel() for X in tensors.values())
        if count > MOST_NUMBERS:
            raise InputError(
                f"These are {count} numbers; {MOST_NUMBERS} is the most in one answer.\nAsk for fewer sites."
            )
        return pack(tensors)

    def weights(self, query: Query) -> bytes:
        """Some rows and columns of a weight."""
        known = dict(self.model.module.named_parameters())
        name = query.get("name", "")
        if name not in known:
            raise InputError(f"{name} is not a weight of this model. {suggest(name, known)}")
        X = known[name].detach()
        ranges = (query.get("rows"), query.get("columns"))
        X = X[tuple(span(text) for text, _ in zip(ranges, X.shape, strict=False))]
        return self.packet({name: X})

    def reading(self, seen: Pass, what: str, query: Query) -> Any:
        """One of the readings, by name."""
        if what not in READINGS:
            raise InputError(f"{what} is not a reading. {suggest(what, READINGS)}")
        with self.lock:
            return READINGS[what](self, seen, query)

    def generation(self, request: Continuation) -> dict[str, Any]:
        """A text written on, with and without the cache."""
        self.model.generator  # refuses models that do not write  # noqa: B018
        with self.lock:
            return Writing(self.model, request).run()

    def labels(self) -> list[str]:
        """The names of the classes."""
        return self.model.reader.labels

    def choice(self, seen: Pass, query: Query) -> dict[str, Any]:
        """How the next token is chosen."""
        keys = {"temperature": float, "top_k": int, "top_p": float, "seed": int}
        settings = {key: typed(query, key, kind) for key, kind in keys.items() if query.get(key)}
        step = typed(query, "step", int) if "step" in query else 0
        tokenizer = tokenizer_of(self.model, seen.top)
        position = typed(query, "position", int) if "position" in query else -1
        return choice(seen, position, DecodingConfig(**settings), step, tokenizer)


def span(text: str | None) -> slice:
    """The rows a to b of `a:b`; all when nothing is said."""
    if not text:
        return slice(None)
    first, _, last = text.partition(":")
    if not (first.isdecimal() and last.isdecimal()):
        raise InputError(f"{text!r} is not a range such as 0:8.")
    return slice(int(first), int(last))


def typed(query: Query, key: str, kind: Callable[[str], T]) -> T:
    """A number of a query."""
    if key not in query:
        raise InputError(f"The question needs {key}.")
    try:
        return kind(query[key])
    except ValueError:
        raise InputError(f"{key} = {query[key]!r:.40} is not a number.") from None


READINGS: dict[str, Callable[[Explorer, Pass, Query], Any]] = {
    "heads": lambda explorer, seen, query: readings.head_statistics(seen),
    "prediction": lambda explorer, seen, query: explorer.prediction(seen, typed(query, "position", int)),
    "effects": lambda explorer, seen, query: readings.mute_effects(seen, typed(query, "position", int)),
    "stream": lambda explorer, seen, query: readings.stream(
        seen, query.get("stack", seen.top), typed(query, "position", int)
    ),
    "lens": lambda explorer, seen, query: readings.lens(
        seen, typed(query, "position", int), tokenizer_of(explorer.model, seen.top), explorer.labels()
    ),
    "neighbours": lambda explorer, seen, query: readings.neighbours(
        seen,
        query.get("stack", seen.top),
        typed(query, "id", int),
        tokenizer_of(explorer.model, query.get("stack", seen.top)),
    ),
    "projection": lambda explorer, seen, query: readings.projection(seen, query.get("site", "")),
    "without": lambda explorer, seen, query: readings.leave_out(seen, seen.question.text, explorer.labels()),
    "choice": lambda explorer, seen, query: explorer.choice(seen, query),
}


class Service:
    """HTTP around an `Explorer`: reads requests, writes answers, and says what went wrong."""

    def __init__(self, explorer: Explorer) -> None:
        self.explorer = explorer

    async def model(self, request: Request) -> Response:
        """The structure of the model."""
        return JSONResponse(self.explorer.structure)

    async def passes(self, request: Request) -> Response:
        """A text is read."""
        question = Question(**await body(request))
        return JSONResponse(await run_in_threadpool(self.explorer.ask, question))

    async def tensors(self, request: Request) -> Response:
        """Numbers of a pass."""
        seen, query = self.explorer.store.get(request.path_params["name"]), dict(request.query_params)
        return binary(await run_in_threadpool(self.explorer.tensors, seen, query))

    async def thumbnails(self, request: Request) -> Response:
        """Small pictures of all heads."""
        seen = self.explorer.store.get(request.path_params["name"])
        return binary(await run_in_threadpool(lambda: pack(readings.thumbnails(seen))))

    async def reading(self, request: Request) -> Response:
        """What is read off a pass."""
        seen, query = self.explorer.store.get(request.path_params["name"]), dict(request.query_params)
        what = partial(self.explorer.reading, seen, request.path_params["what"], query)
        return JSONResponse(await run_in_threadpool(what))

    async def weights(self, request: Request) -> Response:
        """A part of a weight."""
        return binary(await run_in_threadpool(self.explorer.weights, dict(request.query_params)))

    async def generations(self, request: Request) -> Response:
        """A text is written on from."""
        wanted = Continuation(**await body(request))
        return JSONResponse(await run_in_threadpool(self.explorer.generation, wanted))


async def body(request: Request) -> dict[str, Any]:
    """The JSON object that a request holds; refused where it is too large, of another type, or none."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise InputError("The body must be application/json.")
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MOST_BYTES:
            raise InputError(f"The request is longer than {MOST_BYTES} bytes, the most that is read.")
        parts.append(part)
    try:
        values = json.loads(b"".join(parts))
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise InputError("The body must be one JSON object.")
    return values


def binary(content: bytes) -> Response:
    """A packet."""
    return Response(content, media_type="application/octet-stream")


async def front_page(request: Request) -> Response:
    """The page itself."""
    return FileResponse(PAGE / "index.html")


async def say(request: Request, error: Exception) -> Response:
    """An error that the reader can mend."""
    status, said = 404 if isinstance(error, Gone) else 422, str(error)
    if len(said) > LONGEST_ERROR:  # it repeats a text that was too long
        said = f"{said[: LONGEST_ERROR // 2]} … {said[-LONGEST_ERROR // 2 :]}"
    return JSONResponse({"error": said}, status_code=status)


async def admit(request: Request, error: Exception) -> Response:
    """A fault of ours: logged here in full, named to the reader."""
    log.exception("the explorer failed", exc_info=error)
    return JSONResponse({"error": f"The service failed: {type(error).__name__}."}, status_code=500)


def explorer_app(
    model: Model, name: str = "model", folder: str = "MODEL", hosts: tuple[str, ...] = LOOPBACK
) -> Starlette:
    """The page and its service for one model; `hosts` are the names under which it may be reached."""
    service = Service(Explorer(model, name, folder))
    handlers: dict[Any, Callable[[Request, Exception], Awaitable[Response]]]
    handlers = {ClearheadError: say, Exception: admit}
    return Starlette(
        routes=[
            Route("/", front_page),
            Route("/api/model", service.model),
            Route("/api/passes", service.passes, methods=["POST"]),
            Route("/api/passes/{name}/tensors", service.tensors),
            Route("/api/passes/{name}/thumbnails", service.thumbnails),
            Route("/api/passes/{name}/{what}", service.reading),
            Route("/api/weights", service.weights),
            Route("/api/generations", service.generations, methods=["POST"]),
            Mount("/page", StaticFiles(directory=PAGE)),
        ],
        middleware=[Middleware(OwnOriginOnly, hosts=hosts)],
        exception_handlers=handlers,
    )
