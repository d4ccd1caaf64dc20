"""From what was given to the tree: later sources win, and everything that is wrong is said at once, with where it stands."""

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import Any, Final, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from perdure.core.errors import InvalidArgument
from perdure.runtime.api_key import PREFIX
from perdure.runtime.durations import duration
from perdure.runtime.settings.given import Given, from_environment, from_file, from_flags, items_of, variable_of
from perdure.runtime.settings.outline import ANY, LEAVES, Leaf, Path, is_section, leaf_at, nearest
from perdure.runtime.settings.tree import LOCAL_NAME, Settings

FILE: Final = "perdure.toml"
"""Read from the working directory when no other file is named."""
DEFAULT: Final = "default"
"""The source of what nobody has set."""
FOREVER: Final = "forever"
_KEY_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Value(Struct, frozen=True):
    """What a key is, and where that was said."""

    value: Any
    source: str
    is_secret: bool


class Loaded(Struct, frozen=True):
    """The tree, and each key of it with its source, in order. `file` is the one that was read, None for none."""

    settings: Settings
    values: Mapping[str, Value]
    file: FilePath | None


def load(config: FilePath | None, environment: Mapping[str, str], flags: Mapping[str, object]) -> Loaded:
    """Settings from a TOML file, then the environment, then flags (by key, such as `server.port`; None: not given).

    The file is `config`, else what PERDURE_CONFIG names, else ./perdure.toml if there is one. Raises `InvalidArgument` naming every
    unknown key with the nearest real one, and every value of a wrong type or out of bounds, each with its source.
    """
    file = file_to_read(config, environment)
    given = [*(from_file(file) if file is not None else ()), *from_environment(environment), *from_flags(flags)]
    chosen: dict[Path, Value] = {}
    problems: list[str] = []
    spoiled: set[Path] = set()
    for one in given:
        try:
            chosen.update(_taken(one))
        except InvalidArgument as error:
            problems.append(error.message)
            spoiled.add(one.path[:-1])
    settings = _built(chosen, problems, spoiled)
    if settings is None or problems:
        raise InvalidArgument("; ".join(dict.fromkeys(problems)))
    return Loaded(settings, MappingProxyType(_all_values(chosen)), file)


def file_to_read(config: FilePath | None, environment: Mapping[str, str]) -> FilePath | None:
    """Which file settings are read from."""
    if config is not None:
        return config
    if named := environment.get("PERDURE_CONFIG"):
        return FilePath(named)
    return FilePath(FILE) if FilePath(FILE).exists() else None


# ------------------------------------------------------------------------------------------------------------- single values


def _taken(given: Given) -> dict[Path, Value]:
    leaf = leaf_at(given.path)
    if leaf is None:
        if is_section(given.path) and given.value == {}:
            return {}
        raise InvalidArgument(_unknown(given))
    return {given.path: Value(_converted(given, leaf), given.source, leaf.is_secret)}


def _unknown(given: Given) -> str:
    said = given.name if given.is_text else f"{given.source}: {given.name}"
    if is_section(given.path):
        return f"{said} is a section of settings, no key"
    meant = nearest(given.path)
    if meant is None:
        return f"{said} is no setting (`perdure config` lists them all)"
    written = variable_of(meant) + "__…" * is_section(meant) if given.is_text else ".".join(meant)
    return f"{said} is no setting: did you mean {written}?"


def _converted(given: Given, leaf: Leaf) -> object:
    try:
        return convert(given.value, leaf, is_text=given.is_text)
    except ValueError as error:  # msgspec's own among them
        expected = str(error).partition(" - at ")[0]
        expected = re.sub(r", got `[^`]*`$|^Invalid enum value .*$", "", expected) or f"expected {_choices(leaf.type)}"
        shown = "" if leaf.is_secret or PREFIX in repr(given.value) else f", not {given.value!r:.100}"
        place = "" if given.is_text or given.source.startswith("--") else f" ({given.source})"
        raise InvalidArgument(f"{given.name}: {expected[:1].lower()}{expected[1:]}{shown}{place}") from None


def convert(value: Any, leaf: Leaf, *, is_text: bool) -> object:
    """A value as its key has it. Raises `ValueError` saying what would be one."""
    if timedelta in _parts(leaf.type):
        return _length(value)
    if is_text and any(get_origin(part) is tuple for part in _parts(leaf.type)):
        value = items_of(value)
    return msgspec.convert(value, leaf.type, strict=not is_text)


def _parts(kind: Any) -> tuple[Any, ...]:
    """The types a field's annotation is made of: itself without bounds, and what it is a union of."""
    bare = get_args(kind)[0] if hasattr(kind, "__metadata__") else kind
    return (bare, *get_args(bare))


def _length(value: object) -> timedelta | None:
    if isinstance(value, timedelta):
        return value
    if value == FOREVER:
        return None
    try:
        return duration("" if isinstance(value, bool) else str(value))
    except ValueError:
        raise ValueError("expected a duration such as 30d, 12h, 90m, seconds, or forever") from None


def _choices(kind: Any) -> str:
    """The words a key may be one of."""
    words = [kind] if isinstance(kind, str) else [_choices(part) for part in get_args(kind) if not isinstance(part, Meta)]
    return " or ".join(filter(None, words))


# ------------------------------------------------------------------------------------------------------------------- the tree


def _built(chosen: Mapping[Path, Value], problems: list[str], spoiled: Collection[Path]) -> Settings | None:
    """The tree. Sections with values that could not be taken are `spoiled`: nothing more can be said of them."""
    chosen = {path: value for path, value in chosen.items() if path[:-1] not in spoiled}
    sections: dict[str, Any] = {}
    for section in msgspec.structs.fields(Settings):
        sections[section.name] = _section(section.type, (section.name,), chosen, problems)
    problems += [
        f"access.keys.{name}: a key's name is up to 64 letters, digits, - and _, and not {LOCAL_NAME!r}"
        for name in _names(("access", "keys"), chosen)
        if not is_key_name(name)
    ]
    return None if problems else Settings(**sections)


def _names(above: Path, chosen: Mapping[Path, Value]) -> Iterable[str]:
    """The operator's own names in a section, in the order in which they were given."""
    return dict.fromkeys(path[len(above)] for path in chosen if path[: len(above)] == above)


def is_key_name(name: str) -> bool:
    """True for what an API key may be called."""
    return name != LOCAL_NAME and _KEY_NAME.fullmatch(name) is not None


def _section(kind: type[Struct], above: Path, chosen: Mapping[Path, Value], problems: list[str]) -> Any:
    """A section from its values; None, with the reason among the problems, when they do not go together."""
    values = {path[-1]: value for path, value in chosen.items() if path[:-1] == above}
    named = {entry.name: _named(entry.type, (*above, entry.name), chosen, problems) for entry in _mappings(kind)}
    try:
        return kind(**{name: value.value for name, value in values.items()}, **named)
    except ValueError as error:
        text = str(error)
        sources = dict.fromkeys(value.source for name, value in values.items() if name in re.findall(r"\w+", text))
        sources = sources or dict.fromkeys(value.source for value in values.values())
        problems.append(f"{'.'.join(above)}.{text} ({', '.join(sources)})")
        return None


def _mappings(kind: type[Struct]) -> Iterable[Any]:
    """The fields whose keys are names of the operator's own."""
    return (entry for entry in msgspec.structs.fields(kind) if get_origin(entry.type) is Mapping)


def _named(kind: Any, above: Path, chosen: Mapping[Path, Value], problems: list[str]) -> Mapping[str, Any]:
    """By the operator's own names, a section each."""
    inner = get_args(kind)[1]
    return MappingProxyType({name: _section(inner, (*above, name), chosen, problems) for name in _names(above, chosen)})


def _all_values(chosen: Mapping[Path, Value]) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for leaf in LEAVES.values():
        if ANY in leaf.path:
            length = leaf.path.index(ANY)
            own: Iterable[Path] = (
                path for path in chosen if path[:length] == leaf.path[:length] and path[length + 1 :] == leaf.path[length + 1 :]
            )
            values |= {".".join(path): chosen[path] for path in own}
        else:
            values[".".join(leaf.path)] = chosen.get(leaf.path) or Value(leaf.default, DEFAULT, leaf.is_secret)
    return values
