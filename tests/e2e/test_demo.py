"""The demo as people run it: processes, kills, and the audit at its end."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure.demo.performance import moments


def demo(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "perdure", "demo", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=110, check=False, env={**os.environ, **environment})


def books_of(place: Path) -> list[str]:
    return [
        *("--journal", str(place / "engine" / "journal")),
        *("--ledger", str(place / "services" / "ledger.jsonl")),
        *("--orders", str(place / "orders.jsonl")),
    ]


def audited(place: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "perdure.testing.audit", *books_of(place), "-o", "json"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def children_of(pid: int) -> set[int]:
    text = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False).stdout
    return set(map(int, text.split()))


def ends(pidfd: int) -> bool:
    """Wait until the process behind it has ended; false when it has not within half a minute."""
    readable, _, _ = select.select([pidfd], [], [], 30)
    os.close(pidfd)
    return bool(readable)


@pytest.mark.slow
@pytest.mark.rule("O1")
@pytest.mark.rule("O31")
@pytest.mark.rule("F13")
@pytest.mark.rule("F17")
@pytest.mark.rule("F18")
@pytest.mark.rule("F15")
def test_orders_survive_kills(tmp_path: Path) -> None:
    """The engine is killed at least three times with orders in flight: nothing lost, nothing doubled, duplicates absorbed.

    Afterwards the same books with one line of the ledger doubled, and then with one history forgotten, are found out.
    """
    place = tmp_path / "demo"
    done = demo("--orders", "30", "--crash", "--seed", "11", "--data", str(place), "-o", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    assert said["ok"]
    assert len(said["kills"]) >= 3
    assert min(said["kills"]) > 0
    counts = said["counts"]
    assert counts["orders"] == counts["completed"] == counts["charged"] == 30
    assert counts["shipped"] + counts["refunded"] == 30
    assert min(counts["duplicates_absorbed"], counts["requests_failed"], counts["replies_lost"], counts["refunded"]) > 0
    assert audited(place).returncode == 0

    ledger = place / "services" / "ledger.jsonl"
    lines = ledger.read_text().splitlines(keepends=True)
    ledger.write_text("".join([*lines, next(line for line in lines if '"line":"effect"' in line)]))
    doubled = audited(place)
    assert doubled.returncode == 1
    assert any("2 times under one key" in found["text"] for found in json.loads(doubled.stdout)["violations"])

    ledger.write_text("".join(lines))
    with (place / "orders.jsonl").open("a") as book:
        book.write('{"line":"start","order_id":"order-99999","cents":1,"needs_approval":false}\n')
    lost = audited(place)
    assert lost.returncode == 1
    assert {"order_id": "order-99999", "text": "is lost: its start was acknowledged, but it has no history"} in json.loads(
        lost.stdout
    )["violations"]


@pytest.mark.slow
@pytest.mark.rule("O31")
def test_a_seeded_violation_makes_the_demo_fail(tmp_path: Path) -> None:
    """With one charge doubled before the audit, the exit code is 1, the order is named, and the evidence is kept."""
    done = demo("--orders", "5", "--seed", "3", "--tamper", TMPDIR=str(tmp_path))
    assert done.returncode == 1
    assert "charge was done 2 times under one key" in done.stdout
    assert "The books do not agree" in done.stdout
    (kept,) = tmp_path.iterdir()
    assert str(kept) in done.stdout


@pytest.mark.slow
def test_a_demo_that_went_well_leaves_nothing(tmp_path: Path) -> None:
    """Exit code 0, the verdict in words, and the temporary directory gone."""
    done = demo("--orders", "5", "--seed", "4", TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Both books agree" in done.stdout
    assert "5 of 5 orders done" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_timeout_ends_it_and_its_processes(tmp_path: Path) -> None:
    """Exit code 124 when time is up, and no process is left behind."""
    done = demo("--orders", "5", "--seed", "4", "--timeout", "0.2", TMPDIR=str(tmp_path))
    assert done.returncode == 124
    assert "not finished after 0.2 s" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_its_processes_end_with_it(tmp_path: Path, how: signal.Signals) -> None:
    """Ctrl-C, SIGTERM, even SIGKILL of the demo: services and engine do not outlive it."""
    command = [sys.executable, "-m", "perdure", "demo", "--orders", "2000", "--crash", "--data", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    process.stderr.readline()  # it has killed its engine once, or come a tenth of the way
    children = [os.pidfd_open(pid) for pid in children_of(process.pid)]
    assert children
    process.send_signal(how)
    process.communicate(timeout=60)
    assert process.returncode in {130, -how}
    assert all(ends(child) for child in children)


@pytest.mark.slow
def test_a_demo_goes_on_where_it_was_left(tmp_path: Path) -> None:
    """Two demos at one place are one: the second finds its orders done and charges nobody again; another seed is refused."""
    place = tmp_path / "demo"
    arguments = ("--orders", "5", "--seed", "4", "--data", str(place), "-o", "json")
    first = json.loads(demo(*arguments).stdout)
    again = demo(*arguments)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["counts"] == first["counts"]
    other = demo("--orders", "5", "--seed", "5", "--data", str(place))
    assert other.returncode == 2
    assert "holds a demo of 5 orders with seed 4" in other.stderr


def test_moments_of_the_kills() -> None:
    """At least three, none after more orders have ended than can; the seed decides them."""
    for orders in (1, 2, 3, 20, 200, 5000):
        planned = moments(7, orders)
        assert 3 <= len(planned) <= 8
        assert planned == moments(7, orders)
        assert all(0 <= moment.ended <= orders - 1 for moment in planned)
    assert moments(7, 200) != moments(8, 200)
