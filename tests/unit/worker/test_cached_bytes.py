"""The cache of warm runs is bounded by bytes: what it counts is near what Python really holds, and the oldest make room."""

import gc
import json
import tracemalloc
from typing import Any

import pytest
from msgspec import Raw

from perdure import activity, workflow
from perdure.core import events as ev
from perdure.replay.runner import Runner
from perdure.sdk.workflow import workflow_of
from perdure.worker.sessions import EVENT_BYTES, EXPANSION, RUN_BYTES, Session, Sessions


@activity
async def step(number: int) -> Any: ...


@workflow
async def keeps(count: int) -> None:
    kept = [await step(number) for number in range(count)]
    await workflow.receive("go")
    print(kept)


@workflow
async def lets_go(count: int) -> None:
    for number in range(count):
        await step(number)
    await workflow.receive("go")


SHAPES: dict[str, Any] = {
    "number": 12_345,
    "almost empty": {"order": {"id": "xxxxxxxxxx", "lines": []}},
    "text": "x" * 2_000,
    "record": {"id": "order-1", "name": "Ann", "cents": 12_345, "paid": True},
    "many small ones": [{"sku": f"abc{n}", "n": n} for n in range(100)],
}


def history(count: int, value: Any) -> tuple[list[Any], int]:
    payload = Raw(json.dumps(value).encode())
    started: Any = ev.Started(
        id=1, time=1, workflow_type="w", queue="q", run_id="r", seed=1, request_id="s", input=(Raw(str(count).encode()),)
    )
    events: list[Any] = [started]
    for number in range(count):
        at = len(events)
        events.append(ev.ActivityScheduled(id=at + 1, time=1, at=at, based_on=at, name="step", ordinal=number + 1))
        events.append(ev.ActivityCompleted(id=at + 2, time=1, command=at + 1, result=payload))
    return events, len(payload) * count


def warm(definition: Any, count: int, value: Any, name: str = "w") -> Session:
    events, size = history(count, value)
    made = workflow_of(definition)
    assert made is not None
    runner = Runner(made, "default", name, events[0])
    runner.context.history_bytes = size
    runner.advance(events, len(events))
    return Session("default", name, name, runner)


def held(definition: Any, count: int, value: Any, runs: int = 10) -> tuple[float, float]:
    """Bytes that Python holds for each of some warm runs, and what the cache counts for it."""
    warm(definition, count, value).runner.close()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    cache = Sessions(1_000, 10**12)
    for number in range(runs):
        session = warm(definition, count, value, f"w{number}")
        cache.add(session)
        cache.weigh(session)
        del session
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    counted = cache.bytes
    cache.clear()
    assert cache.bytes == 0
    return grown / runs, counted / runs


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [0, 1, 10, 200])
def test_what_code_keeps_weighs_at_most_twice_what_is_counted(shape: str, count: int) -> None:
    """Whatever its results look like."""
    real, counted = held(keeps, count, SHAPES[shape])
    assert real <= 2 * counted


@pytest.mark.parametrize(("shape", "count"), [("number", 0), ("number", 200), ("record", 200), ("many small ones", 200)])
def test_it_is_no_wild_guess(shape: str, count: int) -> None:
    """For runs that keep structured data what is counted is within twice what is held, in either direction."""
    real, counted = held(keeps, count, SHAPES[shape])
    assert real / 2 <= counted <= 2 * real


def test_what_code_lets_go_of_is_not_held() -> None:
    """A warm run holds no history: one that keeps nothing of 200 results of 25 KB weighs about as much as an empty one."""
    empty, _ = held(lets_go, 0, 1)
    long, _ = held(lets_go, 200, SHAPES["many small ones"])
    assert long <= empty + 20_000


class StandIn:
    """What the cache knows of a runner."""

    def __init__(self, length: int, size: int) -> None:
        self.length = length
        self.context = self
        self.history_bytes = size
        self.awaits_answers = False

    def close(self) -> None:
        pass


def opened(cache: Sessions, name: str, size: int) -> Session:
    runner: Any = StandIn(1, size)
    session = Session("default", name, name, runner)
    cache.add(session)
    cache.weigh(session)
    return session


EACH = RUN_BYTES + EVENT_BYTES + EXPANSION * 1_000


def test_the_oldest_make_room() -> None:
    """Past the bound, those not used for longest go, until the rest fits."""
    cache = Sessions(1_000, 3 * EACH)
    for name in ("a", "b", "c"):
        opened(cache, name, 1_000)
    first = cache.get("a")
    assert first is not None
    cache.used(first)
    opened(cache, "d", 1_000)
    assert [name for name in "abcd" if cache.get(name) is not None] == ["a", "c", "d"]
    assert (cache.bytes, cache.evicted) == (3 * EACH, 1)


def test_a_run_that_grows_makes_others_go() -> None:
    """What counts is what it weighs now."""
    cache = Sessions(1_000, 3 * EACH)
    sessions = [opened(cache, name, 1_000) for name in ("a", "b", "c")]
    sessions[2].runner.context.history_bytes = 1_000 + 2 * EACH // EXPANSION
    cache.weigh(sessions[2])
    assert [name for name in "abc" if cache.get(name) is not None] == ["c"]
    assert cache.bytes <= 3 * EACH


def test_what_is_waited_for_stays_and_so_does_what_has_just_come() -> None:
    """A report under way is not thrown away, nor a run that is too heavy alone: somebody has to run it."""
    cache = Sessions(1_000, 2 * EACH)
    first = opened(cache, "a", 1_000)
    first.waiting = True
    opened(cache, "b", 1_000)
    opened(cache, "heavy", 10 * EACH)
    assert [name for name in ("a", "b", "heavy") if cache.get(name) is not None] == ["a", "heavy"]
    first.waiting = False
    opened(cache, "c", 1_000)
    assert [name for name in ("a", "heavy", "c") if cache.get(name) is not None] == ["c"]
