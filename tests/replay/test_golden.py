"""Histories recorded by released versions replay for ever, through the code they were recorded with."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest

from perdure.core import events as ev
from perdure.replay.history import replay_history
from perdure.sdk.registry import Registry
from perdure.store.export import ExportedRun, read_runs

HERE = Path(__file__).parent
FILES = sorted((HERE / "golden").glob("*.jsonl"))


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("golden_workflows", HERE / "workflows.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["golden_workflows"] = module
    spec.loader.exec_module(module)
    return module


REGISTRY = Registry()
REGISTRY.register(*load().EVERYTHING)


def runs(path: Path) -> list[ExportedRun]:
    with path.open("rb") as file:
        return list(read_runs(file))


@pytest.mark.rule("F19")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.rule("O7")
def test_golden_histories_replay(path: Path) -> None:
    """Strictly, all at once and one input at a time."""
    recorded = runs(path)
    assert len(recorded) >= 9
    for run in recorded:
        definition = REGISTRY.workflow(run.type)
        assert definition is not None, run.type
        for one_at_a_time in (False, True):
            replay_history(
                definition,
                run.record.events,
                workflow_id=run.record.workflow_id,
                strict=True,
                one_at_a_time=one_at_a_time,
            ).close()


@pytest.mark.scenario(24)
def test_the_newest_golden_file_holds_every_kind_of_event_that_is_written() -> None:
    """Kinds whose behaviour is not built yet are the only ones missing."""
    unbuilt = ("child", "external", "attributes", "details", "update", "reset")
    kinds = {
        kind.__struct_config__.tag for union in (ev.InputEvent, ev.RecordedCommand, ev.EngineEvent) for kind in get_args(union)
    }
    built = {kind for kind in kinds if not any(word in kind for word in unbuilt)}
    assert {event.type for run in runs(FILES[-1]) for event in run.record.events} == built
