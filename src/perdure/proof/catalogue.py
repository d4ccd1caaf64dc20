"""The list of rules and scenarios, read from `rules.toml` beside this file."""

import tomllib
from functools import cache
from importlib.resources import files

from msgspec import Struct


class Promise(Struct, frozen=True):
    """One rule (`O1`, `F8`, `R3`) or scenario (`2`). `kind` is `rule` or `scenario`; `unbuilt`: nothing of its part is there yet."""

    id: str
    kind: str
    part: str
    title: str
    unbuilt: bool = False


@cache
def promises() -> tuple[Promise, ...]:
    """All of them, in the order of the list."""
    text = files("perdure.proof").joinpath("rules.toml").read_text(encoding="utf-8")
    return tuple(
        Promise(id, "scenario" if name == "scenarios" else "rule", part["title"], title, part.get("unbuilt", False))
        for name, part in tomllib.loads(text).items()
        for id, title in part.items()
        if id not in {"title", "unbuilt"}
    )
