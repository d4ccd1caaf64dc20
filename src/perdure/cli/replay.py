"""`perdure replay`: exported histories through today's code, cold and one input at a time. Changes nothing, needs no node."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.cli.exits import FAILED, OK, USAGE, say
from perdure.cli.options import Output

if TYPE_CHECKING:
    from perdure.sdk.registry import Registry
    from perdure.store.export import ExportedRun

Verdict = dict[str, Any]
TEXT = Output()


def replay(module: str, history: Path, /, *histories: Path, strict: bool = False, output: Output = TEXT) -> int:
    """Replay exported histories against the code of MODULE. Exits with 1 when one does not come out the same.

    Args:
        module: Where the workflows are: a dotted name or a path to a .py file.
        history: A file with one or more exported runs, as `workflow history --jsonl` and `journal export` print them.
        histories: More of them.
        strict: Compare payload bytes too. Only for the very code that made the history.
    """
    from perdure.cli.modules import load
    from perdure.sdk.registry import Registry

    registry = Registry()
    with contextlib.redirect_stdout(sys.stderr):  # what a module or workflow prints is none of this command's data
        registry.register(load(module))
        verdicts = [_verdict(registry, path, run, strict=strict) for path in (history, *histories) for run in _runs(path)]
    _tell(verdicts, output)
    if any(verdict["verdict"] == "mismatch" for verdict in verdicts):
        return FAILED
    unknown = sorted({verdict["type"] for verdict in verdicts if verdict["verdict"] == "unknown"})
    if unknown:
        say(f"perdure: {module} has no workflow named {', '.join(map(repr, unknown))}")
        return USAGE
    return OK


def _runs(path: Path) -> Iterator["ExportedRun"]:
    from perdure.core.errors import InvalidArgument
    from perdure.store.export import ExportDamaged, read_runs

    try:
        with path.open("rb") as file:
            yield from read_runs(file)
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}") from error
    except InvalidArgument as error:
        raise InvalidArgument(f"{path}: {error}") from error
    except ExportDamaged as error:
        raise ExportDamaged(f"{path}: {error}") from error


def _verdict(registry: "Registry", path: Path, run: "ExportedRun", *, strict: bool) -> Verdict:
    verdict: Verdict = {
        "file": str(path),
        "workflow_id": run.header.workflow_id,
        "run_id": run.header.run_id,
        "type": run.type,
        "events": len(run.record.events),
        "verdict": "ok",
    }
    definition = registry.workflow(run.type)
    if definition is None:
        return verdict | {"verdict": "unknown"}
    for one_at_a_time in (False, True):
        if fault := _fault(definition, run, strict=strict, one_at_a_time=one_at_a_time):
            return verdict | {"verdict": "mismatch"} | fault
    return verdict


def _fault(definition: Any, run: "ExportedRun", *, strict: bool, one_at_a_time: bool) -> Verdict | None:
    from perdure.replay.history import replay_history
    from perdure.replay.mismatch import Mismatch, OldBuild

    try:
        runner = replay_history(
            definition,
            run.record.events,
            namespace=run.header.namespace,
            workflow_id=run.header.workflow_id,
            strict=strict,
            covered=_covered(run),
            one_at_a_time=one_at_a_time,
        )
    except Mismatch as error:
        told = {"reason": error.reason, "expected": error.expected, "found": error.found}
        return {name: text for name, text in told.items() if text}
    except OldBuild as error:
        return {"reason": f"the code is older than the run: it does not ask for the change {error.change_id!r}"}
    except Exception as error:  # noqa: BLE001  whatever the code does, it is the verdict on this run and not the end of the others
        return {"reason": f"running the workflow failed: {type(error).__name__}: {error}"}
    runner.close()
    return None


def _covered(run: "ExportedRun") -> int:
    """The last event an accepted decision has seen; a decision without commands has left a note."""
    from perdure.core.events import CommandEvent
    from perdure.core.notes import Seen

    seen = [event.based_on for event in run.record.events if isinstance(event, CommandEvent)]
    seen += [note.based_on for note in run.record.notes if isinstance(note, Seen)]
    return max(seen, default=0)


def _tell(verdicts: list[Verdict], output: Output) -> None:
    from perdure.cli.show import emit, text

    if output.output == "json":
        emit(verdicts, "json")
        return
    for verdict in verdicts:
        if output.output == "jsonl":
            emit(verdict, "jsonl")
            continue
        text(
            f"{verdict['verdict']:<9} {verdict['workflow_id']} {verdict['run_id']} {verdict['type']} ({verdict['events']} events)"
        )
        if "reason" in verdict:
            text(f"          {verdict['reason']}")
            text(f"          the history has    {verdict.get('expected', 'nothing more')}")
            text(f"          the code asks for  {verdict.get('found', 'nothing')}")
