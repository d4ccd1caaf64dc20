"""`perdure chaos`: a trial from its first process to its verdict, and the verdict again from what it left."""

import asyncio
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar

from perdure.chaos.findings import Findings
from perdure.chaos.scale import FULL, SHORT, Scale
from perdure.chaos.watching import Watcher
from perdure.demo.child import ChildDiedError
from perdure.demo.show import teller

T = TypeVar("T")
Output: TypeAlias = Literal["text", "json", "markdown"]

VIOLATED: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
INTERRUPTED: Final = 130

TRIALS: Final = {
    "evidence": "agent pipelines while workers, node and builds are replaced under them; audited and replayed",
    "delayed-signal": "a run waits for an approval; everything is killed and upgraded; the approval comes",
}
"""What there is, by name."""


@dataclass(frozen=True)
class Plan:
    """An evidence run as asked for; None: as usual."""

    seeds: int | None = None
    runs: int | None = None
    seed: int | None = None
    short: bool = False
    timeout: float | None = None

    @property
    def scale(self) -> Scale:
        scale = SHORT if self.short else FULL
        if self.runs is not None:
            scale = replace(scale, runs=self.runs)
        return scale if self.timeout is None else replace(scale, seed_s=self.timeout)

    @property
    def chosen(self) -> Sequence[int]:
        """The seeds: as many as asked for, from the one asked for."""
        count = self.seeds if self.seeds is not None else self.scale.seeds if self.seed is None else 1
        first = 1 if self.seed is None else self.seed
        return range(first, first + count)


def run(trial: str, plan: Plan, *, out: Path | None = None, output: Output = "text") -> int:
    """Run a trial; 0 when nothing is wrong, 1 when anything is, 2 for what cannot be run, 130 when interrupted."""
    if trial not in TRIALS:
        return _complain(f"there is no trial {trial!r}; there are {', '.join(TRIALS)}", NOT_FOUND)
    if plan.scale.runs < 3 or not plan.chosen:
        return _complain("an evidence run needs at least one seed and three runs", USAGE)
    if out is not None and out.exists() and any(out.iterdir()):
        return _complain(f"{out} is not empty; the books of two trials must not be mixed", USAGE)
    kept = out if out is not None else Path(tempfile.mkdtemp(prefix="perdure-chaos-"))
    kept.mkdir(parents=True, exist_ok=True)
    ok = False
    try:
        ok = _performed(trial, plan, kept, output)
        return 0 if ok else VIOLATED
    except ChildDiedError as error:
        return _complain(str(error), VIOLATED)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return _complain("interrupted", INTERRUPTED)
    finally:
        if out is None and ok:
            shutil.rmtree(kept, ignore_errors=True)
        else:
            print(f"books and logs are in {kept}", file=sys.stderr)


def report(directory: Path, *, output: Output = "text") -> int:
    """Judge what a trial left, anew; as `run` says it."""
    if not any(directory.glob("*/course.jsonl")):
        return _complain(f"{directory} holds no trial", NOT_FOUND)
    findings = Findings.at(directory)
    _tell(findings, output, {})
    return 0 if findings.ok else VIOLATED


def _performed(trial: str, plan: Plan, out: Path, output: Output) -> bool:
    if trial == "delayed-signal":
        return _delayed_signal(out, output)
    from perdure.chaos.evidence import evidence

    scale, seeds = plan.scale, plan.chosen
    with teller(sum(map(scale.runs_of, seeds)), "runs") as telling:
        findings = _until_told_to_stop(evidence(out, seeds, scale, Watcher(telling)))
    _tell(findings, output, {})
    return findings.ok


def _delayed_signal(out: Path, output: Output) -> bool:
    from perdure.chaos.delayed_signal import DelayedSignal

    with teller(1, "runs") as telling:
        trial = DelayedSignal(out, Watcher(telling))
        findings = _until_told_to_stop(trial.run())
    if output == "json":
        _tell(findings, output, {"resumed_at": trial.resumed_at, "events": trial.events})
    else:
        print(trial.headline())
        for fault in findings.faults:
            print(f"  ✗ {fault}")
    return findings.ok


def _tell(findings: Findings, output: Output, more: dict[str, Any]) -> None:
    if output == "json":
        print(json.dumps(findings.as_data() | more, indent=2))
        return
    from perdure.chaos.show import markdown, show

    if output == "markdown":
        print(markdown(findings))
    else:
        show(findings)


def _until_told_to_stop(work: Coroutine[Any, Any, T]) -> T:
    """SIGTERM ends it the way Ctrl-C does, processes and all."""

    async def bounded() -> T:
        task = asyncio.current_task()
        assert task is not None
        with suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work

    return asyncio.run(bounded())


def _complain(text: str, code: int) -> int:
    print(f"perdure chaos: {text}", file=sys.stderr)
    return code
