"""Options that many commands share. Light: read by `--help`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from cyclopts import Parameter, Token

Format = Literal["text", "json", "jsonl"]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Output:
    """How data is printed."""

    output: Annotated[Format, Parameter(name=["--output", "-o"])] = "text"
    """text for people, json, or jsonl: one JSON document a line."""

    @property
    def is_json(self) -> bool:
        return self.output != "text"


def _data() -> Path:
    return Path("perdure-data")


Data = Annotated[Path, Parameter(env_var="PERDURE_DATA", show_default=lambda value: f"./{value}")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Place:
    """Which runs are spoken of."""

    data: Data = field(default_factory=_data)
    """The node's data directory."""

    namespace: str = "default"
    """The namespace the runs are in."""


# ------------------------------------------------------------------------------------------------------------------ durations

_UNITS: Final = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)([wdhms])")


def duration(text: str) -> timedelta:
    """`30d`, `12h`, `1d12h`, or plain seconds. Raises `ValueError` for anything else."""
    try:
        if re.fullmatch(r"\d+(\.\d+)?", text):
            return timedelta(seconds=float(text))
        if re.fullmatch(f"({_PART.pattern})+", text):
            return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text)))
    except OverflowError as error:
        raise ValueError(f"{text} is longer than can be counted") from error
    raise ValueError(f"{text!r} is no duration: say 30d, 12h, 90m, or seconds")


def spelled(length: timedelta) -> str:
    """A duration as it may be typed: `30d`, `1d12h`, `1.5s`."""
    seconds, found = length.total_seconds(), ""
    for unit, size in _UNITS.items():
        if unit not in "ws":
            found += f"{whole:.0f}{unit}" if (whole := seconds // size) else ""
            seconds %= size
    return found + (f"{seconds:g}s" if seconds or not found else "")


def _typed(_type: Any, tokens: Sequence[Token]) -> timedelta:
    return duration(tokens[0].value)


KEPT_FOR: Final = timedelta(days=30)
Retention = Annotated[timedelta, Parameter(converter=_typed, show_default=spelled)]
