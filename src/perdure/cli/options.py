"""Options that many commands share. Light: read by `--help`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from cyclopts import Parameter, Token

from perdure.runtime.durations import duration, spelled

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


def _typed(_type: Any, tokens: Sequence[Token]) -> timedelta:
    return duration(tokens[0].value)


KEPT_FOR: Final = timedelta(days=30)
Retention = Annotated[timedelta, Parameter(converter=_typed, show_default=spelled)]
