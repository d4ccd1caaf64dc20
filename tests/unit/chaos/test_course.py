"""The course of a trial: what it tells, who is alive, and what people see of it."""

import asyncio
from pathlib import Path

import pytest

from perdure.chaos.course import Course, lines_of
from perdure.chaos.watching import Watcher


def test_every_line_is_on_disk_with_time_and_pid(tmp_path: Path) -> None:
    """And heard at once."""
    heard = []
    course = Course(tmp_path / "course.jsonl", heard.append)
    asyncio.run(course.started("worker", 7, build="v1"))
    assert lines_of(tmp_path / "course.jsonl") == heard
    (line,) = heard
    assert (line["what"], line["role"], line["pid"], line["build"]) == ("started", "worker", 7, "v1")
    assert line["time"] > 1_600_000_000_000_000
    course.close()


@pytest.mark.rule("F15")
def test_who_waits_for_the_end_of_processes_waits_for_all_of_them(tmp_path: Path) -> None:
    """Those that came later do not count, those that end while nobody waits do."""

    async def story() -> None:
        course = Course(tmp_path / "course.jsonl")
        for pid in (1, 2):
            await course.started("worker", pid)
        there = frozenset(course.alive)
        await course.started("worker", 3)
        await course.ended("killed", "worker", 1)
        waiting = asyncio.ensure_future(course.until_gone(there))
        await asyncio.sleep(0)
        assert not waiting.done()
        await course.ended("stopped", "worker", 2)
        await waiting
        await course.until_gone(there)
        course.close()

    asyncio.run(story())


class Told:
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.last = (0, 0)

    def progress(self, accepted: int, ended: int) -> None:
        self.last = (accepted, ended)

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_people_see_what_matters() -> None:
    """Runs that come and go, the node's deaths, the deploy, and why it gave up."""
    told = Told()
    watcher = Watcher(told)  # type: ignore[arg-type]
    for line in (
        {"what": "seed begun", "seed": 4, "runs": 30},
        {"what": "accepted", "s": 1.0},
        {"what": "accepted", "s": 1.0},
        {"what": "ended", "s": 2.0},
        {"what": "killed", "role": "worker", "s": 2.0},
        {"what": "killed", "role": "server", "s": 3.0},
        {"what": "deploy begun", "in_flight": 9, "s": 4.0},
        {"what": "asked", "s": 5.0},
        {"what": "gave up", "why": "6 s are over", "s": 6.0},
    ):
        watcher(line)
    assert told.last == (2, 1)
    assert [note.split("s  ")[-1] for note in told.notes] == [
        "seed 4: 30 runs",
        "killed the node (1 workers so far)",
        "deploying v2 over v1 with 9 runs in flight",
        "gave up: 6 s are over",
    ]
