"""The cache of warm runs: bounded by number always, and past some number by how long they have been idle."""

from typing import Any

import pytest

from perdure.worker import sessions
from perdure.worker.sessions import IDLE_US, Session, Sessions


class StandIn:
    """What the cache knows of a runner."""

    def __init__(self, length: int, *, awaits_answers: bool) -> None:
        self.length = length
        self.awaits_answers = awaits_answers

    def close(self) -> None:
        pass


def opened(cache: Sessions, name: str, now: int, length: int = 1, *, awaits_answers: bool = False) -> Session:
    runner: Any = StandIn(length, awaits_answers=awaits_answers)
    session = Session("default", name, name, runner)
    cache.add(session, now)
    return session


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "KEPT", 3)


@pytest.mark.usefixtures("few")
def test_runs_that_have_been_idle_make_room() -> None:
    """Past the number that is kept: the oldest first, and only those nothing came for in the meantime."""
    cache = Sessions(100)
    old = [opened(cache, f"old-{n}", IDLE_US + n) for n in range(6)]
    opened(cache, "later", 2 * IDLE_US)
    assert len(cache) == 7
    cache.used(old[0])
    for n in range(4):
        opened(cache, f"new-{n}", (4 + n) * IDLE_US)
        cache.used(old[0])
    gone = [session.run_id for session in old if cache.get(session.run_id) is None]
    assert gone == ["old-1", "old-2", "old-3", "old-4", "old-5"]
    assert cache.get("old-0") is old[0]
    assert cache.evicted == 11 - len(cache)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("spared", ["long", "waiting", "works"])
def test_what_would_cost_much_stays(spared: str) -> None:
    """A long history, a report under way, an activity that runs."""
    cache = Sessions(100)
    length = 10_000 if spared == "long" else 1
    first = opened(cache, "first", IDLE_US, length, awaits_answers=spared == "works")
    first.waiting = spared == "waiting"
    for n in range(9):
        opened(cache, f"w-{n}", (2 + n) * IDLE_US)
    assert cache.get("first") is first


def test_few_runs_stay_for_ever() -> None:
    """Below that number time plays no part."""
    cache = Sessions(100)
    for n in range(50):
        opened(cache, f"w-{n}", n * 10 * IDLE_US)
    assert len(cache) == 50


def test_idle_runs_make_room_though_none_comes(monkeypatch) -> None:
    """Asked to cool, the cache drops those long unused, oldest first and a few at a time, until no more than are always kept are left."""
    monkeypatch.setattr(sessions, "KEPT", 3)
    monkeypatch.setattr(sessions, "COOLED_MAX", 2)
    cache = Sessions(100)
    for n in range(8):
        opened(cache, f"w-{n}", IDLE_US + n)
    assert cache.is_crowded
    assert cache.cool(2 * IDLE_US) == 0
    assert [cache.cool(n * IDLE_US) for n in (4, 5, 6, 7)] == [2, 2, 1, 0]
    assert not cache.is_crowded
    assert cache.get("w-7") is not None
