"""The app of the server: a service enters, an ASGI app leaves.

Every route is a line of `OPERATIONS`, which is also its description. A request passes, from the outside in: the log,
the limits, whose page it comes from, the key, and then its route.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from clearhead.errors import ClearheadError
from clearhead.serving.explorer.app import explorer_app
from clearhead.serving.origin import LOOPBACK, OwnOriginOnly
from clearhead.serving.server.access import KeyRequired, Keys, Limited
from clearhead.serving.server.faults import Refused, answer_fault
from clearhead.serving.server.openai import Endpoints
from clearhead.serving.server.openapi import Operation, describe
from clearhead.serving.server.operations import Logged
from clearhead.serving.server.schemas import (
    ChatBody,
    ClassifyBody,
    CompletionBody,
    DetokenizeBody,
    EmbeddingBody,
    TokenizeBody,
    TranslateBody,
)
from clearhead.serving.server.service import Service
from clearhead.serving.server.tasks import TaskEndpoints

PAGE = Path(__file__).parent / "page"
EVENTS = ("application/json", "text/event-stream")
OPERATIONS = [
    Operation("GET", "/", "The page: what is loaded, and a box to try it.", gives=("text/html",)),
    Operation("GET", "/health/live", "Whether the process answers; needs no key."),
    Operation("GET", "/health/ready", "Whether texts are generated."),
    Operation("GET", "/metrics", "Counters for Prometheus.", gives=("text/plain",)),
    Operation("GET", "/openapi.json", "This description."),
    Operation("POST", "/links", "A link that lets a browser in, once."),
    Operation("GET", "/v1/models", "The models that are loaded."),
    Operation("GET", "/v1/models/{name}", "One model."),
    Operation("POST", "/v1/completions", "Continues prompts.", CompletionBody, EVENTS),
    Operation("POST", "/v1/chat/completions", "Answers a conversation.", ChatBody, EVENTS),
    Operation("POST", "/v1/embeddings", "A vector for each text.", EmbeddingBody),
    Operation("POST", "/v1/translate", "A translation of each text.", TranslateBody),
    Operation("POST", "/v1/classify", "The class of each text.", ClassifyBody),
    Operation("POST", "/tokenize", "The tokens of a text.", TokenizeBody),
    Operation("POST", "/detokenize", "The text of tokens.", DetokenizeBody),
]
Handler = Callable[[Request], Awaitable[Response]]


class OtherEndpoints:
    """The routes that concern the server itself."""

    def __init__(self, service: Service, keys: Keys) -> None:
        self.service, self.keys = service, keys
        self.description = describe(OPERATIONS, list(service.models))

    async def page(self, request: Request) -> Response:
        """The page, or one of its files."""
        name = request.path_params.get("file", "index.html")
        if name not in {file.name for file in PAGE.iterdir()}:
            raise HTTPException(404)
        return FileResponse(PAGE / name)

    async def live(self, request: Request) -> Response:
        """The process answers."""
        return JSONResponse({"status": "live"})

    async def ready(self, request: Request) -> Response:
        """Whether the decode thread works."""
        if not self.service.is_ready:
            raise Refused("The decode thread does not answer.", 503)
        return JSONResponse({"status": "ready"})

    async def metrics(self, request: Request) -> Response:
        """Counters for Prometheus."""
        return Response(self.service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def openapi(self, request: Request) -> Response:
        """The description of the routes."""
        return JSONResponse(self.description)

    async def links(self, request: Request) -> Response:
        """A link that lets a browser in."""
        if not self.keys.digests:
            return JSONResponse({"path": "/"})
        return JSONResponse({"path": f"/?token={self.keys.new_link()}"})


def server_app(
    service: Service, keys: Keys | None = None, hosts: Sequence[str] = (), explorers: bool = True
) -> Starlette:
    """The routes for the models of a service, under the names of this machine and `hosts`."""
    keys = keys or Keys()
    ours = (*LOOPBACK, *hosts)
    handlers: dict[Any, Callable[[Request, Exception], Awaitable[Response]]]
    handlers = dict.fromkeys((Refused, ClearheadError, HTTPException, ValueError, Exception), answer_fault)
    handlers[ClientDisconnect] = nobody
    return Starlette(
        routes=[*routes(service, keys), *(mounts(service, ours) if explorers else [])],
        middleware=[
            Middleware(Logged, metrics=service.metrics),
            Middleware(Limited),
            Middleware(OwnOriginOnly, hosts=ours),
            Middleware(KeyRequired, keys=keys),
        ],
        exception_handlers=handlers,
    )


def routes(service: Service, keys: Keys) -> list[BaseRoute]:
    """A route for every operation, and the files of the page."""
    texts, tasks, others = Endpoints(service), TaskEndpoints(service), OtherEndpoints(service, keys)
    handlers: dict[str, Handler] = {
        "/": others.page,
        "/health/live": others.live,
        "/health/ready": others.ready,
        "/metrics": others.metrics,
        "/openapi.json": others.openapi,
        "/links": others.links,
        "/v1/models": texts.models,
        "/v1/models/{name}": texts.model,
        "/v1/completions": texts.completions,
        "/v1/chat/completions": texts.chat,
        "/v1/embeddings": texts.embeddings,
        "/v1/translate": tasks.translate,
        "/v1/classify": tasks.classify,
        "/tokenize": tasks.tokenize,
        "/detokenize": tasks.detokenize,
    }
    found: list[BaseRoute] = [
        Route(operation.path, handlers[operation.path], methods=[operation.method])
        for operation in OPERATIONS
    ]
    return [*found, Route("/page/{file}", others.page)]


def mounts(service: Service, hosts: tuple[str, ...]) -> list[BaseRoute]:
    """The explorer of every model."""
    return [
        Mount(f"/explore/{name}", explorer_app(model.model, name, name, hosts))
        for name, model in service.models.items()
    ]


async def nobody(request: Request, error: Exception) -> Response:
    """A client that left: nobody reads this."""
    return Response(status_code=400)
