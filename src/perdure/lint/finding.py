"""One thing found, with its place."""

from msgspec import Struct


class Finding(Struct, frozen=True, order=True, kw_only=True):
    """`line` and `column` count from 1. `function` is where it stands, `workflow` the workflow whose code reaches it."""

    path: str
    line: int
    column: int
    code: str
    rule: str
    message: str
    why: str
    mend: str
    function: str
    workflow: str
