"""`perdure rules`: what perdure promises, which tests prove it, and how they ended when they were last run."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from perdure.cli.exits import FAILED, OK, say
from perdure.cli.options import Output

if TYPE_CHECKING:
    from perdure.proof.standing import Standing

TEXT = Output()


def rules(
    results: Path | None = None,
    /,
    *,
    tests: Path = Path("tests"),
    status: Annotated[list[str] | None, Parameter(negative="")] = None,
    output: Output = TEXT,
) -> int:
    """List every rule with its tests and their last outcome. Exits with 1 when one of them failed.

    Args:
        results: What runs of pytest left; ./.pytest_cache/rules.json when left out, if it is there.
        tests: Folder of test files, read for their marks, so that tests which were not run are listed too.
        status: Only rules that stand so: passed, failed, skipped, "not run", "no test" or "not built yet"; repeatable.
    """
    from perdure.core.errors import InvalidArgument
    from perdure.proof.results import read_results
    from perdure.proof.standing import RESULTS, STATUSES, standings

    if unknown := set(status or ()) - set(STATUSES):
        raise InvalidArgument(f"--status: there is no {min(unknown)!r}; there are {', '.join(STATUSES)}")
    path = results if results is not None else Path(RESULTS)
    left = read_results(path) if results is not None or path.exists() else {}
    if not left and not tests.is_dir():
        say(
            f"perdure: neither a folder {str(tests)!r} nor results of pytest are here: run it in a clone of perdure to see its proofs"
        )
    found = [standing for standing in standings(left, tests, Path.cwd()) if not status or standing.status in status]
    _tell(found, output)
    if not output.is_json:
        counted = Counter(standing.status for standing in found)
        say(f"perdure: {len(found)} rules: {', '.join(f'{counted[name]} {name}' for name in STATUSES if counted[name])}")
    return FAILED if any(standing.status == "failed" for standing in found) else OK


def _tell(found: "list[Standing]", output: Output) -> None:
    from perdure.cli.show import emit, table

    if output.output == "json":
        emit(found, "json")
    elif output.output == "jsonl":
        for standing in found:
            emit(standing, "jsonl")
    else:
        names = {"rule": "", "scenario": "scenario "}
        rows = ((names[s.kind] + s.id, s.status, str(len(s.tests)), s.title, s.needs) for s in found)
        table(("rule", "status", "tests", "says", "needs"), rows)
