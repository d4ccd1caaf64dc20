"""What modules on a command line hold: their definitions, the queues they name, the files they are made of."""

import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.sdk.registry import Registry


def loaded(modules: Sequence[str]) -> list[ModuleType]:
    """The modules, tried out: what cannot be registered must be known before anything starts. Raises `InvalidArgument`."""
    from perdure.cli.modules import load

    found = [load(module) for module in modules]
    registry_of(found)
    return found


def registry_of(modules: Sequence[ModuleType], build_id: str | None = None) -> "Registry":
    """All they define. Raises `InvalidArgument` for two things of one name, and for a module with nothing to register."""
    from perdure.sdk.registry import Registry

    registry = Registry(build_id)
    registry.register(*modules)
    return registry


def queues_of(registry: "Registry") -> list[str]:
    """The default queue and those the code names."""
    named = [workflow.queue for workflow in registry.workflows.values() if workflow.queue]
    for activity in registry.activities.values():
        named += filter(None, [activity.queue])
    return list(dict.fromkeys(["default", *named]))


def files_of(error: BaseException) -> list[Path]:
    """Source files that had a part in an import's failure."""
    cause = error.__cause__ or error
    files = [Path(frame.filename) for frame in traceback.extract_tb(cause.__traceback__)]
    if isinstance(cause, SyntaxError) and cause.filename:
        files.append(Path(cause.filename))
    own = Path(__file__).parents[1]
    return [file for file in files if file.is_file() and not file.resolve().is_relative_to(own)]
