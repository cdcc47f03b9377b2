"""The body of a request: bytes arrive from a client, and leave within a time and a size."""

import asyncio

from starlette.requests import Request

from clearhead.errors import InputError

BODY_SECONDS = 30.0  # for a body to arrive
MOST_DISCARDED = 128 << 20  # bytes; a client that is interrupted while it sends does not see why


class BodyTooLarge(InputError):
    """The body has more bytes than are allowed."""


async def content_of(request: Request, most_bytes: int) -> bytes:
    """The bytes of a request."""
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size <= most_bytes:
                    parts.append(part)
                elif size > MOST_DISCARDED:
                    break
    except TimeoutError:
        raise InputError(f"The body of the request did not arrive within {BODY_SECONDS:.0f} s.") from None
    if size > most_bytes:
        raise BodyTooLarge(f"The request is longer than {most_bytes} bytes, the limit.")
    return b"".join(parts)


def is_json(request: Request) -> bool:
    """Whether a request says that its body is JSON; a form of another site cannot."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"
