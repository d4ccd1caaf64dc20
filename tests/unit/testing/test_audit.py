"""The auditor against books written by hand: it is silent when they agree and names the order when they do not."""

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from perdure.core.ids import idempotency_key
from perdure.testing.audit import audit
from perdure.testing.audit.books import read_journal

Line = dict[str, Any]


@dataclass
class Writer:
    """Writes three books in which every order went well; a test then spoils one of them."""

    starts: list[Line] = field(default_factory=list)
    histories: dict[str, list[Line]] = field(default_factory=dict)
    ledger: list[Line] = field(default_factory=list)
    clock: Any = field(default_factory=lambda: count(1_700_000_000_000_000, 1_000))

    def event(self, order: str, type: str, **fields: Any) -> Line:
        history = self.histories.setdefault(order, [])
        event = {"type": type, "id": len(history) + 1, "time": next(self.clock), **fields}
        history.append(event)
        return event

    def step(self, order: str, name: str, cents: int = 0) -> None:
        ordinal = 1 + sum(e["type"] == "activity_scheduled" and e["name"] == name for e in self.histories[order])
        asked = self.event(order, "activity_scheduled", at=1, based_on=1, name=name, ordinal=ordinal)
        key = idempotency_key("default", order, f"run-{order}", name, ordinal)
        effect_id = f"{name}-{len(self.ledger)}"
        common = {"time": asked["time"], "service": "any", "operation": name, "order_id": order, "key": key}
        self.ledger.append({"line": "effect", **common, "id": effect_id, "cents": cents})
        self.ledger.append({"line": "request", **common, "delivery": 1, "outcome": "done"})
        self.event(order, "activity_completed", command=asked["id"], result=effect_id)

    def begin(self, order: str, cents: int, *, large: bool = False) -> None:
        self.starts.append({"line": "start", "order_id": order, "cents": cents, "needs_approval": large})
        self.event(order, "started", run_id=f"run-{order}", input=[{"id": order, "cents": cents}])
        self.step(order, "charge", cents)

    def approve(self, order: str, value: bool) -> None:
        self.event(order, "signal_received", name="approve", signal_id=f"a-{order}", input=[value])
        self.starts.append({"line": "signal", "order_id": order, "name": "approve", "signal_id": f"a-{order}", "value": value})

    def end(self, order: str) -> None:
        self.event(order, "completed", at=1, based_on=1)

    def refuse_shipping(self, order: str) -> None:
        asked = self.event(order, "activity_scheduled", at=1, based_on=1, name="ship", ordinal=1)
        self.ledger.append(
            {"line": "request", "operation": "ship", "order_id": order, "key": "x", "delivery": 1, "outcome": "refused"}
        )
        self.event(order, "activity_failed", command=asked["id"], failure={"type": "RefusedError"})

    def lines(self) -> list[Line]:
        """The journal: two transitions a run, between a header and a footer."""
        lines: list[Line] = [{"format": 1}]
        for order, events in self.histories.items():
            middle = len(events) // 2
            for part in (events[:middle], events[middle:]):
                change = {"run_id": f"run-{order}", "events": part}
                lines += [{"t": {"workflow_id": order, "runs": [change]}}]
        return [*lines, {"footer": True}]

    def save(self, folder: Path) -> tuple[Path, Path, Path]:
        journal, ledger, orders = folder / "journal", folder / "ledger.jsonl", folder / "orders.jsonl"
        journal.mkdir(exist_ok=True)
        write_journal(journal / "00000001.jsonl", self.lines())
        write(ledger, self.ledger)
        write(orders, self.starts)
        return journal, ledger, orders

    def judge(self, folder: Path) -> list[str]:
        return [str(violation) for violation in audit(*self.save(folder)).violations]


def write(path: Path, lines: list[Line]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_journal(path: Path, lines: list[Line], first: int = 1) -> None:
    """Frame lines as the journal does: CRC first, over all that follows; then the line's number."""
    framed = []
    for seq, line in enumerate(lines, first):
        checked = json.dumps({"seq": seq, **line}, separators=(",", ":")).encode()
        checked = b"," + checked[1:]
        framed.append(b'{"crc":"%08x"%b\n' % (crc32(checked), checked))
    path.write_bytes(b"".join(framed))


@pytest.fixture
def books() -> Writer:
    """Four orders: small, large and approved, large and declined, and one that shipping refuses."""
    writer = Writer()
    writer.begin("small", 900)
    writer.step("small", "ship")
    writer.step("small", "assign_driver")
    writer.end("small")
    writer.begin("large", 60_000, large=True)
    writer.approve("large", True)
    writer.step("large", "ship")
    writer.step("large", "assign_driver")
    writer.end("large")
    writer.begin("declined", 70_000, large=True)
    writer.approve("declined", False)
    writer.step("declined", "refund", 70_000)
    writer.end("declined")
    writer.begin("refused", 800)
    writer.refuse_shipping("refused")
    writer.step("refused", "refund", 800)
    writer.end("refused")
    return writer


def effect(books: Writer, order: str, operation: str) -> Line:
    return next(e for e in books.ledger if e["line"] == "effect" and (e["order_id"], e["operation"]) == (order, operation))


def event(books: Writer, order: str, type: str, name: str | None = None) -> Line:
    return next(e for e in books.histories[order] if e["type"] == type and e.get("name") == name)


@pytest.mark.rule("F13")
def test_books_that_agree(books: Writer, tmp_path: Path) -> None:
    """Clean books give no violation, and everything in them is counted."""
    verdict = audit(*books.save(tmp_path))
    assert verdict.violations == []
    assert verdict.ok
    counts = verdict.counts
    assert (counts.orders, counts.completed, counts.charged, counts.shipped, counts.refunded) == (4, 4, 4, 2, 2)
    assert (counts.charged_cents, counts.refunded_cents, counts.approvals) == (131_700, 70_800, 2)
    assert (counts.requests, counts.shipments_refused) == (11, 1)


@pytest.mark.rule("F18")
def test_duplicates_are_told_apart(books: Writer, tmp_path: Path) -> None:
    """A repeat after a lost reply is absorbed; a repeat after an answer shows that the asker died with it."""
    key = effect(books, "small", "charge")["key"]
    asked = {"line": "request", "operation": "charge", "order_id": "small", "key": key, "delivery": 2}
    books.ledger += [asked | {"outcome": outcome} for outcome in ("absorbed", "forgotten", "absorbed", "failed", "absorbed")]
    counts = audit(*books.save(tmp_path)).counts
    assert (counts.duplicates_absorbed, counts.answers_unheard) == (3, 1)


def doubled_under_its_key(books: Writer) -> None:
    books.ledger.append(dict(effect(books, "small", "charge")))


def doubled_under_another_key(books: Writer) -> None:
    books.ledger.append(effect(books, "small", "charge") | {"key": "other", "id": "charge-99"})


def second_activity_did_it_again(books: Writer) -> None:
    closing = books.histories["small"].pop()
    books.step("small", "charge", 900)
    books.histories["small"].append(closing | {"id": len(books.histories["small"]) + 1, "time": next(books.clock)})


def order_lost(books: Writer) -> None:
    del books.histories["small"]


def order_and_its_effects_lost(books: Writer) -> None:
    del books.histories["small"]
    books.ledger = [line for line in books.ledger if line["order_id"] != "small"]


def order_unfinished(books: Writer) -> None:
    books.histories["small"].pop()


def order_failed(books: Writer) -> None:
    books.histories["small"][-1]["type"] = "failed"


def steps_swapped_in_the_ledger(books: Writer) -> None:
    books.ledger.sort(key=lambda line: (line["order_id"], line["operation"] != "ship"))


def steps_swapped_in_the_history(books: Writer) -> None:
    charge, ship = (event(books, "small", "activity_scheduled", name) for name in ("charge", "ship"))
    charge["name"], ship["name"] = "ship", "charge"
    for line in books.ledger:
        if line["order_id"] == "small" and line["operation"] in {"charge", "ship"}:
            line["key"] = idempotency_key("default", "small", "run-small", line["operation"], 1)
    answers = [e for e in books.histories["small"] if e["type"] == "activity_completed"]
    answers[0]["result"], answers[1]["result"] = answers[1]["result"], answers[0]["result"]


def effect_without_history(books: Writer) -> None:
    books.ledger.append(effect(books, "small", "charge") | {"order_id": "ghost", "key": "ghost", "id": "charge-77"})


def effect_under_anothers_key(books: Writer) -> None:
    mine, other = effect(books, "small", "charge"), effect(books, "large", "charge")
    mine["key"], other["key"] = other["key"], mine["key"]


def done_in_the_history_only(books: Writer) -> None:
    books.ledger.remove(effect(books, "small", "charge"))


def done_in_the_ledger_only(books: Writer) -> None:
    history = books.histories["small"]
    history.remove(event(books, "small", "activity_completed"))
    for number, entry in enumerate(history, 1):
        entry["id"] = number


def another_answer(books: Writer) -> None:
    event(books, "small", "activity_completed")["result"] = "charge-4711"


def gap_in_event_ids(books: Writer) -> None:
    books.histories["small"][-1]["id"] += 1


def event_written_twice(books: Writer) -> None:
    books.histories["small"].insert(3, dict(books.histories["small"][3]))


def time_falls(books: Writer) -> None:
    books.histories["small"][3]["time"] = 5


def event_after_the_end(books: Writer) -> None:
    books.event("small", "signal_received", name="late", signal_id="l")


def closed_twice(books: Writer) -> None:
    books.end("small")


def answered_twice(books: Writer) -> None:
    history = books.histories["small"]
    closing = history.pop()
    books.event("small", "activity_completed", command=2, result=history[2]["result"])
    history.append(closing | {"id": len(history) + 1, "time": next(books.clock)})


def refund_missing(books: Writer) -> None:
    books.ledger.remove(effect(books, "declined", "refund"))


def refund_of_a_delivered_order(books: Writer) -> None:
    closing = books.histories["small"].pop()
    books.step("small", "refund", 900)
    books.histories["small"].append(closing | {"id": len(books.histories["small"]) + 1, "time": next(books.clock)})


def cents_changed_in_the_ledger(books: Writer) -> None:
    effect(books, "small", "charge")["cents"] = 901


def cents_changed_in_the_history(books: Writer) -> None:
    books.histories["small"][0]["input"][0]["cents"] = 1


def shipped_before_its_approval(books: Writer) -> None:
    history = books.histories["large"]
    signal = event(books, "large", "signal_received", "approve")
    history.remove(signal)
    history.insert(-1, signal)
    for number, entry in enumerate(history, 1):
        if entry["type"] == "activity_completed":
            entry["command"] = number - 1
        entry |= {"id": number, "time": number}


def shipped_though_declined(books: Writer) -> None:
    event(books, "large", "signal_received", "approve")["input"] = [False]
    books.starts[2]["value"] = False


def signal_lost(books: Writer) -> None:
    books.starts.append({"line": "signal", "order_id": "small", "name": "hint", "signal_id": "h-1", "value": 1})


def signal_delivered_twice(books: Writer) -> None:
    history = books.histories["declined"]
    signal = event(books, "declined", "signal_received", "approve")
    history.insert(history.index(signal), dict(signal))
    for number, entry in enumerate(history, 1):
        if entry["type"] == "activity_completed":
            entry["command"] = number - 1
        entry |= {"id": number, "time": number}


def one_key_two_bodies(books: Writer) -> None:
    books.ledger[1]["outcome"] = "conflict"


def order_nobody_placed(books: Writer) -> None:
    books.starts = [line for line in books.starts if line["order_id"] != "small"]


SPOILED: dict[Callable[[Writer], None], str] = {
    doubled_under_its_key: "small: charge was done 2 times under one key",
    doubled_under_another_key: "small: charge: done twice in the ledger, should be once",
    second_activity_did_it_again: "small: charge: done twice in the ledger, should be once",
    order_lost: "small: is lost: its start was acknowledged, but it has no history",
    order_and_its_effects_lost: "small: is lost: its start was acknowledged, but it has no history",
    order_unfinished: "small: is not finished: its history stops at event 7",
    order_failed: "small: ended failed instead of completed",
    steps_swapped_in_the_ledger: "small: the ledger has ship without charge before it",
    steps_swapped_in_the_history: "small: its history asks for ship before charge is done",
    effect_without_history: "ghost: charge-77 has no activity in any history",
    effect_under_anothers_key: "small: charge-0 was done under the key of charge of large",
    done_in_the_history_only: "small: charge is done in its history, but not in the ledger",
    done_in_the_ledger_only: "small: its history asks for ship before charge is done",
    another_answer: "small: charge answered charge-4711 in its history, the ledger has charge-0",
    gap_in_event_ids: "small: event 8 of its history is numbered 9",
    event_written_twice: "small: event 5 of its history is numbered 4",
    time_falls: "small: time falls from event 3 to event 4",
    event_after_the_end: "small: 1 events follow the closing one",
    closed_twice: "small: its history closes 2 times",
    answered_twice: "small: the activity of event 2 is answered 2 times",
    refund_missing: "declined: refund: done never in the ledger, should be once",
    refund_of_a_delivered_order: "small: refund: done once in the ledger, should be never",
    cents_changed_in_the_ledger: "small: charge-0 is over 901 cents, the order is over 900",
    cents_changed_in_the_history: "small: was accepted for 900 cents, its history began with 1",
    shipped_before_its_approval: "large: was shipped without the approval it needed",
    shipped_though_declined: "large: ship: done once in the ledger, should be never",
    signal_lost: "small: signal h-1 was acknowledged, but is not in its history",
    signal_delivered_twice: "declined: signal a-declined was delivered 2 times",
    one_key_two_bodies: "small: charge was sent twice under one key with different contents",
    order_nobody_placed: "small: has a history, but no start of it was acknowledged",
}


@pytest.mark.rule("O31")
@pytest.mark.parametrize(("spoil", "finding"), SPOILED.items(), ids=lambda x: getattr(x, "__name__", ""))
def test_a_seeded_violation_is_caught(books: Writer, tmp_path: Path, spoil: Callable[[Writer], None], finding: str) -> None:
    """Each way in which books can disagree is found and told in plain words, with the order it concerns."""
    spoil(books)
    assert finding in books.judge(tmp_path)


def test_a_reset_chain_is_one_chain(books: Writer, tmp_path: Path) -> None:
    """A run and its reset are one chain, and the copied steps keep the keys of the run they came from."""
    journal, ledger, orders = books.save(tmp_path)
    lines = books.lines()
    old = deepcopy(books.histories["small"])
    prefix = deepcopy(old[:3])
    prefix[0] |= {"run_id": "run-small-2", "origin_run_id": "run-small"}
    new = [*prefix, {"type": "reset", "id": 4, "time": old[-1]["time"]}]
    shifted = [deepcopy(e) | {"id": e["id"] + 1, "time": old[-1]["time"]} for e in old[3:]]
    new += [e | ({"command": e["command"] + 1} if "command" in e else {}) for e in shifted]
    ended = [{"type": "terminated", "id": 4, "time": old[2]["time"]}]
    lines = [line for line in lines if line.get("t", {}).get("workflow_id") != "small"]
    for run_id, events in (("run-small", [*old[:3], *ended]), ("run-small-2", new)):
        lines.append({"t": {"workflow_id": "small", "runs": [{"run_id": run_id, "events": events}]}})
    write_journal(journal / "00000001.jsonl", lines)
    texts = [str(violation) for violation in audit(journal, ledger, orders).violations]
    assert texts == []


def test_two_chains_are_a_violation(books: Writer, tmp_path: Path) -> None:
    """One order, two runs that both begin from nothing: started twice."""
    journal, ledger, orders = books.save(tmp_path)
    again = [e | {"run_id": "run-again"} if e["type"] == "started" else e for e in books.histories["small"]]
    lines = [*books.lines(), {"t": {"workflow_id": "small", "runs": [{"run_id": "run-again", "events": again}]}}]
    write_journal(journal / "00000001.jsonl", lines)
    assert "small: was started 2 times" in [str(v) for v in audit(journal, ledger, orders).violations]


@pytest.mark.parametrize("tail", [b'{"t":{"workf', b"\0" * 700, b'{"t":{"wo' + b"\0" * 50, b""])
def test_a_last_line_cut_short_is_no_violation(books: Writer, tmp_path: Path, tail: bytes) -> None:
    """What a crash leaves at the end of the last segment – half a line, zeros laid out in advance – is passed over."""
    journal, ledger, orders = books.save(tmp_path)
    with (journal / "00000001.jsonl").open("ab") as segment:
        segment.write(tail)
    assert audit(journal, ledger, orders).ok


def test_a_bad_line_in_the_middle_is_a_violation(books: Writer, tmp_path: Path) -> None:
    """A line that cannot be read with good ones after it is told, never skipped."""
    journal, ledger, orders = books.save(tmp_path)
    segment = journal / "00000001.jsonl"
    lines = segment.read_bytes().splitlines(keepends=True)
    lines[2] = b"garbage\n"
    segment.write_bytes(b"".join(lines))
    verdict = audit(journal, ledger, orders)
    assert not verdict.ok
    assert "00000001.jsonl, line 3" in str(verdict.violations[0])


def test_half_a_line_at_the_end_of_an_earlier_segment_is_a_violation(books: Writer, tmp_path: Path) -> None:
    """Only the last segment may end in the middle of a line."""
    journal, ledger, orders = books.save(tmp_path)
    write_journal(journal / "00000001.jsonl", books.lines()[:4])
    write_journal(journal / "00000002.jsonl", books.lines()[4:], first=5)
    with (journal / "00000001.jsonl").open("ab") as segment:
        segment.write(b'{"crc":"00')
    assert "00000001.jsonl, line 5" in str(audit(journal, ledger, orders).violations[0])


def test_a_flipped_bit_is_a_violation(books: Writer, tmp_path: Path) -> None:
    """Lines are believed only with their checksum."""
    journal, ledger, orders = books.save(tmp_path)
    segment = journal / "00000001.jsonl"
    segment.write_bytes(segment.read_bytes().replace(b'"cents":900', b'"cents":901', 1))
    assert "its checksum does not match" in str(audit(journal, ledger, orders).violations[0])


def test_a_line_taken_out_is_a_violation(books: Writer, tmp_path: Path) -> None:
    """Each line good by itself, but one is missing: their numbers tell."""
    journal, ledger, orders = books.save(tmp_path)
    segment = journal / "00000001.jsonl"
    lines = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join(lines[:3] + lines[4:]))
    assert "line 5 follows line 3" in str(audit(journal, ledger, orders).violations[0])


def test_a_run_over_two_segments_is_one_history(books: Writer, tmp_path: Path) -> None:
    """Histories go on from one segment to the next."""
    journal, ledger, orders = books.save(tmp_path)
    lines = books.lines()
    write_journal(journal / "00000001.jsonl", lines[:4])
    write_journal(journal / "00000002.jsonl", lines[4:], first=5)
    assert audit(journal, ledger, orders).ok


@pytest.mark.parametrize("missing", [1, 2])
def test_a_missing_book_is_a_violation(books: Writer, tmp_path: Path, missing: int) -> None:
    """Nothing to compare with is no agreement."""
    paths = books.save(tmp_path)
    paths[missing].unlink()
    assert not audit(*paths).ok


def test_no_orders_at_all_is_a_violation(tmp_path: Path) -> None:
    """Three empty books prove nothing."""
    assert Writer().judge(tmp_path) == ["there is nothing to audit: no start was ever acknowledged"]


@pytest.mark.rule("O31")
def test_command_line(books: Writer, tmp_path: Path) -> None:
    """Exit code 0 and a verdict when the books agree, 1 and what is wrong when they do not; JSON for programs."""

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        names = ("--journal", "--ledger", "--orders")
        paths = [part for pair in zip(names, map(str, books.save(tmp_path)), strict=True) for part in pair]
        command = [sys.executable, "-m", "perdure.testing.audit", *paths, *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    good = run()
    assert (good.returncode, good.stdout.splitlines()[-1]) == (
        0,
        "Both books agree: every order finished, in order, every effect exactly once.",
    )
    doubled_under_its_key(books)
    bad = run("-o", "json")
    assert bad.returncode == 1
    found = json.loads(bad.stdout)
    assert found["ok"] is False
    assert found["counts"]["charged"] == 5
    assert {"order_id": "small", "text": "charge was done 2 times under one key"} in found["violations"]


@pytest.mark.rule("F13")
@pytest.mark.rule("F10")
def test_a_build_speaks_for_what_follows(tmp_path: Path) -> None:
    """Commands belong to the build that spoke last, also when it first spoke beside a decision without commands."""

    def wrote(events: list[Line], *builds: str) -> Line:
        notes = [{"type": "decided_by", "build_id": build} for build in builds]
        return {"t": {"workflow_id": "w", "runs": [{"run_id": "r", "events": events, "notes": notes}]}}

    def command(number: int) -> Line:
        return {
            "type": "activity_scheduled",
            "id": number,
            "time": number,
            "at": 1,
            "based_on": 1,
            "name": "a",
            "ordinal": number,
        }

    answered = {"type": "activity_completed", "id": 3, "time": 3, "command": 2}
    lines = [
        wrote([{"type": "started", "id": 1, "time": 1}]),
        wrote([command(2)], "v1"),
        wrote([answered], "v2"),
        wrote([command(4)]),
        wrote([command(5)], "v3"),
    ]
    write_journal(tmp_path / "00000001.jsonl", lines)
    (run,) = read_journal(tmp_path)["w"]
    assert run.builds == {2: "v1", 4: "v2", 5: "v3"}


def test_the_auditor_imports_nothing_of_the_engine() -> None:
    """What it believes, it works out by itself: of perdure it imports only its own files."""
    folder = Path(__file__).parents[3] / "src" / "perdure" / "testing" / "audit"
    names = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add(str(node.module))
    assert names
    foreign = {n for n in names if n.split(".")[0] not in sys.stdlib_module_names}
    assert {n for n in foreign if not n.startswith("perdure.testing.audit")} == set()
