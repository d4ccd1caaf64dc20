"""What a route is, and what passes through one: the table of these is all there is to know of the HTTP side.

The application dispatches by it, the OpenAPI document and the reference page are written from it, the matrix of permissions is read off it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct
from starlette.types import Receive, Scope, Send

from perdure.core.principal import Permission, Principal

Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE", "WEBSOCKET"]

JSON: Final = b"application/json"

encode: Final = msgspec.json.Encoder().encode


class NoQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A route without query parameters."""


@dataclass(slots=True, eq=False)
class HttpRequest:
    """One request that was let in. `query` and `body` are Structs of the route's own types, `path` has its parameters decoded."""

    scope: Scope
    receive: Receive
    id: str
    """The request id: the caller's `X-Request-Id`, or a fresh one."""
    headers: Mapping[str, str]
    """By lower-case name; values as latin-1, as they came."""
    principal: Principal
    path: Mapping[str, str]
    query: Any = None
    body: Any = None


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What is sent back."""

    body: bytes
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()
    content_type: bytes = JSON


def answer(value: object, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()) -> HttpAnswer:
    """A value as JSON. Payloads in it go out as they are."""
    return HttpAnswer(encode(value), status, headers)


Handler: TypeAlias = Callable[[HttpRequest], Awaitable[HttpAnswer]]
Streamer: TypeAlias = Callable[[HttpRequest, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method of one path. Either `handler` answers it whole, or `stream` speaks ASGI itself: a WebSocket, a stream of events."""

    method: Method
    path: str
    """With parameters in braces, each a whole segment: `/api/v1/workflows/{workflow_id}`."""
    name: str
    """What the OpenAPI document calls the operation."""
    summary: str
    description: str = ""
    tag: str
    permission: Permission | None
    """None: anyone may ask, also without a key, and also while the node starts or stops. For probes and this API's description."""
    handler: Handler | None = None
    stream: Streamer | None = None
    query: type[Struct] = NoQuery
    body: type[Struct] | None = None
    is_body_optional: bool = False
    """An empty body counts as `{}`."""
    answers: Mapping[int, Any] = field(default_factory=dict[int, Any])
    """What comes back, by status: a type, or None where it is no JSON."""
    content_type: str = "application/json"
    errors: tuple[str, ...] = ()
    """Codes of what may go wrong beside what may go wrong with any request."""
    takes_idempotency_key: bool = False

    def __post_init__(self) -> None:
        assert (self.handler is None) != (self.stream is None), self.name
