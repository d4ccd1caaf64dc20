"""What a value must be to become JSON, seen from inside the value: its parts, their paths, and what is wrong with one of them.

Used by `payloads` around the encoder proper. Never changes a value it is given; never runs more than one look at a value that is fine.
"""

import copy
import math
import operator
from collections import deque
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, cast
from uuid import UUID

from msgspec import Raw, Struct
from msgspec.structs import force_setattr

from perdure.sdk.records import field_names, has_hidden_fields, pydantic_model

NESTING_MAX: Final = 200
"""Containers within containers. Well below what readers can follow, so that what was written can be read anywhere, at any stack depth."""

LEAVES: Final = frozenset({str, int, float, bool, type(None), bytes, bytearray, datetime, date, time, timedelta, Decimal, UUID})
"""Exact types without parts and without surprises."""

Encode = Callable[[Any], bytes]

_SETS: Final[Any] = (set, frozenset)
_UNSETTLED: Final[Any] = (set, frozenset, Raw)
_LISTS: Final[Any] = (list, tuple, deque)
_DEQUE: Final[Any] = deque
_DICT: Final[Any] = dict
_INT: Final[Any] = int
_BOOL: Final[Any] = bool
# `Any`, so that type checkers keep calling the narrowed value Any: what is inside is not known here.


def to_encodable(value: Any) -> Any:
    """What stands for a value the encoder does not know; its hook. Raises `TypeError` when nothing does."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, _INT) and not isinstance(value, _BOOL):  # a bool only arrives here as the key of a dict
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, _DEQUE):
        return list(value)
    if pydantic_model(type(value)):
        return value.model_dump(mode="json", round_trip=True, by_alias=False, warnings=False)
    raise TypeError(f"objects of type `{type(value).__qualname__}` have no JSON form")


def is_settled(value: Any, depth: int = NESTING_MAX) -> bool:
    """False when the encoder's bytes need a second look: a set (order), ready-made JSON (validity). Raises `RecursionError` too deep."""
    cls: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
    if cls in LEAVES:
        return True
    if depth <= 0:
        raise RecursionError(f"nested deeper than {NESTING_MAX} levels")
    parts = parts_of(value, cls)
    if issubclass(cls, _UNSETTLED) or cls in _with_hidden_fields:
        return False
    if LEAVES.issuperset(map(type, parts)):
        return True
    depth -= 1
    return all(type(part) in LEAVES or is_settled(part, depth) for part in parts)


def holds_non_finite(value: Any) -> bool:
    """True when a NaN or an infinity is somewhere in it: the encoder writes those as `null`."""
    if isinstance(value, float):
        return not math.isfinite(value)
    cls: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
    return cls not in LEAVES and any(holds_non_finite(part) for part in parts_of(value, cls) if part is not None)


def parts_of(value: Any, cls: type[Any]) -> Any:
    """The values directly inside `value`, whose class is `cls`; dict keys are no parts."""
    getter = _getters.get(cls)
    if getter is None:
        getter = _getters[cls] = _find_getter(cls)
    return getter(value)


_getters: dict[type[Any], Callable[[Any], Any]] = {}
_with_hidden_fields: set[type[Any]] = set()


def _find_getter(cls: type[Any]) -> Callable[[Any], Any]:
    if issubclass(cls, _DICT):
        return cast("Callable[[Any], Any]", _DICT.values)
    if issubclass(cls, _LISTS + _SETS):
        return _itself
    names = field_names(cls)
    if has_hidden_fields(cls):
        _with_hidden_fields.add(cls)
    if len(names) > 1:
        return operator.attrgetter(*names)
    return (lambda value: (getattr(value, names[0]),)) if names else (lambda _: ())


def _itself(value: Any) -> Any:
    return value


def ordered(value: Any, encode: Encode) -> Any:
    """The same value with every set as a list sorted by its members' encoded form. The value itself is never changed."""
    if type(value) in LEAVES:
        return value
    if isinstance(value, _SETS):
        members: list[Any] = [ordered(part, encode) for part in value]
        return sorted(members, key=encode) if members else value
    if isinstance(value, _DICT):
        return {key: ordered(part, encode) for key, part in value.items()}
    if isinstance(value, _LISTS):
        return [ordered(part, encode) for part in value]
    if has_hidden_fields(type(value)):
        return {name: ordered(getattr(value, name), encode) for name in field_names(type(value))}
    changed = {
        name: new for name in field_names(type(value)) if (new := ordered(old := getattr(value, name, None), encode)) is not old
    }
    return _with_fields(value, changed) if changed else value


def _with_fields(value: Any, changed: dict[str, Any]) -> Any:
    """A shallow copy with other attributes, made past `__init__`, `frozen` and validation: it lives only until it is encoded."""
    cls: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, Struct):
        twin = copy.copy(value)
        for name, part in changed.items():
            force_setattr(twin, name, part)
        return twin
    if pydantic_model(cls):
        model: Any = value.model_copy()
        model.__dict__.update(changed)
        return model
    replaced = cls.__new__(cls)
    for name in field_names(cls):
        if name in changed or hasattr(value, name):
            object.__setattr__(replaced, name, changed[name] if name in changed else getattr(value, name))
    return replaced


def flaw(value: Any, path: str, encode: Encode) -> tuple[str, str] | None:
    """Path and reason of the innermost part that cannot be encoded, first in order; None when nothing is wrong.

    Not for a value that holds itself: that is a `RecursionError` of the encoder, and no part of it is to blame.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return path, f"{float.__repr__(value)} is not a JSON number"
    for part_path, part in _named_parts(value, path):
        if (found := flaw(part, part_path, encode)) is not None:
            return found
    if isinstance(value, _DICT) and (key := _bad_key(value, encode)) is not None:
        return path, f"the key {_shown(key)} of type `{type(key).__qualname__}` cannot be a key in JSON"
    try:
        encode(value)
    except Exception as error:  # noqa: BLE001  whatever a value raises is what is wrong with it
        return path, str(error)
    return None


def _bad_key(value: Any, encode: Encode) -> Any:
    for key in value:
        try:
            encode({key: 0})
        except Exception:  # noqa: BLE001  as above
            return key
    return None


def _named_parts(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    cls: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
    if cls in LEAVES:
        return
    if isinstance(value, _DICT):
        for key, part in value.items():
            yield f"{path}[{_shown(key)}]", part
    elif isinstance(value, _LISTS):
        names = getattr(cls, "_fields", None)
        for index, part in enumerate(value):
            yield (f"{path}.{names[index]}" if names else f"{path}[{index}]"), part
    elif isinstance(value, _SETS):
        for part in value:
            yield path + "{…}", part
    else:
        for name in field_names(cls):
            yield f"{path}.{name}", getattr(value, name, None)


def _shown(key: Any) -> str:
    text = repr(key)
    return text if len(text) <= 60 else text[:57] + "..."
