"""Replays histories given as JSON on standard input, strictly, in a process of its own; prints how many, or fails naming the first bad one."""

import importlib.util
import json
import sys
from typing import Any

import msgspec

from perdure.core.events import AnyEvent
from perdure.core.state import is_closing
from perdure.replay.history import replay_history
from perdure.sdk.workflow import workflow_of


def definitions(file: str, name: str) -> dict[str, Any]:
    """Workflows of a file by the name of their function or class. The module gets the name it had, so that its exceptions are found again."""
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    found = [definition for thing in vars(module).values() if (definition := workflow_of(thing)) is not None]
    return {(definition.cls or definition.fn).__name__: definition for definition in found}


def main() -> None:
    files: dict[str, dict[str, Any]] = {}
    histories = json.load(sys.stdin)
    for history in histories:
        file = history["file"]
        known = files[file] if file in files else files.setdefault(file, definitions(file, history["module"]))
        events = msgspec.json.decode(history["events"], type=list[AnyEvent])
        try:
            replay_history(
                known[history["name"]],
                events,
                workflow_id=history["workflow_id"],
                strict=True,
                covered=None if is_closing(events[-1]) else history["covered"],
            ).close()
        except Exception:
            print(f"{history['name']} ({history['workflow_id']}): {[event.type for event in events]}")
            raise
    print("replayed", len(histories))


main()
