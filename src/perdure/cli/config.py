"""`perdure config`: every setting with its value and where that comes from, as a node started here would have it."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from perdure.cli.exits import OK
from perdure.cli.options import Output

if TYPE_CHECKING:
    from perdure.runtime.settings.loading import Value

MASK: Final = "***"
TEXT: Final = Output()

Config = Annotated[Path | None, Parameter(name="--config")]


def config(*, config: Config = None, output: Output = TEXT) -> int:
    """Print every setting, its value and its source: the default, a line of the file, a variable, or a flag. Secrets are masked.

    Args:
        config: A TOML file; otherwise what PERDURE_CONFIG names, or ./perdure.toml if there is one.
    """
    from perdure.cli.show import emit, table
    from perdure.runtime.settings.loading import load

    loaded = load(config, os.environ, {})
    if output.output == "jsonl":
        for key, value in loaded.values.items():
            emit({"key": key, **_facts(value)}, "jsonl")
    elif output.is_json:
        file = None if loaded.file is None else str(loaded.file)
        emit({"file": file, "settings": {key: _facts(value) for key, value in loaded.values.items()}}, "json")
    else:
        table(("SETTING", "VALUE", "SOURCE"), ((key, _written(value), value.source) for key, value in loaded.values.items()))
    return OK


def _facts(value: "Value") -> dict[str, Any]:
    return {"value": _plain(value), "source": value.source}


def _written(value: "Value") -> str:
    """As it would stand in the file."""
    from msgspec import json

    return MASK if value.is_secret else json.encode(_plain(value)).decode()


def _plain(value: "Value") -> object:
    from datetime import timedelta

    from perdure.runtime.durations import spelled
    from perdure.runtime.settings.loading import FOREVER

    if value.is_secret:
        return MASK
    if isinstance(value.value, timedelta):
        return spelled(value.value)
    return FOREVER if value.value is None else value.value
