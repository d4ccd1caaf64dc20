"""How each rule stands: its tests, and how they ended when they were last run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from perdure.proof.catalogue import Promise, promises
from perdure.proof.marks import marked_tests
from perdure.proof.results import Results

RESULTS: Final = ".pytest_cache/rules.json"
"""What runs of pytest leave, each test as it last ended."""

STATUSES: Final = ("failed", "passed", "skipped", "not run", "no test", "not built yet")


class Standing(Struct, frozen=True):
    """One rule, its status (see `STATUSES`) and its tests with the outcome of each; `not run` where there is none.

    `needs` is what has to be built before it can be tested, of a rule that is `not built yet`; else empty.
    """

    id: str
    kind: str
    part: str
    title: str
    status: str
    tests: dict[str, str]
    needs: str = ""


def standings(results: Results, tests: Path | None, root: Path) -> list[Standing]:
    """Every rule and scenario, in order; marks of unknown numbers come last. `tests` is a folder of tests to read, if there is one."""
    marked = marked_tests(tests, root) if tests is not None and tests.is_dir() else {}
    known = {(promise.kind, promise.id) for promise in promises()}
    strangers = {(kind, id) for kind, found in results.items() for id in found if (kind, id) not in known} | {
        key for key in marked if key not in known
    }
    unlisted = [Promise(id, kind, "Not in the list", "?") for kind, id in sorted(strangers)]
    return [
        _standing(promise, marked.get((promise.kind, promise.id), set()), results.get(promise.kind, {}).get(promise.id, {}))
        for promise in (*promises(), *unlisted)
    ]


def _standing(promise: Promise, marked: set[str], outcomes: Mapping[str, str]) -> Standing:
    ran = {test.partition("[")[0] for test in outcomes}
    tests = dict(sorted([*outcomes.items(), *((test, "not run") for test in marked - ran)]))
    needs = "" if tests else promise.needs
    return Standing(promise.id, promise.kind, promise.part, promise.title, _status(promise, tests), tests, needs)


def _status(promise: Promise, tests: Mapping[str, str]) -> str:
    """A failure outweighs everything; a rule whose tests were all skipped, or of which none was run, is not shown to hold."""
    if not tests:
        return "not built yet" if promise.needs else "no test"
    return next((status for status in STATUSES if status in tests.values()), "not run")
