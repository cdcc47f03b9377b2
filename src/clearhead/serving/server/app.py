"""The app of the server: a service enters, an ASGI app leaves.

Every route is a line of `OPERATIONS`, which is also its description. A request passes, from the outside in: the log,
the limits, whose page it comes from, the key, and then its route.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
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


class Routes(Endpoints, TaskEndpoints):
    """The answers of every route; here those that concern the server itself."""

    def __init__(self, service: Service, keys: Keys) -> None:
        super().__init__(service)
        self.keys = keys
        self.openapi_description = describe(OPERATIONS, list(service.models))

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
        return JSONResponse(self.openapi_description)

    async def links(self, request: Request) -> Response:
        """A link that lets a browser in."""
        if not self.keys.digests:
            return JSONResponse({"path": "/"})
        return JSONResponse({"path": f"/?token={self.keys.new_link()}"})


OPERATIONS = [
    Operation(
        "GET", "/", Routes.page, "The page: what is loaded, and a box to try it.", gives=("text/html",)
    ),
    Operation("GET", "/health/live", Routes.live, "Whether the process answers; needs no key."),
    Operation("GET", "/health/ready", Routes.ready, "Whether texts are generated."),
    Operation("GET", "/metrics", Routes.metrics, "Counters for Prometheus.", gives=("text/plain",)),
    Operation("GET", "/openapi.json", Routes.openapi, "This description."),
    Operation("POST", "/links", Routes.links, "A link that lets a browser in, once."),
    Operation("GET", "/v1/models", Routes.models, "The models that are loaded."),
    Operation("GET", "/v1/models/{name}", Routes.model, "One model."),
    Operation("POST", "/v1/completions", Routes.completions, "Continues prompts.", CompletionBody, EVENTS),
    Operation("POST", "/v1/chat/completions", Routes.chat, "Answers a conversation.", ChatBody, EVENTS),
    Operation("POST", "/v1/embeddings", Routes.embeddings, "A vector for each text.", EmbeddingBody),
    Operation("POST", "/v1/translate", Routes.translate, "A translation of each text.", TranslateBody),
    Operation("POST", "/v1/classify", Routes.classify, "The class of each text.", ClassifyBody),
    Operation("POST", "/tokenize", Routes.tokenize, "The tokens of a text.", TokenizeBody),
    Operation("POST", "/detokenize", Routes.detokenize, "The text of tokens.", DetokenizeBody),
]


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
    own = Routes(service, keys)
    found: list[BaseRoute] = [
        Route(operation.path, partial(operation.answer, own), methods=[operation.method])
        for operation in OPERATIONS
    ]
    return [*found, Route("/page/{file}", own.page)]


def mounts(service: Service, hosts: tuple[str, ...]) -> list[BaseRoute]:
    """The explorer of every model."""
    return [
        Mount(f"/explore/{name}", explorer_app(model.model, name, name, hosts))
        for name, model in service.models.items()
    ]


async def nobody(request: Request, error: Exception) -> Response:
    """A client that left: nobody reads this."""
    return Response(status_code=400)
