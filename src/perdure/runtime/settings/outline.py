"""The tree of settings as a list of keys: what each may be, and which one somebody may have meant."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, TypeAlias, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from perdure.runtime.settings.tree import Settings

Path: TypeAlias = tuple[str, ...]

ANY: Final = "*"
"""In a path: a name of the operator's own, such as a key's."""


class Leaf(Struct, frozen=True):
    """One key: `path` ends with its name, `type` is what its values are, bounds and all."""

    path: Path
    type: Any
    default: Any
    description: str
    is_secret: bool


def _leaves(section: type[Struct], above: Path) -> Iterator[Leaf]:
    for entry in msgspec.structs.fields(section):
        path = (*above, entry.name)
        kind = entry.type
        if get_origin(kind) is Mapping:
            yield from _leaves(get_args(kind)[1], (*path, ANY))
        elif isinstance(kind, type) and issubclass(kind, Struct):
            yield from _leaves(kind, path)
        else:
            yield _leaf(path, kind, entry.default)


def _leaf(path: Path, kind: Any, default: Any) -> Leaf:
    meta = (
        next((extra for extra in get_args(kind)[1:] if isinstance(extra, Meta)), None)
        if get_origin(kind) is Annotated
        else None
    )
    is_secret = meta is not None and bool((meta.extra or {}).get("secret"))
    return Leaf(path, kind, default, (meta.description or "") if meta else "", is_secret)


LEAVES: Final[dict[Path, Leaf]] = {leaf.path: leaf for leaf in _leaves(Settings, ())}
"""Every key, in the order of the tree."""
SECTIONS: Final[frozenset[Path]] = frozenset(path[:length] for path in LEAVES for length in range(1, len(path)))


def leaf_at(path: Path) -> Leaf | None:
    """The key a path names, None when there is none."""
    return LEAVES.get(_pattern(path))


def is_section(path: Path) -> bool:
    """True for what holds keys."""
    return _pattern(path) in SECTIONS


def nearest(path: Path) -> Path | None:
    """The key or section that was most likely meant by one that does not exist."""
    known = {".".join(_named_as(real, path)): _named_as(real, path) for real in (*LEAVES, *sorted(SECTIONS)) if real[-1] != ANY}
    close = difflib.get_close_matches(".".join(path), known, n=1, cutoff=0.6)
    if close:
        return known[close[0]]
    return next((real for real in known.values() if real[-1] == path[-1]), None)


def _pattern(path: Path) -> Path:
    """`access.keys.NAME.hash` as it stands in the outline."""
    return tuple(ANY if path[:at] in _NAMING else part for at, part in enumerate(path))


def _named_as(real: Path, path: Path) -> Path:
    """A path of the outline with the operator's own name where the one given has one."""
    return tuple(
        path[at] if part == ANY and at < len(path) else "NAME" if part == ANY else part for at, part in enumerate(real)
    )


_NAMING: Final = frozenset(path[: path.index(ANY)] for path in LEAVES if ANY in path)
"""Sections whose keys are names of the operator's own."""
