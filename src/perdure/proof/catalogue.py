"""The list of rules and scenarios, read from `rules.toml` beside this file."""

import tomllib
from functools import cache
from importlib.resources import files

from msgspec import Struct


class Promise(Struct, frozen=True):
    """One rule (`O1`, `F8`, `R3`) or scenario (`2`). `kind` is `rule` or `scenario`.

    `needs` is what has to be built before it can be tested; empty: it can be tested now, and has to be.
    """

    id: str
    kind: str
    part: str
    title: str
    needs: str = ""


@cache
def promises() -> tuple[Promise, ...]:
    """All of them, in the order of the list."""
    text = files("perdure.proof").joinpath("rules.toml").read_text(encoding="utf-8")
    return tuple(
        Promise(id, "scenario" if name == "scenarios" else "rule", part["title"], title, _needs(part, id))
        for name, part in tomllib.loads(text).items()
        for id, title in part.items()
        if id not in {"title", "needs"}
    )


def _needs(part: dict[str, str | dict[str, str]], id: str) -> str:
    """What a number needs: said of its whole part, or of it alone."""
    needs = part.get("needs", "")
    return needs if isinstance(needs, str) else needs.get(id, "")
