"""Options that many commands share. Light: read by `--help`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from cyclopts import Parameter, Token

from perdure.runtime.durations import duration, spelled

Format = Literal["text", "json", "jsonl"]

if TYPE_CHECKING:
    Module: TypeAlias = str
else:
    Module = Annotated[str | Path, Parameter(show_choices=False)]
    """The name of a module or the path of a file, and always the text it is; shells complete files where a path is possible."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Output:
    """How data is printed."""

    output: Annotated[Format, Parameter(name=["--output", "-o"])] = "text"
    """text for people, json, or jsonl: one JSON document a line."""

    @property
    def is_json(self) -> bool:
        return self.output != "text"


Data = Annotated[Path, Parameter(env_var="PERDURE_DATA", show_default=lambda value: f"./{value}")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Remote:
    """How a node in another process is reached."""

    address: Annotated[str | None, Parameter(env_var="PERDURE_ADDRESS")] = None
    """The node's URL, such as http://127.0.0.1:7373."""

    api_key: Annotated[str | None, Parameter(env_var="PERDURE_API_KEY", show_env_var=True)] = None
    """The key it asks for. Better in PERDURE_API_KEY: others on this machine can read a command line."""

    ca: Annotated[Path | None, Parameter(env_var="PERDURE_CA")] = None
    """A file with the certificates to trust, for https with a certificate of your own."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Place(Remote):
    """Which runs are spoken of, and through which node: the one at `address`, else the one of a data directory."""

    data: Annotated[Path | None, Parameter(env_var="PERDURE_DATA")] = None
    """A node's data directory: the node that runs there is asked, or its journal when none does. ./perdure-data when this and the address are left out."""

    namespace: str = "default"
    """The namespace the runs are in."""


def _typed(_type: Any, tokens: Sequence[Token]) -> timedelta:
    return duration(tokens[0].value)


KEPT_FOR: Final = timedelta(days=30)
Retention = Annotated[timedelta, Parameter(converter=_typed, show_default=spelled)]
