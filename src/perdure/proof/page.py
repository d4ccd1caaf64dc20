"""The page of the documentation that lists every rule, its tests and how they stand. Markdown."""

from collections.abc import Iterable
from itertools import groupby

from perdure.proof.standing import Standing


def page(standings: Iterable[Standing]) -> list[str]:
    """Lines of one table for each part. A test is named once, without its parameters; without any it says what a test needs."""
    lines: list[str] = []
    for part, members in groupby(standings, key=lambda standing: standing.part):
        lines += ["", f"## {part}", "", "| | says | status | proved by |", "|---|---|---|---|"]
        lines += [_row(standing) for standing in members]
    return lines[1:]


def _row(standing: Standing) -> str:
    tests = sorted({test.partition("[")[0] for test in standing.tests})
    shown = "<br>".join(f"`{test.removeprefix('tests/')}`" for test in tests)
    shown = shown or (standing.needs and f"needs {standing.needs}")
    return f"| {standing.id} | {standing.title} | {standing.status} | {shown} |"
