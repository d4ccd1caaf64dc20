"""Readers: how the JSON of a payload becomes a value of a hinted type. One reader per hint, built once.

Nearly every hint goes straight to a msgspec decoder. What msgspec refuses - unions of two records, of two text forms or of two arrays,
enums of other values, also deep inside - gets a reader that takes the plain JSON value apart by the hint.

Such a union is read like this: a JSON object goes to the first record of the union whose field names are exactly the object's keys (records
are written with all their fields); anything else to the first member, in the order written, that takes it. Two records with
the same field names, or `str` before another text form, cannot be told apart: give Structs a `tag`, and write the narrower type first.
"""

import enum
import functools
import inspect
import types
import typing
from collections import Counter, OrderedDict, abc, defaultdict, deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias, Union, get_args, get_origin

import msgspec
from msgspec import ValidationError, json

from perdure.core.payload import Payload
from perdure.sdk.encodable import to_encodable
from perdure.sdk.records import builder, json_fields, key_set, pydantic_model, tag_of

Reader: TypeAlias = Callable[[Payload], Any]
"""Payload in, value out; raises whatever is wrong with the payload, a `ValidationError` when it does not fit."""

Convert: TypeAlias = Callable[[Any, str], Any]
"""Plain JSON value and its path in, value out."""

read_plain: Final[Reader] = json.Decoder[Any]().decode
"""For no hint at all, and `Any`: what JSON itself knows."""

_UNHINTED: Final[Any] = (Any, object, inspect.Parameter.empty, typing.NoReturn, typing.Never)
# Typed Any, so that type checkers keep calling the narrowed value Any: what is inside is not known here.
_LIST: Final[Any] = list
_DICT: Final[Any] = dict
_SETS: Final[Any] = (set, frozenset, abc.Set, abc.MutableSet)
_LISTS: Final[Any] = (list, deque, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable)
_MAPPINGS: Final[Any] = (dict, OrderedDict, abc.Mapping, abc.MutableMapping)
_CONTAINERS: Final[dict[Any, tuple[Any, Any]]] = {
    deque: (list, deque),
    OrderedDict: (dict, OrderedDict),
    defaultdict: (dict, functools.partial(defaultdict, None)),
    Counter: (dict, Counter),
}
"""Containers msgspec leaves to us: what they are in JSON, and how they are built from it."""


def reader_of(hint: Any) -> Reader:
    """The reader for a hint. Raises `TypeError`, or `NameError` for a forward reference, when nothing can be read as that type."""
    if any(hint is unhinted for unhinted in _UNHINTED):
        return read_plain
    if pydantic_model(hint):
        return lambda payload: hint.model_validate_json(bytes(payload), by_alias=True, by_name=True)
    try:
        return _decoder(hint)
    except TypeError as refusal:
        convert = _Plan(refusal).of(hint)
        return lambda payload: convert(read_plain(payload), "$")


def _decoder(hint: Any) -> Reader:
    return json.Decoder(hint, dec_hook=read_custom).decode


def read_custom(hint: Any, plain: Any) -> Any:
    """The decoders' hook: builds what msgspec leaves to us from its plain JSON value."""
    if pydantic_model(hint):
        return hint.model_validate_json(json.encode(plain), by_alias=True, by_name=True)
    cls: Any = get_origin(hint) or hint
    if cls in _CONTAINERS:
        plain_class, build = _CONTAINERS[cls]
        args = get_args(hint)
        whole: Any = (*args, int) if cls is Counter and args else args
        return build(_convert(plain_class[whole] if args else plain_class, plain))
    if isinstance(cls, type):
        if isinstance(plain, cls):
            return plain
        if _is_text_or_number(cls, plain):
            return cls(plain)
    raise TypeError(f"nothing can be read as `{_name(hint)}`")


def _is_text_or_number(cls: Any, plain: Any) -> bool:
    """True for a subclass of `str`, `int` or `float` and a value of exactly that base."""
    return any(issubclass(cls, base) and type(plain) is base for base in (str, int, float))


def _convert(hint: Any, plain: Any) -> Any:
    return msgspec.convert(plain, hint, strict=True, str_keys=True, dec_hook=read_custom)


class _Plan:
    """Builds the `Convert` of one refused hint, part by part; parts msgspec takes stay with msgspec."""

    def __init__(self, refusal: TypeError) -> None:
        self.refusal = refusal
        self.known: dict[Any, Convert] = {}

    def of(self, hint: Any) -> Convert:
        try:
            _decoder(hint)
        except TypeError as refusal:
            self.refusal = refusal
        else:
            return _leaf(hint)
        key = (hint, repr(hint))
        if key not in self.known:
            # A type that holds itself finds this entry while its own plan is still being made.
            self.known[key] = lambda plain, path: self.known[key](plain, path)  # noqa: PLW0108  the entry changes
            self.known[key] = self._refused(hint)
        return self.known[key]

    def _refused(self, hint: Any) -> Convert:
        origin, args = get_origin(hint), get_args(hint)
        if (inner := _inside(hint)) is not hint:
            return self.of(inner)
        if origin in {Union, types.UnionType}:
            return self._union(args)
        if origin is tuple:
            return self._tuple(args)
        if origin in _SETS or origin in _LISTS:
            return _array(
                self.of(args[0]), frozenset if origin is frozenset else set if origin in _SETS else _plain_class(origin)
            )
        if origin in _MAPPINGS:
            return _mapping(_leaf(_DICT[args[0], Any]), self.of(args[1]), _plain_class(origin))
        cls: Any = origin or hint
        if isinstance(cls, type) and issubclass(cls, enum.Enum):
            return _enum(cls)
        if (names := json_fields(cls)) is not None:
            return self._record(hint, cls, names)
        raise self.refusal

    def _union(self, members: tuple[Any, ...]) -> Convert:
        tries = [(self.of(member), key_set(member)) for member in members if member is not types.NoneType]
        optional = len(tries) < len(members)
        wanted = " | ".join(_name(member) for member in members)

        def convert(plain: Any, path: str) -> Any:
            if plain is None and optional:
                return None
            exact = [one for one in tries if _has_keys(plain, one[1])]
            for member, _ in exact + tries:
                try:
                    return member(plain, path)
                except (ValueError, TypeError):
                    continue
            raise ValidationError(f"Expected `{wanted}`, got something that fits none of them - at `{path}`")

        return convert

    def _tuple(self, args: tuple[Any, ...]) -> Convert:
        if len(args) == 2 and args[1] is Ellipsis:
            return _array(self.of(args[0]), tuple)
        members = [self.of(arg) for arg in args]

        def convert(plain: Any, path: str) -> Any:
            if not isinstance(plain, _LIST) or len(plain) != len(members):
                raise ValidationError(f"Expected `array` of length {len(members)} - at `{path}`")
            parts: list[Any] = plain
            return tuple(member(part, f"{path}[{n}]") for n, (member, part) in enumerate(zip(members, parts, strict=True)))

        return convert

    def _record(self, hint: Any, cls: Any, names: dict[str, str]) -> Convert:
        hints = typing.get_type_hints(cls, include_extras=True)
        bound = dict(zip(getattr(cls, "__parameters__", ()), get_args(hint), strict=False))
        members = {key: self.of(_substituted(hints[name], bound)) for key, name in names.items()}
        build = builder(cls, names)
        positional = issubclass(cls, tuple)
        tag_field, tag = tag_of(cls)

        def convert(plain: Any, path: str) -> Any:
            found: Any = dict(zip(names, plain, strict=False)) if positional and isinstance(plain, _LIST) else plain
            if not isinstance(found, _DICT) or (tag_field and found.get(tag_field) != tag):
                raise ValidationError(f"Expected `{_name(hint)}` - at `{path}`")
            given: dict[str, Any] = found
            try:
                return build({key: member(given[key], f"{path}.{key}") for key, member in members.items() if key in given})
            except TypeError as error:
                raise ValidationError(f"{error} - at `{path}`") from error

        return convert


def _has_keys(plain: Any, keys: frozenset[str] | None) -> bool:
    return keys is not None and isinstance(plain, _DICT) and keys == plain.keys()


def _leaf(hint: Any) -> Convert:
    def convert(plain: Any, path: str) -> Any:
        try:
            return _convert(hint, plain)
        except ValidationError as error:
            text = str(error)
            raise ValidationError(text.replace("`$", f"`{path}") if "`$" in text else f"{text} - at `{path}`") from error

    return convert


def _array(member: Convert, build: Callable[[list[Any]], Any]) -> Convert:
    def convert(plain: Any, path: str) -> Any:
        if not isinstance(plain, _LIST):
            raise ValidationError(f"Expected `array` - at `{path}`")
        parts: list[Any] = plain
        return build([member(part, f"{path}[{index}]") for index, part in enumerate(parts)])

    return convert


def _mapping(read_keys: Convert, member: Convert, build: Callable[[dict[Any, Any]], Any]) -> Convert:
    def convert(plain: Any, path: str) -> Any:
        pairs: dict[Any, Any] = read_keys(plain, path)
        return build({key: member(part, f"{path}[{key!r}]") for key, part in pairs.items()})

    return convert


def _enum(cls: type[enum.Enum]) -> Convert:
    members = {json.encode(member, enc_hook=to_encodable): member for member in cls}

    def convert(plain: Any, path: str) -> Any:
        member = members.get(json.encode(plain))
        if member is None:
            raise ValidationError(f"Invalid value of enum `{cls.__qualname__}` - at `{path}`")
        return member

    return convert


def _inside(hint: Any) -> Any:
    """What an Annotated, NewType or type alias stands for; anything else is itself."""
    if get_origin(hint) is typing.Annotated:
        return get_args(hint)[0]
    return getattr(hint, "__supertype__", None) or getattr(hint, "__value__", None) or hint


def _plain_class(origin: Any) -> Any:
    if inspect.isabstract(origin):
        return dict if origin in _MAPPINGS else list
    return origin


def _substituted(hint: Any, bound: dict[Any, Any]) -> Any:
    if hint in bound:
        return bound[hint]
    parameters = getattr(hint, "__parameters__", ())
    if bound and parameters and get_origin(hint) is not None:
        return hint[tuple(bound.get(parameter, parameter) for parameter in parameters)]
    return hint


def _name(hint: Any) -> str:
    return hint.__qualname__ if isinstance(hint, type) and not get_args(hint) else str(hint).replace("typing.", "")
