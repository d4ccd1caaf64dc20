"""The outside world of trials over real HTTP: keys are honoured, fate is decided by the seed, questions are heard, the ledger outlives it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, RemoteDisconnected
from pathlib import Path
from typing import Any

import pytest

from perdure.chaos.world.fate import KIND, fate

SEED = 5


class World:
    """The process, and one way to talk to it."""

    def __init__(self, folder: Path, process: subprocess.Popen[str]) -> None:
        self.folder = folder
        self.process = process
        assert process.stdout is not None
        self.port = int(process.stdout.readline())

    def ask(self, method: str, path: str, key: str = "", **body: Any) -> tuple[int, dict[str, Any]]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, json.dumps(body), {"Idempotency-Key": key} if key else {})
            response = connection.getresponse()
            return response.status, json.load(response)
        finally:
            connection.close()

    def post(self, path: str, brief: str, key: str = "", **body: Any) -> tuple[int, dict[str, Any]]:
        return self.ask("POST", f"/{path}", key or f"{path} of {brief}", brief_id=brief, **body)

    def lines(self, entry: str) -> list[dict[str, Any]]:
        lines = (self.folder / "ledger.jsonl").read_text().splitlines()
        return [line for line in map(json.loads, lines) if line["entry"] == entry]


@contextmanager
def running(folder: Path, *options: str) -> Iterator[World]:
    command = [sys.executable, "-m", "perdure.chaos.world", "--dir", str(folder), "--seed", str(SEED), "--until-eof", *options]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield World(folder, process)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def kind(tmp_path: Path) -> Iterator[World]:
    """A world in which nothing ever fails."""
    with running(tmp_path, "--kind") as world:
        yield world


def a_brief(wanted: str) -> str:
    """One whose first charge meets the wanted fate."""
    return next(f"b{n}" for n in range(1000) if getattr(fate(SEED, "charge", f"b{n}", "", 1), wanted))


@pytest.mark.rule("O23")
def test_a_key_seen_before_gets_the_same_answer_and_no_second_effect(kind: World) -> None:
    """Same key and body: one effect, one id; same key, another body: refused."""
    first = kind.post("payments/charge", "b", cents=5)
    assert first[0] == 200
    assert kind.post("payments/charge", "b", cents=5) == first
    assert kind.post("payments/charge", "b", cents=6)[0] == 422
    assert [effect["gave"] for effect in kind.lines("effect")] == [first[1]]
    assert [delivery["became"] for delivery in kind.lines("delivery")] == ["done", "absorbed", "conflict"]


@pytest.mark.rule("O34")
def test_it_fails_before_and_forgets_after_the_effect(tmp_path: Path) -> None:
    """A 503 leaves no effect, a lost answer does; the next delivery gets what is owed."""
    with running(tmp_path) as world:
        fails, forgets = a_brief("fails"), a_brief("forgets")
        assert world.post("payments/charge", fails)[0] == 503
        assert world.lines("effect") == []
        with pytest.raises(RemoteDisconnected):
            world.post("payments/charge", forgets)
        assert [effect["brief_id"] for effect in world.lines("effect")] == [forgets]


def test_a_ledger_outlives_its_process(tmp_path: Path) -> None:
    """Killed and started again, it knows the keys, the counts and the questions it had."""
    with running(tmp_path, "--kind") as world:
        first = world.post("desk/ask", "b", based_on=[])
    with running(tmp_path, "--kind") as world:
        assert world.post("desk/ask", "b", based_on=[]) == first
        assert world.lines("delivery")[-1]["count"] == 2
        assert world.ask("GET", "/desk/asked?after=0")[1]["asked"] == [{"brief_id": "b", "id": first[1]["id"]}]


def test_a_plan_is_the_same_whenever_it_is_made(kind: World) -> None:
    """What the model wants is decided by the seed and the brief, not by the order of requests."""
    plan = kind.post("model/plan", "b", topic="t")[1]
    again = kind.post("model/plan", "b", key="another", topic="t")[1]
    assert plan["uses"] == again["uses"]
    assert 3 <= len(plan["uses"]) <= 5
    assert kind.post("model/plan", "c", topic="t")[1]["uses"] != plan["uses"]


def test_what_makes_no_sense_is_refused(kind: World) -> None:
    """An operation of another service, no key, no brief."""
    assert kind.post("site/charge", "b")[0] == 404
    assert kind.ask("POST", "/payments/charge", brief_id="b")[0] == 400
    assert kind.ask("POST", "/payments/charge", "k")[0] == 400


@pytest.mark.rule("F17")
def test_a_third_of_first_deliveries_goes_wrong() -> None:
    """Half before the effect, half after it; later ones get through, and the third always."""
    firsts = [fate(1, "charge", f"b{n}", "", 1) for n in range(3000)]
    fails, forgets = sum(one.fails for one in firsts), sum(one.forgets for one in firsts)
    assert 420 < fails < 580
    assert 420 < forgets < 580
    assert firsts == [fate(1, "charge", f"b{n}", "", 1) for n in range(3000)]
    seconds = [fate(1, "charge", f"b{n}", "", 2) for n in range(500)]
    assert any(one.forgets for one in seconds)
    assert not any(one.fails for one in seconds)
    assert not any(one.fails or one.forgets for one in (fate(1, "charge", f"b{n}", "", 3) for n in range(500)))
    assert not KIND.fails
