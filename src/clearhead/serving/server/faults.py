"""Errors as OpenAI's clients expect them: exceptions enter, a status and `{"error": {…}}` leave."""

import logging
from typing import Any

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from clearhead.config.settings import brief
from clearhead.errors import ClearheadError
from clearhead.serving.bodies import BodyTooLarge

LONGEST_MESSAGE = 800  # characters
log = logging.getLogger(__name__)


class Refused(Exception):
    """A request that is not answered: the status, why, and the field that is the reason."""

    def __init__(
        self, message: str, status: int = 400, field: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.field, self.headers = status, field, headers


KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
}


def refusal_of(error: Exception) -> Refused:
    """What a client learns of an error; what no user can cause is logged here, and not described."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, BodyTooLarge):
        return Refused(str(error), 413)
    if isinstance(error, ValidationError):
        return invalid(error)
    if isinstance(error, ClearheadError):
        return Refused(str(error))
    if isinstance(error, HTTPException):
        return Refused(str(error.detail), error.status_code, headers=dict(error.headers or {}))
    log.error("a request failed", exc_info=error)
    return Refused(f"The server failed: {type(error).__name__}.", 500)


def invalid(error: ValidationError) -> Refused:
    """A body that does not follow its schema: the first field that is wrong, of the right type if it may be several."""
    details = error.errors(include_url=False, include_context=False)
    same = [detail for detail in details if detail["loc"][:1] == details[0]["loc"][:1]]
    detail = next((one for one in same if not one["type"].endswith("_type")), details[0])
    place = [part for part in detail["loc"] if isinstance(part, int) or part.isidentifier()]
    field = ".".join(map(str, place))[:80]
    if detail["type"] == "extra_forbidden":
        return Refused(f"{field!r} is not supported by this server.\nOmit it.", field=field)
    if detail["type"] == "missing":
        return Refused(f"{field!r} is required.", field=field)
    reason = detail["msg"].removeprefix("Value error, ").removeprefix("Input should ")
    return Refused(f"{field} = {brief(detail['input'])} is invalid: it should {reason}.", field=field or None)


def as_json(refused: Refused) -> dict[str, Any]:
    """The body of an answer that refuses."""
    message = str(refused)
    if len(message) > LONGEST_MESSAGE:  # it repeats a text that was too long
        message = f"{message[: LONGEST_MESSAGE // 2]} … {message[-LONGEST_MESSAGE // 2 :]}"
    kind = KINDS.get(refused.status, "server_error")
    return {"error": {"message": message, "type": kind, "param": refused.field, "code": refused.status}}


async def answer_fault(request: Request, error: Exception) -> Response:
    """The answer to a request that failed."""
    refused = refusal_of(error)
    return JSONResponse(as_json(refused), refused.status, refused.headers)
