"""What must be true of every brief, worked out again from what was handed in, what people answered and which tools the model wanted.

A brief is planned; every tool the plan names is used once; a text is drafted from what they found, on the new path reviewed, and laid
before a person. A yes: charged once, published once. A no, or nothing: one mail, and neither. In this order, each on what was before it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from perdure.testing.audit.books import Line, Run
from perdure.testing.audit.order_rules import value
from perdure.testing.audit.pipelines.books import NEW_STEP, Books
from perdure.testing.audit.verdict import Violation

TOOLS = ("search", "fetch", "compute")
OUTCOMES = {"approve": "published", "decline": "declined", "silence": "expired"}


def check_briefs(books: Books) -> Iterator[Violation]:
    """Every brief handed in, then every history and effect nobody asked for."""
    for brief_id, start in books.starts.items():
        for text in _brief(books, brief_id, start["brief"]):
            yield Violation(brief_id, text)
    for brief_id in books.runs.keys() - books.starts.keys():
        yield Violation(brief_id, "has a history, but no start of it was acknowledged")
    for brief_id in books.effects_by_brief.keys() - books.runs.keys():
        yield Violation(brief_id, "has effects, but no history")


def _brief(books: Books, brief_id: str, brief: Line) -> Iterator[str]:
    runs = books.runs.get(brief_id)
    if not runs or not runs[0].events:
        yield "is lost: its start was acknowledged, but it has no history"
        return
    run, effects = runs[-1], books.effects_by_brief.get(brief_id, [])
    if value(run.events[0]) != brief:
        yield f"was handed in as {brief}, its history began with {value(run.events[0])}"
    yield from _signals(books.signals.get(brief_id, []), run)
    yield from _order(effects)
    yield from _asked_in_order(run)
    if run.is_open:
        yield f"is not finished: its history stops at event {len(run.events)}"
        return
    answer = answer_to(books.signals.get(brief_id, []))
    yield from _counts(effects, expected(effects, answer, new_path=books.takes_new_path(brief_id)))
    yield from _built_on(effects)
    yield from _sum(effects, brief)
    yield from _end(books.results.get(brief_id, []), run, piece(brief_id, answer, effects))


def answer_to(signals: Sequence[Line]) -> str:
    """What a person said, by what was acknowledged to them."""
    return "silence" if not signals else "approve" if signals[0]["value"] is True else "decline"


def expected(effects: Sequence[Line], answer: str, *, new_path: bool) -> Counter[tuple[str, str]]:
    """How often each thing should have been done."""
    due = Counter([("plan", ""), ("draft", ""), ("ask", "")])
    if new_path:
        due[NEW_STEP, ""] = 1
    for effect in effects:
        if effect["operation"] == "plan":
            due.update((use["tool"], use["query"]) for use in effect["gave"]["uses"])
            break
    if answer == "approve":
        due.update([("charge", ""), ("publish", "")])
    else:
        due["notify", OUTCOMES[answer]] = 1
    return due


def piece(brief_id: str, answer: str, effects: Sequence[Line]) -> dict[str, Any]:
    """What the run should have ended with, by the ledger."""
    ended: dict[str, Any] = {"brief_id": brief_id, "outcome": OUTCOMES[answer], "article": "", "receipt": ""}
    for effect in effects:
        name = {"publish": "article", "charge": "receipt"}.get(effect["operation"])
        if name:
            ended[name] = effect["gave"]["id"]
    return ended


def _signals(acknowledged: Sequence[Line], run: Run) -> Iterator[str]:
    received = {event.get("signal_id"): value(event) for event in run.events if event["type"] == "signal_received"}
    for signal in acknowledged:
        if signal["signal_id"] not in received:
            yield f"signal {signal['signal_id']} was acknowledged, but is not in its history"
        elif received[signal["signal_id"]] != signal["value"]:
            yield f"signal {signal['signal_id']} said {signal['value']}, its history has {received[signal['signal_id']]}"


def _counts(effects: Sequence[Line], due: Counter[tuple[str, str]]) -> Iterator[str]:
    done = Counter((effect["operation"], str(effect["said"].get("item", ""))) for effect in effects)
    for what in sorted(done | due):
        if done[what] != due[what]:
            name = " ".join(filter(None, what))
            yield f"{name}: done {_times(done[what])} in the ledger, should be {_times(due[what])}"


def _ids(effects: Sequence[Line], *operations: str) -> set[str]:
    return {effect["gave"]["id"] for effect in effects if effect["operation"] in operations}


def _built_on(effects: Sequence[Line]) -> Iterator[str]:
    """Each step was handed exactly what the steps before it gave."""
    text = _ids(effects, NEW_STEP) or _ids(effects, "draft")
    bases = {
        **dict.fromkeys(TOOLS, _ids(effects, "plan")),
        "draft": _ids(effects, *TOOLS),
        NEW_STEP: _ids(effects, "draft"),
        "ask": text,
        "charge": _ids(effects, "ask"),
        "notify": _ids(effects, "ask"),
        "publish": text | _ids(effects, "charge"),
    }
    for effect in effects:
        given, due = set(effect["said"].get("based_on", ())), bases.get(effect["operation"], set())
        if given != due:
            yield f"{effect['gave']['id']} was built on {sorted(given)}, not on {sorted(due)}"


def _sum(effects: Sequence[Line], brief: Line) -> Iterator[str]:
    for effect in effects:
        if effect["operation"] == "charge" and effect["said"].get("cents") != brief["cents"]:
            yield f"{effect['gave']['id']} is over {effect['said'].get('cents')} cents, the brief is over {brief['cents']}"


STAGES = (("plan",), TOOLS, ("draft",), (NEW_STEP,), ("ask",), ("charge", "notify"), ("publish",))


def _order(effects: Sequence[Line]) -> Iterator[str]:
    """In the ledger, all effects of a stage come before those of the next."""
    latest, after = -1, ""
    for stage in STAGES:
        places = [effect["at"] for effect in effects if effect["operation"] in stage]
        if places and min(places) < latest:
            yield f"the ledger has {stage[0]} before {after}"
        if places:
            latest, after = max(places), stage[0]


def _asked_in_order(run: Run) -> Iterator[str]:
    """A step is asked for only when all before it have succeeded, payment only after a yes."""
    done: list[str] = []
    asked: list[str] = []
    names = {event["id"]: event["name"] for event in run.activities()}
    for event in run.events:
        if event["type"] == "activity_completed":
            done.append(names.get(event["command"], ""))
        elif event["type"] == "activity_scheduled":
            stage = next((number for number, stage in enumerate(STAGES) if event["name"] in stage), 0)
            open_ones = Counter(name for name in asked if name not in STAGES[stage]) - Counter(done)
            if open_ones:
                yield f"its history asks for {event['name']} before {min(open_ones)} is done"
            asked.append(event["name"])
            if event["name"] == "charge" and not _approved(run.events[: event["id"] - 1]):
                yield "was charged without an approval"


def _approved(events: Sequence[Line]) -> bool:
    answers = [value(event) for event in events if event["type"] == "signal_received" and event["name"] == "approve"]
    return answers[:1] == [True]


def _end(told: Sequence[Line], run: Run, due: dict[str, Any]) -> Iterator[str]:
    closing = run.events[-1]
    if closing["type"] != "completed":
        yield f"ended {closing['type']} instead of completed"
        return
    if closing.get("result") != due:
        yield f"ended with {closing.get('result')} in its history, the ledger says {due}"
    if not told:
        yield "ended, but nobody was told"
    for line in told:
        if line["value"] != due:
            yield f"its client was told {line['value']}, the ledger says {due}"


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")
