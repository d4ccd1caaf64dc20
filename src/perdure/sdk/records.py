"""Records: types that are written field by field - Structs, dataclasses, attrs and pydantic classes, TypedDict, NamedTuple.

What their fields are called on both sides of the JSON, and how one is built from them. attrs and pydantic are recognised, never imported.
"""

import sys
import typing
from collections.abc import Callable, Iterable
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from typing import Any

from msgspec import Struct

_fields_of: dict[type, tuple[str, ...]] = {}


def pydantic_model(cls: Any) -> bool:
    """True for a pydantic model class; pydantic itself is only looked for, never imported."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(cls, type) and issubclass(cls, pydantic.BaseModel)


def field_names(cls: Any) -> tuple[str, ...]:
    """The attributes that are encoded of an instance of `cls`: Struct, dataclass, attrs or pydantic; empty for anything else."""
    names = _fields_of.get(cls)
    if names is None:
        names = _fields_of[cls] = tuple(_find_fields(cls))
    return names


def _find_fields(cls: Any) -> Iterable[str]:
    if _is_subclass(cls, Struct):
        return cls.__struct_fields__  # type: ignore[no-any-return]
    if is_dataclass(cls):
        return (field.name for field in dataclass_fields(cls))
    if hasattr(cls, "__attrs_attrs__"):
        return (attribute.name for attribute in cls.__attrs_attrs__)
    return tuple(cls.model_fields) if pydantic_model(cls) else ()


def has_hidden_fields(cls: Any) -> bool:
    """True for an attrs class with private attributes: the encoder leaves those out, though the decoder asks for them."""
    return any(attribute.name.startswith("_") for attribute in getattr(cls, "__attrs_attrs__", ()))


def json_fields(cls: Any) -> dict[str, str] | None:
    """Key in JSON → attribute, in order, of a record whose parts can be read one by one; None for every other type."""
    if not isinstance(cls, type) or pydantic_model(cls):
        return None
    if _is_subclass(cls, Struct):
        struct: Any = cls
        if struct.__struct_config__.array_like:
            return None
        return dict(zip(struct.__struct_encode_fields__, struct.__struct_fields__, strict=True))
    if typing.is_typeddict(cls):
        return {name: name for name in typing.get_type_hints(cls)}
    if _is_subclass(cls, tuple) and hasattr(cls, "_fields"):
        named: Any = cls
        return {name: name for name in named._fields}
    names = field_names(cls)
    return {name: name for name in names} if names or is_dataclass(cls) else None


def key_set(hint: Any) -> frozenset[str] | None:
    """The keys an instance is written with; None for what is no record."""
    names = json_fields(typing.get_origin(hint) or hint)
    if names is not None:
        tag_field, _ = tag_of(hint)
        return frozenset([*names, tag_field] if tag_field else names)
    return frozenset(hint.model_fields) if pydantic_model(hint) else None


def tag_of(cls: Any) -> tuple[str | None, Any]:
    """The field and value that mark a tagged Struct; (None, None) without."""
    config: Any = getattr(cls, "__struct_config__", None)
    return (config.tag_field, config.tag) if config is not None else (None, None)


def builder(cls: Any, names: dict[str, str]) -> Callable[[dict[str, Any]], Any]:
    """What builds an instance from values by JSON key. What it gives raises `TypeError` when a required one is missing."""
    if typing.is_typeddict(cls):
        return _dict_builder(frozenset(cls.__required_keys__))
    attributes: list[Any] = list(getattr(cls, "__attrs_attrs__", ()))
    aliases: dict[str, str] = {attribute.name: attribute.alias for attribute in attributes}
    late: set[str] = {attribute.name for attribute in attributes if not attribute.init} | _not_in_init(cls)

    def build(given: dict[str, Any]) -> Any:
        by_name = {names[key]: part for key, part in given.items()}
        record = cls(**{aliases.get(name, name): part for name, part in by_name.items() if name not in late})
        for name in late & by_name.keys():
            object.__setattr__(record, name, by_name[name])
        return record

    return build


def _not_in_init(cls: Any) -> set[str]:
    return {field.name for field in dataclass_fields(cls) if not field.init} if is_dataclass(cls) else set()


def _dict_builder(required: frozenset[str]) -> Callable[[dict[str, Any]], Any]:
    def build(given: dict[str, Any]) -> Any:
        if missing := sorted(required - given.keys()):
            raise TypeError(f"Object missing required field `{missing[0]}`")
        return given

    return build


def _is_subclass(cls: Any, base: type) -> bool:
    """`issubclass` that leaves type checkers with Any: what the class holds is not known here."""
    return issubclass(cls, base)
