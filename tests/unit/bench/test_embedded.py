"""`perdure bench embedded`, at sizes that take a second: what it counts is exact, what it writes is gone, what it says can be read."""

import gc
import json
import os

import pytest

from perdure.bench import disk, embedded
from perdure.core.errors import InvalidArgument

TINY = {"workflows": 24, "in_flight": 8, "repeats": 2, "long_run": 30, "parked": 12, "loop": "asyncio"}


@pytest.fixture(autouse=True)
def few_flushes(monkeypatch) -> None:
    monkeypatch.setattr(disk.flush_times, "__defaults__", (5,))


def measured(capsys, place, **options):
    """The report of one run as JSON, together with the exit code."""
    code = embedded.main(data=place, output="json", **{**TINY, **options})
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_workflow_takes_one_commit_more_than_it_has_steps(capsys, tmp_path, loop) -> None:
    """N+1 commits for N steps, alone and in a crowd, on both loops: the least that writes every step down before the next."""
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    code, report = measured(capsys, tmp_path, steps=(1, 3), loop=loop)
    assert code == 0
    assert [size["steps"] for size in report["workflows"]] == [1, 3]
    for size in report["workflows"]:
        # A start that waited 2 ms for its first decision is written by itself: a busy machine may add such commits, nothing takes any.
        assert size["many"]["commits_per_workflow"] >= size["steps"] + 1
        assert size["commits_alone"] == size["steps"] + 1
        assert size["many"]["workflows"] == TINY["workflows"] * TINY["repeats"]


def test_a_group_is_one_sync(capsys, tmp_path, monkeypatch) -> None:
    """The syncs that are reported are those the system was asked for."""
    syncs = 0
    sync = os.fdatasync

    def counted(descriptor: int) -> None:
        nonlocal syncs
        syncs += 1
        sync(descriptor)

    marks = []
    original = embedded.many_at_once

    async def watched(node, steps, **options):
        before = syncs
        repeat = await original(node, steps, **options)
        marks.append((syncs - before, repeat.groups))
        return repeat

    monkeypatch.setattr(os, "fdatasync", counted)
    monkeypatch.setattr(embedded, "many_at_once", watched)
    measured(capsys, tmp_path, steps=(2,), long_run=0, parked=0)
    assert len(marks) == TINY["repeats"]
    for counted_syncs, groups in marks:
        assert counted_syncs == groups > 0


def test_nothing_is_left_behind(capsys, tmp_path) -> None:
    """The folder it made is gone, the collector is as it was, and what lay in the directory is untouched."""
    (tmp_path / "mine").write_text("kept")
    before = gc.get_threshold()
    _, report = measured(capsys, tmp_path, steps=(1,))
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
    assert report["machine"]["gc_thresholds"] == [100_000, 20, 50]
    assert report["machine"]["gc_frozen"] > 0


def test_the_collector_can_be_left_alone(capsys, tmp_path) -> None:
    """`gc="default"` measures under Python's own thresholds, with nothing frozen."""
    _, report = measured(capsys, tmp_path, steps=(1,), long_run=0, parked=0, gc="default")
    assert report["machine"]["gc_thresholds"] == list(gc.get_threshold())
    assert report["machine"]["gc_frozen"] == 0


def test_the_folder_goes_also_when_measuring_fails(tmp_path, monkeypatch) -> None:
    """An interrupt in the middle leaves no journal behind."""

    async def interrupted(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(embedded, "many_at_once", interrupted)
    with pytest.raises(KeyboardInterrupt):
        embedded.main(data=tmp_path, **TINY)
    assert list(tmp_path.iterdir()) == []


def test_long_run_and_parked_runs_are_reported(capsys, tmp_path) -> None:
    """The places of the long run, how many steps stand behind each, and every parked run."""
    _, report = measured(capsys, tmp_path, steps=(1,))
    assert [(cost["step"], cost["steps_measured"]) for cost in report["long_run"]] == [(10, 27), (30, 27)]
    assert report["long_run"][0]["wall_ratio"] == 1
    assert report["parked"]["runs"] == TINY["parked"]


def test_what_is_left_out_is_not_reported(capsys, tmp_path) -> None:
    """0 leaves the long run and the parked runs out."""
    _, report = measured(capsys, tmp_path, steps=(1,), long_run=0, parked=0)
    assert report["long_run"] == []
    assert report["parked"] is None


@pytest.mark.parametrize(
    "wrong",
    [{"workflows": 0}, {"in_flight": 0}, {"repeats": 0}, {"steps": ()}, {"steps": (0,)}, {"long_run": 5}, {"parked": -1}],
)
def test_sizes_out_of_bounds_are_refused(tmp_path, wrong) -> None:
    """A size that measures nothing is an error that names it, before anything is made."""
    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        embedded.main(data=tmp_path, **{**TINY, **wrong})
    assert list(tmp_path.iterdir()) == []
