"""The mock services over real HTTP: keys are honoured, faults follow the plan, and the ledger outlives its process."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, RemoteDisconnected
from pathlib import Path
from typing import Any

import pytest

from perdure.demo.faults import MODES, FaultPlan

SEED = 5


class Services:
    """The process, and one way to talk to it."""

    def __init__(self, folder: Path, modes: str, process: subprocess.Popen[str]) -> None:
        self.folder = folder
        self.modes = modes
        self.process = process
        assert process.stdout is not None
        self.port = int(process.stdout.readline())

    def ask(self, path: str, key: str, **body: Any) -> tuple[int, dict[str, Any]]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("POST", path, json.dumps(body), {"Idempotency-Key": key} if key else {})
            response = connection.getresponse()
            return response.status, json.load(response)
        finally:
            connection.close()

    def charge(self, order: str, key: str = "", cents: int = 5) -> tuple[int, dict[str, Any]]:
        return self.ask("/payments/charge", key or f"key of {order}", order_id=order, cents=cents)

    def ledger(self, kind: str) -> list[dict[str, Any]]:
        lines = (self.folder / "ledger.jsonl").read_text().splitlines()
        return [line for line in map(json.loads, lines) if line["line"] == kind]

    def outcomes(self) -> list[str]:
        return [line["outcome"] for line in self.ledger("request")]


@contextmanager
def serving(folder: Path, modes: str = "") -> Iterator[Services]:
    command = [sys.executable, "-m", "perdure.demo.services", "--dir", str(folder), "--seed", str(SEED), "--until-eof"]
    process = subprocess.Popen([*command, "--modes", modes], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield Services(folder, modes, process)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def kind(tmp_path: Path) -> Iterator[Services]:
    """Services of which nothing ever fails."""
    with serving(tmp_path) as services:
        yield services


def an_order(wanted: str, plan: FaultPlan, operation: str = "charge") -> str:
    """An order whose first delivery meets the wanted fate."""
    return next(f"o{n}" for n in range(1000) if getattr(plan.fate(operation, f"o{n}", 1), wanted))


@pytest.mark.rule("O23")
def test_a_key_seen_before_gets_the_same_answer_and_no_second_effect(kind: Services) -> None:
    """Two deliveries under one key: one effect, one id; two keys: two effects."""
    first = kind.charge("a")
    assert first[0] == 200
    assert kind.charge("a") == first
    assert kind.charge("a", key="another")[1]["id"] != first[1]["id"]
    assert [effect["cents"] for effect in kind.ledger("effect")] == [5, 5]
    assert kind.outcomes() == ["done", "absorbed", "done"]


def test_a_key_with_another_body_is_a_conflict(kind: Services) -> None:
    """422, written down, nothing done."""
    kind.charge("a")
    assert kind.charge("a", cents=6)[0] == 422
    assert kind.outcomes() == ["done", "conflict"]
    assert len(kind.ledger("effect")) == 1


@pytest.mark.parametrize(
    ("path", "key", "body", "status"),
    [
        ("/payments/charge", "", {"order_id": "a"}, 400),
        ("/payments/charge", "k", {}, 400),
        ("/payments/ship", "k", {"order_id": "a"}, 404),
        ("/bakery/charge", "k", {"order_id": "a"}, 404),
    ],
)
def test_what_is_no_request_is_not_written_down(kind: Services, path: str, key: str, body: dict[str, str], status: int) -> None:
    """No key, no order, or a service that does not do that: refused without a trace in the ledger."""
    assert kind.ask(path, key, **body)[0] == status
    assert kind.ledger("request") == []


@pytest.mark.rule("O23")
@pytest.mark.rule("O34")
def test_the_ledger_survives_a_kill(tmp_path: Path) -> None:
    """After SIGKILL and half a line at its end, the same key still gets the same answer, another body still a conflict."""
    with serving(tmp_path) as services:
        first = services.charge("a")
    with (tmp_path / "ledger.jsonl").open("a") as ledger:
        ledger.write('{"line":"effect","ti')
    with serving(tmp_path) as services:
        assert services.charge("a") == first
        assert services.charge("a", cents=9)[0] == 422
        assert services.charge("b")[1]["id"] != first[1]["id"]
        assert [line["delivery"] for line in services.ledger("request")] == [1, 2, 3, 1]


@pytest.mark.rule("O34")
@pytest.mark.rule("F17")
def test_failing(tmp_path: Path) -> None:
    """A first delivery that is to fail gets 503 and has no effect; the second is done."""
    order = an_order("fails", FaultPlan.of(SEED, ["failing"]))
    with serving(tmp_path, "failing") as services:
        assert services.charge(order)[0] == 503
        assert services.ledger("effect") == []
        assert services.charge(order)[0] == 200
        assert services.outcomes() == ["failed", "done"]


@pytest.mark.rule("O34")
@pytest.mark.rule("F18")
def test_forgetful(tmp_path: Path) -> None:
    """The work is done, the connection drops without an answer; asked again, the key is known and nothing is done twice."""
    order = an_order("forgets", FaultPlan.of(SEED, ["forgetful"]))
    with serving(tmp_path, "forgetful") as services:
        with pytest.raises((RemoteDisconnected, ConnectionResetError)):
            services.charge(order)
        assert [effect["order_id"] for effect in services.ledger("effect")] == [order]
        assert services.charge(order) == (200, {"id": services.ledger("effect")[0]["id"]})
        assert services.outcomes() == ["forgotten", "absorbed"]


def test_shipping_refuses_some_orders_for_good(kind: Services) -> None:
    """A bad address stays one, however often it is tried and whatever mode is on."""
    order = next(f"o{n}" for n in range(1000) if FaultPlan.of(SEED, []).refuses_to_ship(f"o{n}"))
    assert [kind.ask("/shipping/ship", "k", order_id=order)[0] for _ in range(3)] == [409, 409, 409]
    assert kind.ledger("effect") == []
    assert kind.outcomes() == ["refused"] * 3


def test_it_ends_when_its_starter_is_gone(kind: Services) -> None:
    """The end of standard input stops it, ledger closed."""
    assert kind.process.stdin is not None
    kind.process.stdin.close()
    kind.process.stdin = None
    assert kind.process.wait(timeout=20) == 0


def test_the_plan_is_decided_by_the_seed() -> None:
    """Same seed, same fates; another seed, others."""
    asked = [("charge", f"o{n}", delivery) for n in range(50) for delivery in (1, 2, 3)]
    fates = [FaultPlan.of(1, MODES).fate(*ask) for ask in asked]
    assert fates == [FaultPlan.of(1, MODES).fate(*ask) for ask in asked]
    assert fates != [FaultPlan.of(2, MODES).fate(*ask) for ask in asked]


@pytest.mark.rule("F17")
def test_about_a_third_of_first_deliveries_fail_and_no_other() -> None:
    """A retry always finds a service that works."""
    plan = FaultPlan.of(SEED, MODES)
    first = [plan.fate("charge", f"o{n}", 1).fails for n in range(2000)]
    assert 0.3 < sum(first) / len(first) < 0.37
    assert not any(plan.fate("charge", f"o{n}", 2).fails for n in range(2000))


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_does_only_what_it_says(mode: str) -> None:
    """With one mode in force, only its faults occur; with none, no fault at all."""
    fates = [FaultPlan.of(SEED, [mode]).fate("charge", f"o{n}", 1) for n in range(500)]
    seen = {
        "failing": any(fate.fails for fate in fates),
        "forgetful": any(fate.forgets for fate in fates),
        "slow": any(fate.delay_before or fate.delay_after for fate in fates),
    }
    assert seen == {name: name == mode for name in MODES}


def test_an_unknown_mode_is_refused() -> None:
    """A typing mistake does not silently switch all faults off."""
    with pytest.raises(ValueError, match="no fault mode sloow"):
        FaultPlan.of(1, ["sloow"])
