"""Processes that die: after every event of a history, at random, in the middle of an effect, with their last lines torn."""

import asyncio
import importlib.util
import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import perdure
from perdure.replay.history import replay_history

CHILD = Path(__file__).with_name("crash_child.py")


def load_child() -> ModuleType:
    spec = importlib.util.spec_from_file_location("crash_child", CHILD)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["crash_child"] = module
    spec.loader.exec_module(module)
    return module


child = load_child()


class Place:
    """One directory with its journal and the outside world's ledger."""

    def __init__(self, path: Path) -> None:
        self.data = path / "data"
        self.ledger = path / "ledger.jsonl"

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, str(CHILD), str(self.data), str(self.ledger), *arguments]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=60, check=False)

    def spawn(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(self.command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.ledger.read_text().splitlines()]

    def effects(self) -> Counter[tuple[str, str]]:
        return Counter((line["kind"], line["order"]) for line in self.lines() if line["line"] == "effect")

    def absorbed(self) -> int:
        return sum(line["line"] == "absorbed" for line in self.lines())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def killed_after(process: subprocess.Popen[str], word: str) -> None:
    """SIGKILL once the child has said `word`."""
    assert process.stdout is not None
    said = process.stdout.readline().strip()
    process.kill()
    process.wait()
    process.stdout.close()
    assert said == word


async def opened(place: Place, use: Any) -> Any:
    """Open what a dead process left, with the same code, here."""
    child.LEDGER = place.ledger
    async with perdure.embedded(place.data) as app:
        app.register(*child.EVERYTHING)
        return await use(app)


async def check_replays(app: Any) -> None:
    """Every history replays strictly."""
    rows = [row async for row in app.client.list()]
    for row in rows:
        record = await app.frontend.record("default", row.workflow_id, row.run_id)
        for one in (False, True):
            replay_history(
                app.registry.workflow(row.type), record.events, workflow_id=row.workflow_id, strict=True, one_at_a_time=one
            ).close()
    assert {row.status for row in rows} <= {"completed", "running"}


# ------------------------------------------------------------------------------------------------------------- every length


@pytest.mark.slow
@pytest.mark.rule("O1")
@pytest.mark.rule("F13")
@pytest.mark.rule("O9")
def test_killed_after_every_event(tmp_path: Path) -> None:
    """An order is killed right after each length of its history in turn; each time it ends as it must, every effect once."""
    whole = Place(tmp_path / "whole")
    done = whole.run("sweep", "0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "swept refunded"
    length = int(done.stdout.split()[-1])
    assert length == 13
    expected = {("charge", "swept"): 1, ("label", "swept"): 1, ("ship", "swept"): 1, ("refund", "swept"): 1}
    assert whole.effects() == expected
    killed = 0
    for n in range(1, length + 1):
        place = Place(tmp_path / f"at-{n}")
        first = place.run("sweep", str(n))
        killed += first.returncode == -signal.SIGKILL
        again = place.run("sweep", "0")
        assert again.returncode == 0, f"after event {n}: {again.stderr}"
        assert again.stdout.splitlines()[0] == "swept refunded", f"after event {n}"
        assert place.effects() == expected, f"after event {n}"
        asyncio.run(opened(place, check_replays))
    assert killed >= length - 3  # events that come in one commit die together; a few lengths may not occur in another order


@pytest.mark.slow
@pytest.mark.rule("O10")
def test_killed_at_every_line_of_the_workflow(tmp_path: Path) -> None:
    """The process dies the moment the workflow's code reaches each of its lines in turn; it always ends as it must."""
    whole = Place(tmp_path / "whole")
    done = whole.run("lines", "0")
    assert done.returncode == 0, done.stderr
    count = int(done.stdout.split()[-1])
    assert count >= 10
    for n in range(1, count + 1):
        place = Place(tmp_path / f"at-{n}")
        assert place.run("lines", str(n)).returncode == -signal.SIGKILL, f"line {n}"
        again = place.run("lines", "0")
        assert again.stdout.splitlines()[:1] == ["swept refunded"], f"line {n}: {again.stderr}"
        assert set(place.effects().values()) == {1}, f"line {n}"
        assert place.effects() == whole.effects(), f"line {n}"


# ------------------------------------------------------------------------------------------------------------- at random


def killed_at_random(place: Place, orders: int, seed: int, record_property: Any, kills_min: int = 2) -> tuple[int, int]:
    """Orders under fire, more of them until there were kills enough. Returns how many orders there were, and how many duplicates the
    ledger absorbed."""
    record_property("seed", seed)
    chance = random.Random(seed)
    kills = 0
    deadline = time.monotonic() + 90
    while True:
        process = place.spawn("many", str(orders), str(seed), "0.33")
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "up"
            process.wait(timeout=chance.uniform(0.3, 0.7) if kills < 8 else 60)
            assert process.returncode == 0
            if kills >= kills_min:
                break
            orders += 60  # a fast machine was done before it could be killed
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
        finally:
            process.stdout.close()  # type: ignore[union-attr]
        assert time.monotonic() < deadline, f"not done after {kills} kills"
    expected = Counter()
    for n in range(orders):
        expected.update((kind, f"order-{n}") for kind in ("charge", "label", "ship"))
        if n % 4 == 0:
            expected[("refund", f"order-{n}")] += 1
    assert place.effects() == expected
    return orders, place.absorbed()


@pytest.mark.rule("F18")
@pytest.mark.rule("F17")
@pytest.mark.rule("F19")
@pytest.mark.scenario(64)
def test_killed_at_random(place: Place, record_property) -> None:
    """A few orders, killed now and then, a third of first deliveries answered with an error: effects exactly once, duplicates absorbed."""
    orders, absorbed = killed_at_random(place, 60, 20_240_517, record_property)
    assert absorbed >= 1

    async def judge(app: Any) -> None:
        await check_replays(app)
        assert await app.client.count(status="completed") == orders

    asyncio.run(opened(place, judge))


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("PERDURE_LONG"), reason="by hand: PERDURE_LONG=1")
@pytest.mark.parametrize("seed", range(30))
@pytest.mark.timeout(300)
@pytest.mark.rule("F14")
def test_killed_at_random_for_long(place: Place, record_property, seed: int) -> None:
    """Thirty times as many orders, each time with more kills."""
    _, absorbed = killed_at_random(place, 120, seed, record_property, kills_min=3)
    assert absorbed >= 1


# ------------------------------------------------------------------------------------------------------------- acknowledged


@pytest.mark.rule("F8")
@pytest.mark.scenario(29)
@pytest.mark.rule("O6")
@pytest.mark.scenario(64)
def test_what_was_acknowledged_is_there(place: Place) -> None:
    """A start and a signal whose acknowledgements were seen before the kill are kept, and known by their ids."""
    killed_after(place.spawn("starts"), "started")
    assert place.run("signals").returncode == -signal.SIGKILL

    async def judge(app: Any) -> None:
        handle = app.client.handle("acknowledged", workflow=child.waits)
        await handle.signal("go", "through", signal_id="s-1")
        assert await handle.result() == "through"
        again = await app.client.start(child.waits(), id="acknowledged", request_id="r-1", reuse="never")
        assert await again.result() == "through"
        assert [entry.type for entry in await handle.history()] == ["started", "signal_received", "completed"]

    asyncio.run(opened(place, judge))


@pytest.mark.rule("O40")
@pytest.mark.scenario(84)
def test_a_timer_due_while_nobody_lives(place: Place) -> None:
    """Killed while it sleeps; back after the due time, the timer fires at once, once."""
    killed_after(place.spawn("sleeps"), "sleeping")

    async def judge(app: Any) -> None:
        handle = app.client.handle("naps", workflow=child.naps)
        await handle.result()
        history = await handle.history()
        assert [entry.type for entry in history] == ["started", "timer_started", "timer_fired", "completed"]
        assert history[2].time.timestamp() * 1e6 >= history[1].due - 1

    time.sleep(0.25)  # the point is that time passes with no process there
    asyncio.run(opened(place, judge))


def test_an_activity_of_one_attempt_is_never_run_twice(place: Place) -> None:
    """Killed in the middle of its only attempt: the claim was on disk before it ran, so it is lost and not run again."""
    killed_after(place.spawn("pays"), "paid")

    async def judge(app: Any) -> None:
        handle = app.client.handle("pays", workflow=child.pays_once)
        assert await handle.result() == "lost 1"

    asyncio.run(opened(place, judge))
    assert [line["line"] for line in place.lines()] == ["effect"]


# ------------------------------------------------------------------------------------------------------------- torn lines


@pytest.mark.rule("F7")
def test_a_node_starts_from_any_cut_of_its_last_two_lines(place: Place, tmp_path: Path, caplog) -> None:
    """The newest segment ends at every byte of its last two lines in turn: the node starts from the longest whole prefix, says what it
    cut, and goes on."""
    place.data.mkdir()

    async def write(app: Any) -> None:
        for n in range(3):
            await app.client.start(child.waits(), id=f"w-{n}")

    asyncio.run(opened(place, write))
    segment = place.data / "journal" / "00000001.jsonl"
    text = segment.read_bytes()
    lines = text.splitlines(keepends=True)
    assert b'"foot"' in lines[-1]
    body = b"".join(lines[:-1])  # as a kill leaves it: no footer
    before = len(body) - len(lines[-2]) - len(lines[-3])

    async def judge(app: Any, whole: int) -> None:
        assert await app.client.count() == whole
        handle = await app.client.start(child.waits(), id="after")
        await handle.signal("go", "on")
        assert await handle.result() == "on"

    cuts = range(before, len(body) + 1)
    step = max(1, len(cuts) // 120)
    edges = {before, before + 1, before + len(lines[-3]) - 1, before + len(lines[-3]), len(body) - 1, len(body)}
    for cut in sorted({*cuts[::step], *edges}):
        copy = Place(tmp_path / f"cut-{cut}")
        shutil.copytree(place.data, copy.data)
        (copy.data / "journal" / segment.name).write_bytes(body[:cut])
        ended = body[:cut] + b"\n" * body[cut:].startswith(b"\n")  # a line that lacks nothing but its newline is kept
        kept = [line for line in ended.splitlines(keepends=True) if line.endswith(b"\n")]
        whole = sum(b'"type":"started"' in line for line in kept)
        is_torn = not ended.endswith(b"\n")
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            asyncio.run(opened(copy, lambda app, whole=whole: judge(app, whole)))
        assert any("torn" in record.getMessage() for record in caplog.records) == is_torn, cut
        shutil.rmtree(copy.data)
