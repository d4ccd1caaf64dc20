"""How the HTTP side says no: the one envelope of every error, and the one table from error codes to statuses.

Nothing here knows a route. An error that is none of perdure's own becomes `PERDURE_ERROR` before it comes here; its text never leaves.
"""

import math
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from perdure.core.errors import PerdureError

STATUS: Final[dict[str, int]] = {
    "PERDURE_ERROR": 500,
    "APPLICATION_ERROR": 422,
    "ACTIVITY_ERROR": 422,
    "CHILD_WORKFLOW_ERROR": 422,
    "WORKFLOW_FAILED": 422,
    "WORKFLOW_CANCELLED": 422,
    "WORKFLOW_TERMINATED": 422,
    "WORKFLOW_TIMED_OUT": 422,
    "WORKFLOW_CLOSED": 409,
    "WORKFLOW_ALREADY_STARTED": 409,
    "ALREADY_EXISTS": 409,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "LIMIT_EXCEEDED": 422,
    "UNAVAILABLE": 503,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "HISTORY_DAMAGED": 409,
    "NONDETERMINISM": 409,
    "CODEC_ERROR": 422,
    "INVALID_ARGUMENT": 400,
    "PAYLOAD_TOO_LARGE": 413,
    "OUTSIDE_CONTEXT": 500,
}
"""Which status an error has, by its code. Every class of `core.errors` is here; a test sees to that."""

OWN: Final[dict[str, int]] = {
    "METHOD_NOT_ALLOWED": 405,
    "REQUEST_TIMEOUT": 408,
    "URL_TOO_LONG": 414,
    "UNSUPPORTED_MEDIA_TYPE": 415,
    "HEADERS_TOO_LARGE": 431,
}
"""Codes that speak of HTTP alone: no class of perdure stands for them."""

RETRY_AFTER_S: Final = 1
"""What a 503 says, which does not know better."""


class ErrorBody(Struct, frozen=True, kw_only=True):
    """What went wrong. `code` is stable, `message` is for people, `details` has the error's own fields where it has any."""

    code: str
    message: str
    details: dict[str, Any] | UnsetType = UNSET
    request_id: str


class ErrorEnvelope(Struct, frozen=True, kw_only=True):
    """The body of every answer that is an error."""

    error: ErrorBody


class Refusal(Exception):  # noqa: N818  it is an answer, like `NotFound`
    """A request that HTTP itself refuses: a method, a size, a form. Never leaves the server package."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        is_last: bool = False,
        details: dict[str, Any] | None = None,
    ) -> None:
        """`is_last`: the connection is closed after it, because what follows on it cannot be told apart."""
        super().__init__(message)
        self.code = code
        self.status = STATUS.get(code) or OWN[code]
        self.message = message
        self.headers = headers
        self.is_last = is_last
        self.details = details or {}


_encode: Final = msgspec.json.Encoder().encode


def envelope(code: str, message: str, request_id: str, details: dict[str, Any] | None = None) -> bytes:
    """The JSON text of an error."""
    body = ErrorBody(code=code, message=message, details=details or UNSET, request_id=request_id)
    try:
        return _encode(ErrorEnvelope(error=body))
    except UnicodeEncodeError:  # a lone surrogate of the caller's own words
        clean = message.encode(errors="backslashreplace").decode()
        return _encode(ErrorEnvelope(error=ErrorBody(code=code, message=clean, request_id=request_id)))


def status_of(error: PerdureError) -> int:
    """The status of an error; of a class this version does not know, 500."""
    return STATUS.get(error.code, 500)


def details_of(error: PerdureError) -> dict[str, Any]:
    """The fields of an error that say something: `run_id`, `column`, `retry_after`, …"""
    return {name: value for name, value in vars(error).items() if isinstance(value, (str, int, float)) and value}


def headers_of(error: PerdureError) -> tuple[tuple[bytes, bytes], ...]:
    """What an error says beside its body: when to come back, or that a key is needed."""
    status = status_of(error)
    if status == 429:
        return (retry_after(getattr(error, "retry_after", RETRY_AFTER_S)),)
    if status == 503:
        return (retry_after(RETRY_AFTER_S),)
    return ((b"www-authenticate", b"Bearer"),) if status == 401 else ()


def retry_after(seconds: float) -> tuple[bytes, bytes]:
    """The header, in whole seconds, rounded up: never sooner than the error said."""
    return b"retry-after", b"%d" % max(1, math.ceil(seconds))
