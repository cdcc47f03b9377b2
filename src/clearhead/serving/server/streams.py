"""Bodies, streams, and clients that leave: what the routes share."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from clearhead.serving.bodies import content_of, is_json
from clearhead.serving.server.faults import Refused
from clearhead.serving.server.schemas import Kind, parse
from clearhead.serving.server.service import Service
from clearhead.serving.sockets import Way

SMALL = 1 << 14  # bytes that take less time to parse than to hand to another thread
Found = TypeVar("Found")


async def read_body(request: Request, kind: type[Kind], service: Service) -> Kind:
    """The checked body of a request."""
    if not is_json(request):
        raise Refused("The body must be application/json.", 415)
    content = await content_of(request, service.settings.body_bytes)
    if len(content) <= SMALL:
        return parse(kind, content)
    return await service.prepare(lambda: parse(kind, content))


async def until_left(receive: Receive, work: Awaitable[Found]) -> Found:
    """The result of some work, which is cancelled if the client leaves."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(left(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def left(receive: Receive) -> None:
    """Ends when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(Response):
    """Server-sent events; a client that leaves, or reads too slowly, ends them."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes], begin: Callable[[Way], None]) -> None:
        super().__init__()
        self.events, self.begin = events, begin
        del self.headers["content-length"]
        self.headers["x-accel-buffering"] = "no"  # nginx passes events on at once

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the events; whoever makes them is given the short way to the connection, where there is one."""
        way: Way | None = scope.get("clearhead.way")

        async def write() -> None:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            if way is not None:
                self.begin(way)
            async for event in self.events:
                if way is not None and way.is_open:
                    way.write(event)
                else:
                    await send({"type": "http.response.body", "body": event, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})

        try:
            await until_left(receive, write())
        except ClientDisconnect:
            pass
        finally:
            await self.events.aclose()  # type: ignore[attr-defined]
