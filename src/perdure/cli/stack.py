"""`perdure workflow stack`: where a run stands, read off its history; with --module also the lines of its code, found by replaying it here."""

import contextlib
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from perdure.cli.exits import FAILED, OK, say
from perdure.cli.options import Module, Output, Place
from perdure.cli.typed import HERE, TEXT, Run, identified

if TYPE_CHECKING:
    from perdure.ports import Record
    from perdure.replay.task_stacks import TaskStack
    from perdure.sdk.stack import WorkflowStack


async def stack(
    id: str, /, *, module: Module | None = None, run: Run = None, place: Place = HERE, output: Output = TEXT
) -> int:
    """Show what a run waits for, since when, who holds it, and why nobody moves it. Needs no worker.

    With --module the history is also replayed here, without effects, and every task of the code is shown at the line where it waits.
    Exits with 1 when that code does not reproduce the history.

    Args:
        id: The workflow id.
        module: Where its code is: a dotted name or a path to a .py file.
        run: A run of it; the current one when left out.
    """
    from perdure.cli.connection import connected

    async with connected(place) as client:
        handle = client.handle(identified(id), run)
        found = await handle.stack()
        record = None if module is None else await client.frontend.record(client.namespace, id, found.run_id)
    if module is None or record is None:
        _tell(found, None, output)
        return OK
    tasks, fault = _replayed(module, record, found.covered)
    _tell(found, tasks, output)
    if fault:
        say(f"perdure: {module} does not reproduce this history: {fault}")
        return FAILED
    return OK


def _replayed(module: str, record: "Record", covered: int) -> "tuple[list[TaskStack], str]":
    """The tasks of a run as the code of MODULE has them, or why it has none."""
    from perdure.cli.modules import load
    from perdure.core.errors import InvalidArgument
    from perdure.core.events import Started
    from perdure.replay.history import replay_history
    from perdure.replay.mismatch import Mismatch, OldBuild
    from perdure.replay.task_stacks import task_stacks
    from perdure.sdk.registry import Registry

    registry = Registry()
    with contextlib.redirect_stdout(sys.stderr):  # what a module or workflow prints is none of this command's data
        registry.register(load(module))
        started = record.events[0]
        assert isinstance(started, Started)
        definition: Any = registry.workflow(started.workflow_type)
        if definition is None:
            raise InvalidArgument(f"{module} has no workflow named {started.workflow_type!r}")
        try:
            runner = replay_history(definition, record.events, workflow_id=record.workflow_id, covered=covered)
        except Mismatch as fault:
            words = [f"{label} {text}" for label, text in (("expected", fault.expected), ("found", fault.found)) if text]
            return [], "; ".join([fault.reason, *words])
        except OldBuild as fault:
            return [], str(fault)
        try:
            return task_stacks(runner), ""
        finally:
            runner.close()


def _tell(found: "WorkflowStack", tasks: "list[TaskStack] | None", output: Output) -> None:
    from perdure.cli.show import emit, text
    from perdure.sdk.stack import plain

    if output.is_json:
        told = {} if tasks is None else {"tasks": [asdict(task) for task in tasks]}
        emit(plain(found) | told, output.output)
        return
    for line in found.lines():
        text(line)
    for task in tasks or ():
        event = f" (event {task.event_id})" if task.event_id else ""
        text(f"  task {task.name} awaits {task.awaits}{event}")
        for code in task.lines:
            text(f"    {code.file}:{code.line} in {code.function}{f': {code.source}' if code.source else ''}")
