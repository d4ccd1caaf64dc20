"""`perdure bench replay`, at a size that takes a moment: warm tasks are handed only what is new, cold ones the whole history."""

import json

import pytest

from perdure.bench import replay
from perdure.core.errors import InvalidArgument


@pytest.mark.rule("O36")
def test_what_a_warm_run_is_handed_does_not_grow_with_its_history(capsys, tmp_path) -> None:
    """Ten times the history, the same two events a task; without the cache it is all of it, and nothing is left on the disk."""
    assert replay.main(lengths=(20, 200), tasks=10, data=tmp_path, output="json") == 0
    short, long = json.loads(capsys.readouterr().out)["sizes"]
    assert short["warm"]["events_each"] == long["warm"]["events_each"] == 2
    assert short["cold"]["events_each"] > 20
    assert long["cold"]["events_each"] > 200
    assert long["cold"]["latency"]["samples"] == 10
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("wrong", [{"lengths": ()}, {"lengths": (1,)}, {"tasks": 0}])
def test_what_cannot_be_measured_is_refused(wrong, tmp_path) -> None:
    """In words."""
    with pytest.raises(InvalidArgument):
        replay.main(data=tmp_path, **wrong)
