"""What must be true of every order, worked out again from what was asked for, never from what the engine says it should have been.

An order that was accepted is charged once; when its approval says yes (or it needs none) and shipping takes it, it is shipped once and
given one driver; otherwise its money goes back once. In this order, in both books, and for the same sums.
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

from perdure.testing.audit.books import Books, Line, Run
from perdure.testing.audit.verdict import Violation

STEPS = ("charge", "ship", "assign_driver", "refund")
IN_ORDER = (("charge", "ship"), ("ship", "assign_driver"), ("charge", "refund"))


def check_orders(books: Books) -> Iterator[Violation]:
    """Every accepted order, then every history and effect nobody asked for."""
    for order_id, order in books.starts.items():
        for text in _order(books, order_id, order):
            yield Violation(order_id, text)
    for order_id in books.runs.keys() - books.starts.keys():
        yield Violation(order_id, "has a history, but no start of it was acknowledged")
    for order_id in {effect["order_id"] for effect in books.effects} - books.runs.keys():
        yield Violation(order_id, "has effects, but no history")


def _order(books: Books, order_id: str, order: Line) -> Iterator[str]:
    runs = books.runs.get(order_id)
    if not runs:
        yield "is lost: its start was acknowledged, but it has no history"
        return
    events = [event for run in runs for event in run.events]
    effects = books.effects_by_order.get(order_id, [])
    yield from _end(runs)
    yield from _input(order, events)
    yield from _acknowledged_signals(books.signals_by_order.get(order_id, []), events)
    if not runs[-1].is_open:
        yield from _counts(effects, expected(order, events, refused=order_id in books.refused_orders))
    yield from _sums(order, effects)
    yield from _order_in_ledger(effects)
    yield from _order_in_history(runs)
    if order["needs_approval"]:
        yield from _approved_before_shipped(events)


def _end(runs: Sequence[Run]) -> Iterator[str]:
    unfinished = next((run for run in runs if run.is_open), None)
    if unfinished is not None:
        yield f"is not finished: its history stops at event {len(unfinished.events)}"
    elif (status := runs[-1].events[-1]["type"]) != "completed":
        yield f"ended {status} instead of completed"


def expected(order: Line, events: Sequence[Line], *, refused: bool) -> dict[str, int]:
    """How often each step should have had its effect."""
    approved = not order["needs_approval"] or (approvals(events) or [False])[0] is True
    delivered = approved and not refused
    return {"charge": 1, "ship": int(delivered), "assign_driver": int(delivered), "refund": int(not delivered)}


def approvals(events: Sequence[Line]) -> list[Any]:
    """What was said to the question whether the order may go, in the order in which it was said."""
    return [value(event) for event in events if event["type"] == "signal_received" and event["name"] == "approve"]


def value(event: Line) -> object:
    """The one argument of a start or signal."""
    given = event.get("input") or [None]
    return given[0]


def _input(order: Line, events: Sequence[Line]) -> Iterator[str]:
    given = value(events[0]) if events else None
    cents = cast("Line", given).get("cents") if isinstance(given, dict) else None
    if cents != order["cents"]:
        yield f"was accepted for {order['cents']} cents, its history began with {cents}"


def _acknowledged_signals(signals: Sequence[Line], events: Sequence[Line]) -> Iterator[str]:
    received = {event.get("signal_id"): value(event) for event in events if event["type"] == "signal_received"}
    for signal in signals:
        if signal["signal_id"] not in received:
            yield f"signal {signal['signal_id']} was acknowledged, but is not in its history"
        elif received[signal["signal_id"]] != signal["value"]:
            yield f"signal {signal['signal_id']} said {signal['value']}, its history has {received[signal['signal_id']]}"


def _counts(effects: Sequence[Line], due: dict[str, int]) -> Iterator[str]:
    for step, times in due.items():
        done = sum(effect["operation"] == step for effect in effects)
        if done != times:
            yield f"{step}: done {_times(done)} in the ledger, should be {_times(times)}"


def _sums(order: Line, effects: Sequence[Line]) -> Iterator[str]:
    for effect in effects:
        if effect["operation"] in {"charge", "refund"} and effect["cents"] != order["cents"]:
            yield f"{effect['id']} is over {effect['cents']} cents, the order is over {order['cents']}"


def _order_in_ledger(effects: Sequence[Line]) -> Iterator[str]:
    places = {step: [effect["at"] for effect in effects if effect["operation"] == step] for step in STEPS}
    for earlier, later in IN_ORDER:
        if places[later] and (not places[earlier] or min(places[earlier]) > min(places[later])):
            yield f"the ledger has {later} without {earlier} before it"


def _order_in_history(runs: Sequence[Run]) -> Iterator[str]:
    """A step is asked for only when the one before it has succeeded."""
    for run in runs:
        for earlier, later in IN_ORDER:
            for asked in run.activities(later):
                before = [run.answer(command) for command in run.activities(earlier)]
                if not any(a and a["type"] == "activity_completed" and a["id"] < asked["id"] for a in before):
                    yield f"its history asks for {later} before {earlier} is done"


def _approved_before_shipped(events: Sequence[Line]) -> Iterator[str]:
    for place, event in enumerate(events):
        if event["type"] == "activity_scheduled" and event["name"] == "ship" and True not in approvals(events[:place]):
            yield "was shipped without the approval it needed"


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")
