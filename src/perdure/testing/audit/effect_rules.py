"""What must be true between the two books: every effect has one activity that caused it, every finished activity one effect."""

from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

from perdure.testing.audit.books import Books, Line, Run
from perdure.testing.audit.order_rules import STEPS
from perdure.testing.audit.verdict import Violation

Causes: TypeAlias = dict[str, tuple[Run, Line]]
"""Which activity of which run an idempotency key belongs to; a reset's copy stands for what it was copied from."""


def check_effects(books: Books) -> Iterator[Violation]:
    """Match activities and effects by idempotency key, in both directions; sums over both books must be equal."""
    causes = {run.key(command): (run, command) for runs in books.runs.values() for run in runs for command in run.activities()}
    done = {effect["key"]: effect for effect in books.effects}
    for key, times in Counter(effect["key"] for effect in books.effects).items():
        if times > 1:
            yield Violation(done[key]["order_id"], f"{done[key]['operation']} was done {times} times under one key")
    for effect in books.effects:
        yield from _has_its_cause(effect, causes)
    for key, (run, command) in causes.items():
        if command["name"] in STEPS:
            yield from _has_its_effect(run, command, done.get(key))
    for request in books.requests:
        if request["outcome"] == "conflict":
            yield Violation(request["order_id"], f"{request['operation']} was sent twice under one key with different contents")
    yield from _same_sums(books, causes)


def _has_its_cause(effect: Line, causes: Causes) -> Iterator[Violation]:
    cause = causes.get(effect["key"])
    if cause is None:
        yield Violation(effect["order_id"], f"{effect['id']} has no activity in any history")
        return
    run, command = cause
    if (run.workflow_id, command["name"]) != (effect["order_id"], effect["operation"]):
        yield Violation(effect["order_id"], f"{effect['id']} was done under the key of {command['name']} of {run.workflow_id}")


def _has_its_effect(run: Run, command: Line, effect: Line | None) -> Iterator[Violation]:
    answer = run.answer(command)
    if answer is None or answer["type"] != "activity_completed":
        return
    if effect is None:
        yield Violation(run.workflow_id, f"{command['name']} is done in its history, but not in the ledger")
    elif answer.get("result") != effect["id"]:
        yield Violation(
            run.workflow_id,
            f"{command['name']} answered {answer.get('result')} in its history, the ledger has {effect['id']}",
        )


def _same_sums(books: Books, causes: Causes) -> Iterator[Violation]:
    """Money by the histories (finished charges and refunds of accepted orders) against money by the ledger."""
    for operation in ("charge", "refund"):
        by_ledger = sum(effect["cents"] for effect in books.effects if effect["operation"] == operation)
        by_history = sum(
            books.starts[run.workflow_id]["cents"]
            for run, command in causes.values()
            if command["name"] == operation
            and run.workflow_id in books.starts
            and (run.answer(command) or {}).get("type") == "activity_completed"
        )
        if by_ledger != by_history:
            yield Violation("", f"{operation}s sum up to {by_history} cents by the histories, {by_ledger} by the ledger")
