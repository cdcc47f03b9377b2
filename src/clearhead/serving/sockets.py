"""Serves an app on a socket of this machine: bounded connections, a bounded end, and no log of what clients do.

Connections are counted when they are accepted, since asyncio logs a traceback, hundreds of times, for every one that
finds no file handle. Those over the limit, and those for which none is left, are closed at once; those that send no
request, within `IDLE_SECONDS`. Ctrl-C waits
`LAST_SECONDS` for answers; then `run` returns, and what a thread still computes is abandoned.
"""

import asyncio
import errno
import os
import socket
from asyncio import BaseTransport, Transport
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

MOST_CONNECTIONS = 1024
BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 27\r\n\r\n"
    b"too many open connections.\n"
)
IDLE_SECONDS = 10.0
LAST_SECONDS = 2
OTHER_FILES = 24  # handles for the files of the page, and what libraries open
# Read before whatever else has arrived: a supervisor that gets no answer may end the server.
URGENT = b"GET /health/"
TURN_SECONDS = 0.002  # of reading, before the loop looks again at what else there is
READ_BYTES = 1 << 16  # of a connection at a time: what is in many small pieces must not hold up the others


class BoundedListener(socket.socket):
    """A listening socket that closes connections over a limit as soon as they are accepted."""

    def __init__(self, most: int = MOST_CONNECTIONS) -> None:
        super().__init__()
        self.most, self._open = most, list[socket.socket]()
        self._spare: int | None = os.open(
            os.devnull, os.O_RDONLY
        )  # a handle to refuse the next connection with

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection; none if there are too many open ones."""
        try:
            connection, address = super().accept()
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or self._spare is None:
                raise
            self.give_up_spare()
            try:
                refuse(super().accept()[0])
            finally:
                with suppress(OSError):  # another thread was faster: the next connection waits
                    self._spare = os.open(os.devnull, os.O_RDONLY)
            raise ConnectionAbortedError("no file handle is left") from None
        if len(self._open) >= self.most:
            self._open = [one for one in self._open if one.fileno() >= 0]
        if len(self._open) >= self.most:
            refuse(connection)
            raise ConnectionAbortedError("too many open connections")
        self._open.append(connection)
        return connection, address

    def give_up_spare(self) -> None:
        """Closes the spare handle."""
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None

    def close(self) -> None:
        """Closes the socket."""
        self.give_up_spare()
        super().close()


def refuse(connection: socket.socket) -> None:
    """Says that the server is busy, if that can be said at once, and closes a connection."""
    with suppress(OSError):  # nobody waits for it to be taken
        connection.settimeout(0)
        connection.send(BUSY)
    connection.close()


class IdleProtocol(H11Protocol):
    """HTTP that closes a connection on which no request has arrived for a while, not even the first."""

    def __init__(self, *given: Any, turns: "Turns", **named: Any) -> None:
        super().__init__(*given, **named)
        self.turns, self.unread = turns, 0  # pieces that have arrived and wait for their turn

    def connection_made(self, transport: BaseTransport) -> None:
        """Starts to watch the connection."""
        assert isinstance(transport, Transport)
        transport.max_size = READ_BYTES  # type: ignore[attr-defined]  # of asyncio's own transport
        super().connection_made(transport)
        self.last_cycle: RequestResponseCycle | None = None
        self.watch()

    def data_received(self, data: bytes) -> None:
        """Reads what has arrived when it is its turn; what asks for the health of the server, at once."""
        if data.startswith(URGENT) and not self.unread:
            super().data_received(data)
            return
        self._unset_keepalive_if_required()
        self.unread += 1
        self.transport.pause_reading()
        self.turns.wait(self.loop, partial(self.read, data))

    def read(self, data: bytes) -> None:
        """Reads what has arrived."""
        self.unread -= 1
        if self.transport.is_closing():
            return
        try:
            super().data_received(data)
        except BaseException:
            self.transport.abort()  # or it would stay, and read nothing more
            raise
        if not (self.unread or self.flow.read_paused):
            self.transport.resume_reading()

    def watch(self) -> None:
        """Looks again in a while."""
        self.timer = self.loop.call_later(IDLE_SECONDS, self.close_if_idle)

    def close_if_idle(self) -> None:
        """Closes the connection if it had no request under way, now and the time before."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is self.last_cycle and (cycle is None or cycle.response_complete):
            self.transport.close()
        else:
            self.last_cycle = cycle
            self.watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops watching."""
        self.timer.cancel()
        super().connection_lost(exc)


class Turns:
    """What arrives at the same moment is read a few pieces at a time; in between the loop does what else there is."""

    def __init__(self) -> None:
        self.waiting: deque[Callable[[], object]] = deque()
        self.is_due = False

    def wait(self, loop: asyncio.AbstractEventLoop, read: Callable[[], object]) -> None:
        """Queues a piece."""
        self.waiting.append(read)
        if not self.is_due:
            self.is_due = True
            loop.call_soon(self.next, loop)

    def next(self, loop: asyncio.AbstractEventLoop) -> None:
        """Reads for a moment."""
        end = loop.time() + TURN_SECONDS
        try:
            while self.waiting and loop.time() < end:
                self.waiting.popleft()()
        finally:
            self.is_due = bool(self.waiting)
            if self.is_due:
                loop.call_soon(self.next, loop)


class Way:
    """A short way from a stream to its connection: past what wraps `send`, which costs more than the writing."""

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self.cycle = cycle

    @property
    def is_open(self) -> bool:
        """Whether the connection takes more; if not, a piece must be sent, which may take time."""
        return not (self.cycle.flow.write_paused or self.cycle.disconnected)

    def write(self, content: bytes) -> None:
        """Writes a piece of an answer that has begun and has no length."""
        if content:  # a piece of no bytes ends an answer
            self.cycle.transport.write(b"%x\r\n%b\r\n" % (len(content), content))


class ShortWays:
    """Offers streams a short way to their connections."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, with `clearhead.way` where its answer comes in chunks."""
        cycle = getattr(send, "__self__", None)
        if isinstance(cycle, RequestResponseCycle) and scope["http_version"] == "1.1":
            scope["clearhead.way"] = Way(cycle)
        await self.app(scope, receive, send)


def server_for(app: ASGIApp, last_seconds: int = LAST_SECONDS) -> uvicorn.Server:
    """A server for `run(sockets=[listener])`; the app logs its own faults, and clients' are not logged."""
    settings = uvicorn.Config(
        ShortWays(app),
        loop="asyncio",  # whose server calls `accept` of the listener
        http=partial(IdleProtocol, turns=Turns()),  # type: ignore[arg-type]
        ws="none",
        lifespan="off",
        log_level="critical",
        server_header=False,
        backlog=512,  # a connection that finds no place in it is tried again after a second
        timeout_graceful_shutdown=last_seconds,
    )
    return uvicorn.Server(settings)


def most_connections() -> int:
    """How many connections there are file handles for, up to `MOST_CONNECTIONS`."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        used = len(os.listdir("/dev/fd"))
    except (ImportError, OSError):  # not on Windows
        return MOST_CONNECTIONS
    if limit == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(4, min(MOST_CONNECTIONS, limit - used - OTHER_FILES))
