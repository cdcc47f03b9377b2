"""Who is let in: keys, links for a browser, and limits of what a request may look like before it is read.

A request carries a key as `Authorization: Bearer KEY`. A browser is let in by a link with a token that works once: the
answer stores a cookie, and leads to the address without the token.
"""

import asyncio
import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Sequence

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clearhead.errors import ConfigError
from clearhead.serving.access_token import cookie_name, new_token, without_token
from clearhead.serving.server.faults import Refused, as_json

OPEN_PATHS = ("/health/live",)  # for whoever restarts a server that is dead
SHORTEST_KEY = 16  # characters
MOST_HEADERS = 64
MOST_SESSIONS = 1024
SESSION_SECONDS = 12 * 3600.0
SEND_SECONDS = 30.0  # for a client to take what it is sent


def digest(secret: str) -> bytes:
    """What is kept of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


class Keys:
    """The keys of a server, the links that are still open, and the browsers that came by one."""

    def __init__(self, keys: Sequence[str] = ()) -> None:
        for place, key in enumerate(keys, 1):
            if len(key) < SHORTEST_KEY or not key.isascii() or not key.isprintable() or " " in key:
                raise ConfigError(
                    f"Key {place} has {len(key)} characters.\nUse at least {SHORTEST_KEY} printable ASCII characters "
                    "without spaces, such as: python -c 'import secrets; print(secrets.token_urlsafe(24))'"
                )
        self.digests = [digest(key) for key in keys]
        self._links: OrderedDict[bytes, None] = OrderedDict()
        self._sessions: OrderedDict[bytes, float] = OrderedDict()

    def knows(self, given: str) -> bytes | None:
        """The digest of a key, if it is one of ours; takes as long for any."""
        found, ours = None, digest(given)
        for known in self.digests:
            if secrets.compare_digest(known, ours):
                found = known
        return found

    def new_link(self) -> str:
        """A token that lets one browser in, once."""
        token = new_token()
        self._links[digest(token)] = None
        while len(self._links) > MOST_SESSIONS:
            self._links.popitem(last=False)
        return token

    def enter(self, token: str) -> str | None:
        """A new session for the token of a link, which then works no more."""
        if self._links.pop(digest(token), "unknown") == "unknown":
            return None
        session = new_token()
        self._sessions[digest(session)] = time.monotonic() + SESSION_SECONDS
        while len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return session

    def session(self, given: str) -> bytes | None:
        """The digest of a session, if it is open."""
        ours = digest(given)
        return ours if self._sessions.get(ours, 0.0) > time.monotonic() else None


class KeyRequired:
    """Refuses requests without a key, where there are keys."""

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self.app, self.keys = app, keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes on who may ask; the salt keeps what one key asks from others."""
        if scope["type"] != "http" or not self.keys.digests or scope["path"] in OPEN_PATHS:
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        answer: ASGIApp = self.app
        if salt := self.owner(request):
            scope["clearhead.salt"] = salt
        else:
            answer = self.entrance(request) or refused()
        await answer(scope, receive, send)

    def owner(self, request: Request) -> bytes | None:
        """Whose request it is."""
        kind, _, value = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self.keys.knows(value.strip())
        return self.keys.session(request.cookies.get(cookie_name(request), ""))

    def entrance(self, request: Request) -> Response | None:
        """Lets a browser in that comes by a link."""
        token = request.query_params.get("token", "") if request.url.path == "/" else ""
        session = self.keys.enter(token) if token else None
        if session is None:
            return None
        answer = RedirectResponse(without_token(request), status_code=303)
        # Lax, not strict: the link may be followed from elsewhere, and `OwnOriginOnly` refuses the rest.
        answer.set_cookie(
            cookie_name(request), session, int(SESSION_SECONDS), httponly=True, samesite="lax",
            secure=request.url.scheme == "https",
        )  # fmt: skip
        return answer


def refused() -> Response:
    """What a request without a key gets."""
    message = "This server needs a key.\nSend it as: Authorization: Bearer KEY"
    return JSONResponse(as_json(Refused(message, 401)), 401, {"www-authenticate": "Bearer"})


class Limited:
    """Refuses requests with too many headers, and ends answers that nobody takes."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        answer: ASGIApp = self.app
        if len(scope["headers"]) > MOST_HEADERS:
            message = f"The request has {len(scope['headers'])} headers; the limit is {MOST_HEADERS}."
            answer = JSONResponse(as_json(Refused(message, 431)), 431)
        sending = TimedSend(send)
        try:
            await answer(scope, receive, sending)
        except ClientDisconnect:
            pass
        except asyncio.CancelledError:
            if not sending.is_late:
                raise
        finally:
            sending.timer.cancel()


class TimedSend:
    """Sends messages, and cancels the task if one is not taken in time; a timer for each would cost too much."""

    def __init__(self, send: Send) -> None:
        self.send, self.since, self.is_late = send, 0.0, False
        self.task, self.loop = asyncio.current_task(), asyncio.get_running_loop()
        self.timer = self.loop.call_later(SEND_SECONDS, self.look)

    async def __call__(self, message: Message) -> None:
        """Sends a message."""
        self.since = self.loop.time()
        await self.send(message)
        self.since = 0.0

    def look(self) -> None:
        """Looks whether a message waits for too long."""
        waited = self.loop.time() - self.since if self.since else 0.0
        if waited >= SEND_SECONDS and self.task is not None:
            self.is_late = True
            self.task.cancel()
        else:
            self.timer = self.loop.call_later(SEND_SECONDS - waited, self.look)
