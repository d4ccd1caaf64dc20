"""What a caller says to a run (a signal, a query, an update), taken apart into a name and payloads.

It may be a call of a handler, a handler with positional arguments, or a name with plain values.
"""

from typing import Any

from perdure.core.errors import InvalidArgument
from perdure.core.payload import Payload
from perdure.sdk.handlers import Handler, HandlerCall
from perdure.sdk.options import identifier
from perdure.sdk.payloads import CONVERTER


def message_of(
    said: Any, args: tuple[Any, ...], keywords: dict[str, Any], handler: type[Handler[..., Any]], call: type[HandlerCall]
) -> tuple[str, tuple[Payload, ...], dict[str, Payload]]:
    """Name, positional payloads and payloads by name. `handler` and `call` are the classes of its kind.

    Raises `TypeError` for arguments the handler does not take, `InvalidArgument` for anything of another kind.
    """
    kind = handler.kind
    if isinstance(said, call):
        if args or keywords:
            raise InvalidArgument(f"{said!r} has its arguments already")
        return said.handler.name, *said.bind()
    if isinstance(said, handler):
        return said.name, *said.bind(args, keywords)
    if isinstance(said, str):
        name = identifier(said, f"{kind} name")
        return name, *_plain(name, kind, args, keywords)
    raise InvalidArgument(f"expected a {kind} call, a {kind} of a workflow class or a name, not {said!r}")


def _plain(
    name: str, kind: str, args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[tuple[Payload, ...], dict[str, Payload]]:
    if kind == "signal":
        return _signal_value(name, args, keywords), {}
    if keywords:
        raise TypeError(f"a {kind} by name takes positional arguments only, not {sorted(keywords)}")
    return tuple(CONVERTER.encode(value, f"{kind} {name} argument {place}") for place, value in enumerate(args, 1)), {}


def _signal_value(name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Payload, ...]:
    """A signal by name has one value, which may be given as `value=`, or none."""
    given = [*args, *(value for key, value in keywords.items() if key == "value")]
    if len(given) != len(args) + len(keywords) or len(given) > 1:
        raise TypeError(f"signal {name} by name takes one value, not {len(args) + len(keywords)}")
    return tuple(CONVERTER.encode(value, f"signal {name}") for value in given)
