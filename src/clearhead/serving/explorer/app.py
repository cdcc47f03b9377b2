"""The explorer's HTTP interface: an ASGI app of its own, for `clearhead explore`, and to be mounted by a server.

    GET  /                                   the page, and page/… its files
    GET  page/saved.html                     the page as one file, without answers
    GET  api/model                           the structure of the model
    POST api/passes                          runs the model on a text: tokens, sites, predictions, and a name
    GET  api/passes/NAME/tensors?sites=a,b   numbers, as a packet (see `page.service.packets`); &head=2&rows=5:8 a part
    GET  api/passes/NAME/thumbnails          small pictures of all heads, as a packet
    GET  api/passes/NAME/WHAT                what is read off the pass (see `page.service.service`)
    GET  api/weights?name=…&rows=a:b         a part of a weight, as a packet
    POST api/generations                     continues a prompt, with the cache and without
    GET  api/lessons?language=en             the lessons for this model
    GET  api/lessons/NAME/STEP?language=en   one step: its texts, the state that it sets, its question

JSON for structure, packets for numbers. One pass runs at a time; answers that need no model do not wait for it.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from clearhead.api import Model
from clearhead.errors import ClearheadError, InputError
from clearhead.inspection.kept_models import KeptModel
from clearhead.inspection.passes import Pass
from clearhead.page import page_files
from clearhead.page.one_file import one_file
from clearhead.page.service.lessons import Lessons
from clearhead.page.service.pass_cache import PassExpired
from clearhead.page.service.requests import MOST_BYTES, GenerationRequest, PassRequest
from clearhead.page.service.service import ExplorerService
from clearhead.serving.access_token import TokenRequired
from clearhead.serving.bodies import content_of, is_json
from clearhead.serving.origin import LOOPBACK, OwnOriginOnly
from clearhead.serving.server.access import KeyRequired, Keys

LONGEST_ERROR = 800  # characters
LONGEST_LANGUAGE = 8  # letters of its name
READERS = 4  # threads that read off passes
log = logging.getLogger(__name__)
Result = TypeVar("Result")


class Endpoints:
    """HTTP around an `ExplorerService`: reads requests and writes answers."""

    def __init__(self, service: ExplorerService, lessons: Path | None = None) -> None:
        self.service, self.files = service, page_files()
        self.lessons = Lessons(service, lessons)
        # What waits for a thread waits in a queue, from which Ctrl-C removes it.
        self.model_thread = ThreadPoolExecutor(1, "model")
        self.readers = ThreadPoolExecutor(READERS, "reader")

    async def page(self, request: Request) -> Response:
        """The page, or one of its files."""
        file = self.files.get(request.path_params.get("path", "index.html"))
        if file is None:
            raise HTTPException(404)
        return FileResponse(file)

    async def saved(self, request: Request) -> Response:
        """The page as one file, into which the browser puts the answers that it has."""
        return HTMLResponse(one_file({}))

    async def model(self, request: Request) -> Response:
        """The structure of the model."""
        return JSONResponse(self.service.structure)

    async def passes(self, request: Request) -> Response:
        """Runs the model on a text."""
        wanted = PassRequest(**await body(request))
        return answer(await inside(self.model_thread, partial(self.service.run_pass, wanted)))

    async def tensors(self, request: Request) -> Response:
        """Numbers of a pass."""
        captured, query = self.captured(request), dict(request.query_params)
        return binary(await inside(self.readers, partial(self.service.tensors, captured, query)))

    async def thumbnails(self, request: Request) -> Response:
        """Small pictures of all heads."""
        captured = self.captured(request)
        return binary(await inside(self.model_thread, partial(self.service.thumbnails, captured)))

    async def reading(self, request: Request) -> Response:
        """What is read off a pass."""
        captured, query = self.captured(request), dict(request.query_params)
        what = request.path_params["what"]
        return answer(await inside(self.model_thread, partial(self.service.reading, captured, what, query)))

    async def weights(self, request: Request) -> Response:
        """A part of a weight."""
        query = dict(request.query_params)
        return binary(await inside(self.readers, partial(self.service.weights, query)))

    async def generations(self, request: Request) -> Response:
        """Continues a prompt."""
        wanted = GenerationRequest(**await body(request))
        return answer(await inside(self.model_thread, partial(self.service.generate, wanted)))

    async def lesson_list(self, request: Request) -> Response:
        """The lessons for this model."""
        return answer(self.lessons.listing(language_of(request)))

    async def lesson_step(self, request: Request) -> Response:
        """One step of a lesson."""
        name, number = request.path_params["name"], request.path_params["number"]
        work = partial(self.lessons.step, name, number, language_of(request))
        return answer(await inside(self.model_thread, work))

    def captured(self, request: Request) -> Pass:
        """The pass that a request names."""
        return self.service.cache.get(request.path_params["name"])


def language_of(request: Request) -> str:
    """The language that a request asks for: a short word, as it becomes part of a path."""
    asked = request.query_params.get("language", "en")
    return asked if asked.isalpha() and len(asked) <= LONGEST_LANGUAGE else "en"


async def body(request: Request) -> dict[str, Any]:
    """The JSON object of a request; rejected where it is too large, of another type, or missing."""
    if not is_json(request):
        raise InputError("The body must be application/json.")
    content = await content_of(request, MOST_BYTES)
    try:
        values = json.loads(content)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise InputError("The body must be one JSON object.")
    return values


async def inside(threads: ThreadPoolExecutor, work: Callable[[], Result]) -> Result:
    """The result of some work, done in one of these threads."""
    return await asyncio.get_running_loop().run_in_executor(threads, work)


def answer(values: Any) -> Response:
    """JSON, which has no NaN: a model that computes one is reported."""
    try:
        return JSONResponse(values)
    except ValueError:
        raise InputError(
            "The model computes NaN or infinity for this text, so it cannot be shown.\nCheck its weights."
        ) from None


def binary(content: bytes) -> Response:
    """A packet."""
    return Response(content, media_type="application/octet-stream")


async def report_error(request: Request, error: Exception) -> Response:
    """An error that the user can fix."""
    status, message = 404 if isinstance(error, PassExpired) else 422, str(error)
    if len(message) > LONGEST_ERROR:  # it repeats a text that was too long
        message = f"{message[: LONGEST_ERROR // 2]} … {message[-LONGEST_ERROR // 2 :]}"
    return JSONResponse({"error": message}, status_code=status)


async def report_leaving(request: Request, error: Exception) -> Response:
    """A client that left before its request was complete: nobody reads this."""
    return Response(status_code=400)


async def report_fault(request: Request, error: Exception) -> Response:
    """A bug: logged here in full, and named to the user."""
    log.exception("the explorer failed", exc_info=error)
    return JSONResponse({"error": f"The service failed: {type(error).__name__}."}, status_code=500)


def explorer_app(
    model: Model,
    name: str = "model",
    folder: str = "MODEL",
    hosts: tuple[str, ...] = LOOPBACK,
    token: str | None = None,
    keys: Keys | None = None,
    lessons: Path | None = None,
    kept: Sequence[KeptModel] = (),
) -> Starlette:
    """The page and its service for one model, under the names `hosts`; requests need the token or a key, if given.

    `lessons` is a folder with lessons of one's own, `kept` are models of the same run after some of its steps.
    """
    endpoints = Endpoints(ExplorerService(model.bundle, name, folder, kept=kept), lessons)
    handlers: dict[Any, Callable[[Request, Exception], Awaitable[Response]]]
    handlers = {ClearheadError: report_error, ClientDisconnect: report_leaving, Exception: report_fault}
    access = [Middleware(OwnOriginOnly, hosts=hosts)]
    if token is not None:
        access.append(Middleware(TokenRequired, token=token))
    if keys is not None:
        access.append(Middleware(KeyRequired, keys=keys))
    return Starlette(
        routes=[
            Route("/", endpoints.page),
            Route("/page/saved.html", endpoints.saved),
            Route("/page/{path:path}", endpoints.page),
            Route("/api/model", endpoints.model),
            Route("/api/passes", endpoints.passes, methods=["POST"]),
            Route("/api/passes/{name}/tensors", endpoints.tensors),
            Route("/api/passes/{name}/thumbnails", endpoints.thumbnails),
            Route("/api/passes/{name}/{what}", endpoints.reading),
            Route("/api/weights", endpoints.weights),
            Route("/api/lessons", endpoints.lesson_list),
            Route("/api/lessons/{name}/{number:int}", endpoints.lesson_step),
            Route("/api/generations", endpoints.generations, methods=["POST"]),
        ],
        middleware=access,
        exception_handlers=handlers,
    )
