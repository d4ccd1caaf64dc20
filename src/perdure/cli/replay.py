"""`perdure replay`: exported histories through today's code, cold and one input at a time. Changes nothing, needs no node."""

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.cli.exits import FAILED, OK, USAGE, say
from perdure.cli.options import Module, Output

if TYPE_CHECKING:
    from perdure.testing.replayed import Verdict

TEXT = Output()


def replay(module: Module, history: Path, /, *histories: Path, strict: bool = False, output: Output = TEXT) -> int:
    """Replay exported histories against the code of MODULE. Exits with 1 when one does not come out the same.

    Args:
        module: Where the workflows are: a dotted name or a path to a .py file.
        history: A file with one or more exported runs, as `workflow history --jsonl` and `journal export` print them.
        histories: More of them.
        strict: Compare payload bytes too. Only for the very code that made the history.
    """
    from perdure.cli.modules import load
    from perdure.sdk.registry import Registry
    from perdure.testing.replayed import exported_runs, verdict_on

    registry = Registry()
    with contextlib.redirect_stdout(sys.stderr):  # what a module or workflow prints is none of this command's data
        registry.register(load(module))
        verdicts = [
            verdict_on(registry, path, run, strict=strict) for path in (history, *histories) for run in exported_runs(path)
        ]
    _tell(verdicts, output)
    if any(verdict["verdict"] == "mismatch" for verdict in verdicts):
        return FAILED
    unknown = sorted({verdict["type"] for verdict in verdicts if verdict["verdict"] == "unknown"})
    if unknown:
        say(f"perdure: {module} has no workflow named {', '.join(map(repr, unknown))}")
        return USAGE
    return OK


def _tell(verdicts: "list[Verdict]", output: Output) -> None:
    from perdure.cli.show import emit, text
    from perdure.testing.replayed import in_words

    if output.output == "json":
        emit(verdicts, "json")
        return
    for verdict in verdicts:
        if output.output == "jsonl":
            emit(verdict, "jsonl")
            continue
        for line in in_words(verdict):
            text(line)
