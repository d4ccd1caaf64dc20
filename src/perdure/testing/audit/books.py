"""Reading the books an audit compares: the journal's histories, the services' ledger and the list of acknowledged requests.

Reads files and nothing else, in their stored form: no engine, no code of the engine, so that a mistake there cannot hide itself here.
Three books, three writers: the engine wrote the first, the outside world the second, whoever placed the orders the third.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, TypeAlias, cast
from zlib import crc32

Line: TypeAlias = dict[str, Any]

CLOSING: Final = ("completed", "failed", "cancelled", "continued_as_new", "terminated", "timed_out")
ANSWERS: Final = ("activity_completed", "activity_failed", "activity_timed_out", "activity_cancelled")

_FRAMED: Final = re.compile(rb'{"crc":"([0-9a-f]{8})"')


class UnreadableError(ValueError):
    """A book holds something that is not a line of it, and not merely a last line cut short."""


@dataclass
class Run:
    """One run as the journal tells it: its events in the order in which they were written."""

    namespace: str
    workflow_id: str
    run_id: str
    events: list[Line] = field(default_factory=list[Line])
    notes: list[Line] = field(default_factory=list[Line])
    builds: dict[int, str] = field(default_factory=dict[int, str])
    """Which build a command came from, by the event's number."""
    build: str = ""
    """The build that spoke last."""

    @property
    def is_open(self) -> bool:
        return not any(event["type"] in CLOSING for event in self.events)

    @property
    def begins_chain(self) -> bool:
        """False for the successor of a run: one that continues, retries or was reset from it."""
        first = self.events[0] if self.events else {}
        return not first.get("continued_from") and all(event["type"] != "reset" for event in self.events)

    def activities(self, name: str = "") -> Iterator[Line]:
        """Activities asked for, in order; all of them, or those of one name."""
        for event in self.events:
            if event["type"] == "activity_scheduled" and name in {"", event["name"]}:
                yield event

    def answer(self, command: Line) -> Line | None:
        """What came of an activity; None when nothing has yet."""
        return next((e for e in self.events if e["type"] in ANSWERS and e["command"] == command["id"]), None)

    def key(self, command: Line) -> str:
        """The idempotency key of an activity, by the published rule: namespace, workflow id, origin run id, name, ordinal."""
        if given := command.get("idempotency_key"):
            return str(given)
        origin = self.events[0].get("origin_run_id") or self.run_id
        text = "\0".join((self.namespace, self.workflow_id, origin, command["name"], str(command["ordinal"])))
        return blake2b(text.encode(), digest_size=16).hexdigest()


@dataclass
class Books:
    """All three. `effects` and `requests` are the ledger's lines, each with `at`, its place in the ledger."""

    runs: dict[str, list[Run]]
    """By workflow id, which is the order's id; oldest first."""
    effects: list[Line]
    requests: list[Line]
    starts: dict[str, Line]
    """Acknowledged starts by order id: `cents`, `needs_approval`."""
    signals: list[Line]
    """Acknowledged signals: `order_id`, `name`, `signal_id`, `value`."""

    @cached_property
    def effects_by_order(self) -> dict[str, list[Line]]:
        return _by_order(self.effects)

    @cached_property
    def signals_by_order(self) -> dict[str, list[Line]]:
        return _by_order(self.signals)

    @cached_property
    def refused_orders(self) -> set[str]:
        """Orders that shipping will never take, as shipping itself wrote down."""
        return {r["order_id"] for r in self.requests if r["operation"] == "ship" and r["outcome"] == "refused"}


def _by_order(lines: Iterable[Line]) -> dict[str, list[Line]]:
    sorted_out: dict[str, list[Line]] = {}
    for line in lines:
        sorted_out.setdefault(line["order_id"], []).append(line)
    return sorted_out


def read(journal: Path, ledger: Path, orders: Path) -> Books:
    """Read them all. Raises `UnreadableError` naming file and line, `OSError` when a file cannot be read."""
    entries = [line | {"at": place} for place, line in enumerate(read_lines(ledger))]
    listed = read_lines(orders)
    return Books(
        runs=read_journal(journal),
        effects=[line for line in entries if line["line"] == "effect"],
        requests=[line for line in entries if line["line"] == "request"],
        starts={line["order_id"]: line for line in listed if line["line"] == "start"},
        signals=[line for line in listed if line["line"] == "signal"],
    )


def read_journal(directory: Path) -> dict[str, list[Run]]:
    """Every run kept in a journal directory, by workflow id."""
    runs: dict[str, Run] = {}
    segments = sorted(directory.glob("*.jsonl"))
    before = 0
    for segment in segments:
        for line in read_lines(segment, may_be_torn=segment == segments[-1], parse=_journal_line):
            if before and line["seq"] != before + 1:
                raise UnreadableError(f"{segment}: line {line['seq']} follows line {before}")
            before = line["seq"]
            _take(runs, line)
    by_workflow: dict[str, list[Run]] = {}
    for run in runs.values():
        by_workflow.setdefault(run.workflow_id, []).append(run)
    return by_workflow


def _take(runs: dict[str, Run], line: Line) -> None:
    """Add what a journal line appends to its runs; lines without a transition (headers, footers) add nothing."""
    transition = line.get("t")
    if transition is None:
        return
    for change in transition.get("runs", ()):
        run = runs.setdefault(
            change["run_id"], Run(transition.get("namespace", "default"), transition["workflow_id"], change["run_id"])
        )
        _extend(run, change.get("events", ()), change.get("notes", ()))


def _extend(run: Run, events: Sequence[Line], notes: Sequence[Line]) -> None:
    """A build says who it is beside its first decision, also one without commands; what follows is its own until another one speaks."""
    for note in notes:
        if note["type"] == "decided_by":
            run.build = note["build_id"]
    run.builds |= {event["id"]: run.build for event in events if "based_on" in event}
    run.events.extend(events)
    run.notes.extend(notes)


def read_lines(path: Path, *, may_be_torn: bool = True, parse: Callable[[bytes], Line] | None = None) -> list[Line]:
    """The JSON lines of a file. What follows the last good line may be cut short, or zeros laid out in advance; nothing else may be.

    `parse` makes a line of its text, raising ValueError when it cannot; any JSON object is one by default.
    """
    parse = parse or _object
    raw = path.read_bytes().rstrip(b"\0").split(b"\n")
    lines: list[Line] = []
    for number, text in enumerate(raw, 1):
        if not text:
            continue
        try:
            lines.append(parse(text))
        except ValueError as error:
            if not may_be_torn or _any_good(raw[number:], parse):
                raise UnreadableError(f"{path}, line {number}: {error}") from error
            break
    return lines


def _object(text: bytes) -> Line:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise UnreadableError(f"expected an object, not {value!r:.40}")
    return cast("Line", value)


def _journal_line(text: bytes) -> Line:
    """A line as the journal frames it: its CRC is over everything behind it."""
    found = _FRAMED.match(text)
    if not found or found[1] != b"%08x" % crc32(text[found.end() :]):
        raise UnreadableError("its checksum does not match its bytes")
    return _object(text)


def _any_good(texts: Sequence[bytes], parse: Callable[[bytes], Line]) -> bool:
    for text in texts:
        try:
            parse(text)
        except ValueError:
            continue
        return True
    return False
