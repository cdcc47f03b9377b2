"""Who may send requests, and what a browser may do with the answers.

A page of another site must not reach a service on this machine, not even by a name that it lets point here
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
    """Rejects requests for a foreign host or from a foreign page, and sets the headers of every answer."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = LOOPBACK) -> None:
        self.app, self.hosts = app, frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes on requests from this service's own page."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        reason = self.rejection(Headers(scope=scope))
        answer = self.app if reason is None else PlainTextResponse(reason, status_code=403)
        await answer(scope, receive, with_headers)

    def rejection(self, headers: Headers) -> str | None:
        """Why a request is rejected, if it is."""
        host = headers.get("host", "")
        if hostname(f"//{host}") not in self.hosts:
            return (
                f"This service does not answer to the host {host!r}, only to {', '.join(sorted(self.hosts))}."
            )
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return f"A page from {origin!r} may not send requests to this service."
        is_link = headers.get("sec-fetch-dest") == "document"  # somebody followed a link to the page
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not is_link:
            return "A page from another site may not send requests to this service."
        return None


def hostname(address: str) -> str | None:
    """The name in an address, without a port."""
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None
