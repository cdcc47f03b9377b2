"""Who may ask, and what a browser may do with the answer.

A page of another site must not reach a service on this machine, also not by a name that it lets point here
(DNS rebinding): the Host of a request has to be one of ours, and its Origin the same as its Host. Answers
forbid everything that does not come from the service itself.
"""

from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "::1")
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class OwnOriginOnly:
    """Refuses requests that come by a foreign name or from a foreign page, and marks every answer."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = LOOPBACK) -> None:
        self.app, self.hosts = app, frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes on what is ours."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        reason = self.refusal(Headers(scope=scope))
        answer = self.app if reason is None else PlainTextResponse(reason, status_code=403)
        await answer(scope, receive, marked)

    def refusal(self, headers: Headers) -> str | None:
        """Why a request is refused, if it is."""
        host = headers.get("host", "")
        if hostname(f"//{host}") not in self.hosts:
            return f"The host {host!r} is not one of this service: {', '.join(sorted(self.hosts))}."
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return f"A page of {origin!r} may not ask this service."
        is_link = headers.get("sec-fetch-dest") == "document"  # somebody followed a link to the page
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not is_link:
            return "A page of another site may not ask this service."
        return None


def hostname(address: str) -> str | None:
    """The name in an address, without a port."""
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None
