"""Exported histories against today's code: what `perdure replay` and the pytest fixture `perdure_replay` say of each run.

Every run is replayed twice, at once and one input at a time, cold, without a node. Nothing is changed.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from perdure.core.errors import InvalidArgument
from perdure.core.events import CommandEvent
from perdure.core.notes import Seen
from perdure.replay.history import replay_history
from perdure.replay.mismatch import Mismatch, OldBuild
from perdure.sdk.registry import Registry
from perdure.store.export import ExportDamaged, ExportedRun, read_runs

Verdict: TypeAlias = dict[str, Any]
"""`file, workflow_id, run_id, type, events, verdict` (`ok`, `mismatch` or `unknown`), and for a mismatch `reason`, `expected`, `found`."""


def exported_runs(path: Path) -> Iterator[ExportedRun]:
    """The runs of one file. Raises `InvalidArgument` for what cannot be read or is no export, `ExportDamaged` for what was changed."""
    try:
        with path.open("rb") as file:
            yield from read_runs(file)
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}") from error
    except InvalidArgument as error:
        raise InvalidArgument(f"{path}: {error}") from error
    except ExportDamaged as error:
        raise ExportDamaged(f"{path}: {error}") from error


def verdict_on(registry: Registry, path: Path, run: ExportedRun, *, strict: bool) -> Verdict:
    """Whether the registered code reproduces `run`; `strict` compares payload bytes too."""
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


def _fault(definition: Any, run: ExportedRun, *, strict: bool, one_at_a_time: bool) -> Verdict | None:
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


def _covered(run: ExportedRun) -> int:
    """The last event an accepted decision has seen; a decision without commands has left a note."""
    seen = [event.based_on for event in run.record.events if isinstance(event, CommandEvent)]
    seen += [note.based_on for note in run.record.notes if isinstance(note, Seen)]
    return max(seen, default=0)


def in_words(verdict: Verdict) -> list[str]:
    """A verdict as lines for people."""
    lines = [
        f"{verdict['verdict']:<9} {verdict['workflow_id']} {verdict['run_id']} {verdict['type']} ({verdict['events']} events)"
    ]
    if "reason" in verdict:
        lines += [
            f"          {verdict['reason']}",
            f"          the history has    {verdict.get('expected', 'nothing more')}",
            f"          the code asks for  {verdict.get('found', 'nothing')}",
        ]
    return lines
