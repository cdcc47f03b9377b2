"""A token that a request must carry, so that other users of the machine stay out.

The address that is opened has it as `?token=…`: the answer stores it as a cookie and leads to the address without it,
so that it is in no history, bookmark or link. Programs send `Authorization: Bearer TOKEN`, or `?token=…` every time.
"""

import secrets

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

REFUSAL = (
    "This service needs its token.\nOpen the address with ?token=… that `clearhead explore` has printed."
)


def new_token() -> str:
    """A token that cannot be guessed."""
    return secrets.token_urlsafe(24)


class TokenRequired:
    """Refuses requests without the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes on requests with the token; a page that is opened with it in its address gets a cookie."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        request = Request(scope) if scope["type"] == "http" else None
        answer: ASGIApp = self.app if request and self.knows(request) else refusal()
        if request and answer is self.app and request.url.path == "/" and "token" in request.query_params:
            answer = self.entrance(request)
        await answer(scope, receive, send)

    def knows(self, request: Request) -> bool:
        """Whether a request carries the token."""
        kind, _, value = request.headers.get("authorization", "").partition(" ")
        given = (
            request.query_params.get("token", ""),
            request.cookies.get(cookie_name(request), ""),
            value.strip() if kind.lower() == "bearer" else "",
        )
        return any(secrets.compare_digest(one.encode(), self.token.encode()) for one in given)

    def entrance(self, request: Request) -> Response:
        """Stores the token as a cookie and leads to the same address without it."""
        answer = RedirectResponse(without_token(request), status_code=303)
        # Lax, not strict: a link to the page may be followed, and `OwnOriginOnly` refuses the rest.
        answer.set_cookie(cookie_name(request), self.token, httponly=True, samesite="lax")
        return answer


def refusal() -> Response:
    """What a request without the token gets."""
    return PlainTextResponse(REFUSAL, status_code=403)


def without_token(request: Request) -> str:
    """The same address without its token; without a host too, which a proxy may have changed."""
    url = request.url.remove_query_params("token")
    return f"{url.path}?{url.query}" if url.query else url.path


def cookie_name(request: Request) -> str:
    """One name for each port, since a browser sends the cookies of a host to all its ports."""
    _, port = request.scope.get("server") or ("", 0)
    return f"clearhead-{port}"
