"""Values as they were given, each with where: a line of a file, a variable of the environment, a flag."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any, Final, cast

from msgspec import Struct

from perdure.core.errors import InvalidArgument
from perdure.runtime.settings.outline import ANY, LEAVES, SECTIONS, Path

PREFIX: Final = "PERDURE_"
BETWEEN: Final = "__"
"""Between the parts of a key in the name of a variable; any other variable is none of the settings'."""


class Given(Struct, frozen=True):
    """One value. `is_text`: it comes from where everything is text. `name` is what the source calls the key."""

    path: Path
    value: Any
    source: str
    name: str
    is_text: bool = False


# ----------------------------------------------------------------------------------------------------------------------- file


def from_file(file: FilePath) -> list[Given]:
    """The values of a TOML file. Raises `InvalidArgument` when it cannot be read or is no TOML."""
    try:
        text = file.read_bytes().decode("utf-8-sig")
        document = tomllib.loads(text)
    except FileNotFoundError:
        raise InvalidArgument(f"there is no configuration file {file}") from None
    except OSError as error:
        raise InvalidArgument(f"the configuration file {file} cannot be read: {error.strerror}") from error
    except ValueError as error:  # no TOML, or no UTF-8
        raise InvalidArgument(f"{file} is no configuration file: {error}") from error
    lines = _lines(text)
    return [
        Given(path, value, f"{file}:{line}" if (line := _line_of(path, lines)) else str(file), ".".join(path))
        for path, value in _flat(document, ())
    ]


def _flat(table: Mapping[str, Any], above: Path) -> Iterator[tuple[Path, Any]]:
    for name, value in table.items():
        path = (*above, name)
        if isinstance(value, dict) and value:
            yield from _flat(cast("dict[str, Any]", value), path)
        else:
            yield path, value


_NAME: Final = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_DOTTED: Final = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_HEADER: Final = re.compile(rf"\s*\[\s*({_DOTTED})\s*\]\s*(?:#.*)?$")
_KEY: Final = re.compile(rf"\s*({_DOTTED})\s*=")


def _lines(text: str) -> dict[Path, int]:
    """Where keys and sections stand, for messages: as far as it can be seen line by line."""
    found: dict[Path, int] = {}
    section: Path = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            section = _parts(header[1])
            found.setdefault(section, number)
        elif key := _KEY.match(line):
            found.setdefault((*section, *_parts(key[1])), number)
    return found


def _parts(dotted: str) -> Path:
    return tuple(part.strip("\"'") for part in re.findall(_NAME, dotted))


def _line_of(path: Path, lines: Mapping[Path, int]) -> int:
    return next((lines[path[:length]] for length in range(len(path), 0, -1) if path[:length] in lines), 0)


# ---------------------------------------------------------------------------------------------------------------- environment


def from_environment(environment: Mapping[str, str]) -> list[Given]:
    """The values of `PERDURE_SECTION__KEY` variables, and of PERDURE_DATA, which says `node.data` for short.

    Names that lack an underscore (`PERDURE_SERVER_PORT`) or the section (`PERDURE_PORT`) are among them, under the name as it is, so that
    they are noticed; not those that Kubernetes makes for a service of that name.
    """
    found: list[Given] = []
    if environment.get("PERDURE_DATA"):
        found.append(Given(("node", "data"), environment["PERDURE_DATA"], "PERDURE_DATA", "PERDURE_DATA", is_text=True))
    for name, value in sorted(environment.items()):
        if not name.startswith(PREFIX):
            continue
        if BETWEEN in name or (name in _NEARLY and not value.startswith(_OF_KUBERNETES)):
            path = tuple(name.removeprefix(PREFIX).lower().split(BETWEEN))
            found.append(Given(path, value, name, name, is_text=True))
    return found


def variable_of(path: Path) -> str:
    """The variable that sets a key."""
    return PREFIX + BETWEEN.join(part.upper() for part in path)


_NEARLY: Final = frozenset(
    [
        *(variable_of(path).replace(BETWEEN, "_") for path in (*LEAVES, *SECTIONS) if ANY not in path and len(path) > 1),
        *(variable_of(path[1:]) for path in LEAVES if len(path) == 2 and path[0] == "server"),
    ]
)
_OF_KUBERNETES: Final = ("tcp://", "udp://", "sctp://")
"""So begin the variables by which pods find a service: PERDURE_SERVER_PORT=tcp://10.0.0.1:7373 for one named perdure-server."""


def items_of(text: str) -> object:
    """A list as it is written in a variable or after a flag: JSON, or with commas between."""
    if text.lstrip().startswith("["):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return [item.strip() for item in text.split(",") if item.strip()]


# ---------------------------------------------------------------------------------------------------------------------- flags


def from_flags(flags: Mapping[str, object]) -> list[Given]:
    """The values of flags, by key (`server.port`): each is of the key's type already; None was not given."""
    found: list[Given] = []
    for key, value in flags.items():
        if value is not None:
            path = tuple(key.split("."))
            name = "--" + path[-1].replace("_", "-")
            found.append(Given(path, value, name, name))
    return found
