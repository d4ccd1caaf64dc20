"""`perdure bench remote`, at sizes that take seconds: real processes, counts that can be checked, nothing left behind."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from perdure.bench import disk, remote
from perdure.bench.child import Child, cpu_of
from perdure.bench.figures import Percentiles, Spread, Yardstick
from perdure.bench.machine import machine_at
from perdure.bench.remote_figures import (
    ROLES,
    Answer,
    RemoteRepeat,
    RemoteReport,
    RemoteSettings,
    RemoteSize,
    RemoteThroughput,
    Wire,
)
from perdure.core.errors import InvalidArgument, Unavailable


@pytest.fixture(autouse=True)
def few_flushes(monkeypatch) -> None:
    monkeypatch.setattr(disk.flush_times, "__defaults__", (5,))


def test_three_processes_are_measured_and_gone_afterwards(capsys, tmp_path, monkeypatch) -> None:
    """Server, worker and client do what is counted: at least N+1 commits for N steps, traffic both ways, CPU of each; then all is gone."""
    monkeypatch.setattr(remote, "WARM", 5)
    pids = []
    enter = Child.__aenter__

    async def noted(child):
        entered = await enter(child)
        pids.extend([child.pid, *child.facts.get("pids", [])])
        return entered

    monkeypatch.setattr(Child, "__aenter__", noted)
    code = remote.main(workflows=12, in_flight=4, repeats=2, steps=(1, 3), events=(12, 0), data=tmp_path, output="json")
    report = json.loads(capsys.readouterr().out)
    assert code == 0
    assert [size["steps"] for size in report["workflows"]] == [1, 3]
    for size in report["workflows"]:
        many = size["many"]
        assert many["workflows"] == 24
        assert many["commits_per_workflow"] >= size["steps"] + 1
        assert many["messages_per_workflow"] > many["frames_per_workflow"] > 0
        assert many["bytes_per_workflow"] > 500
        assert set(many["cpu_us"]) == set(ROLES)
    (answer,) = report["answers"]
    assert answer["events"] >= 12
    assert answer["warm"]["samples"] == 5
    assert list(tmp_path.iterdir()) == []
    assert len(pids) >= 6
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_people_are_told_in_tables() -> None:
    """Every figure has its line and is what the repeats give; the same in text and Markdown."""
    repeat = RemoteRepeat(10, 2.0, 20, 5, Wire(30, 140, 9_000), dict.fromkeys(ROLES, 0.001))
    flush = Percentiles(samples=5, p50_us=1.0, p99_us=2.0, p999_us=3.0)
    size = RemoteSize(
        steps=5,
        latency=Percentiles(samples=5, p50_us=1_500.0, p99_us=2_500.0, p999_us=3_500.0),
        commits_alone=6.0,
        frames_alone=9.0,
        messages_alone=30.0,
        bytes_alone=10_000.0,
        many=RemoteThroughput.of([repeat, repeat._replace(seconds=1.0)]),
    )
    report = RemoteReport(
        machine=machine_at(Path.cwd(), "asyncio"),
        settings=RemoteSettings(workflows=10, in_flight=4, repeats=2),
        yardstick=Yardstick(loop_us_before=1.0, loop_us_after=2.0, flush_before=flush, flush_after=flush),
        workflows=(size,),
        answers=(Answer(events=12, cold_ms=Spread.of([3.0, 4.0, 5.0]), warm=flush, warm_bytes=800.0),),
    )
    text, markdown = remote.REMOTE_FORMATS["text"](report), remote.REMOTE_FORMATS["markdown"](report)
    wanted = {
        "one client: p50": "1.50 ms",
        "4 in flight: workflows/s": "8",  # the median of 5 and 10
        "frames per step": "0.60",
        "bytes per step": "180",
        "CPU of the worker per workflow": "100 µs",
        "12 events": "4.0 ms (3.0–5.0)",
    }
    for name, value in wanted.items():
        assert any(line.startswith(name) and value in line for line in text.splitlines()), name
        assert any(line.startswith(f"| {name}") and value in line for line in markdown.splitlines()), name
    assert report.faults == ["5-step workflows took 2.000 commits: fewer than 6"]


@pytest.mark.parametrize(
    "wrong", [{"workflows": 0}, {"in_flight": 0}, {"repeats": 0}, {"steps": ()}, {"steps": (0,)}, {"events": (-1,)}]
)
def test_sizes_that_measure_nothing_are_refused(wrong, tmp_path) -> None:
    """A benchmark of nothing is refused before anything starts."""
    with pytest.raises(InvalidArgument):
        remote.main(data=tmp_path, **wrong)
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_does_not_become_ready_says_why(tmp_path) -> None:
    """What it wrote to standard error is in the message."""

    async def enter() -> None:
        async with Child("worker", "worker", "no.such.module_nowhere", log=tmp_path / "log"):
            pytest.fail("it is not ready")

    with pytest.raises(Unavailable, match="nowhere"):
        asyncio.run(enter())


def test_cpu_of_nobody_is_none() -> None:
    """A process that is gone has used nothing that could be told."""
    assert cpu_of(2**22 + 1) == 0.0
