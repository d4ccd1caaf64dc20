"""What must be true between ledger and histories: every effect has the one activity that caused it, every finished activity its effect."""

from collections import Counter
from collections.abc import Iterator

from perdure.testing.audit.books import Line, Run
from perdure.testing.audit.effect_rules import Causes
from perdure.testing.audit.pipelines.books import Books
from perdure.testing.audit.verdict import Violation


def check_effects(books: Books) -> Iterator[Violation]:
    """Match activities and effects by idempotency key, in both directions."""
    causes = {run.key(command): (run, command) for runs in books.runs.values() for run in runs for command in run.activities()}
    done = {effect["key"]: effect for effect in books.effects}
    for key, times in Counter(effect["key"] for effect in books.effects).items():
        if times > 1:
            yield Violation(done[key]["brief_id"], f"{done[key]['operation']} was done {times} times under one key")
    for effect in books.effects:
        yield from _has_its_cause(effect, causes)
    for key, (run, command) in causes.items():
        yield from _has_its_effect(run, command, done.get(key))
    for delivery in books.deliveries:
        if delivery["became"] == "conflict":
            yield Violation(
                delivery["brief_id"], f"{delivery['operation']} was sent twice under one key with different contents"
            )


def _has_its_cause(effect: Line, causes: Causes) -> Iterator[Violation]:
    cause = causes.get(effect["key"])
    if cause is None:
        yield Violation(effect["brief_id"], f"{effect['gave']['id']} has no activity in any history")
        return
    run, command = cause
    if (run.workflow_id, command["name"]) != (effect["brief_id"], effect["operation"]):
        yield Violation(
            effect["brief_id"], f"{effect['gave']['id']} was done under the key of {command['name']} of {run.workflow_id}"
        )


def _has_its_effect(run: Run, command: Line, effect: Line | None) -> Iterator[Violation]:
    answer = run.answer(command)
    if answer is None or answer["type"] != "activity_completed":
        yield Violation(run.workflow_id, f"{command['name']} did not succeed: {answer['type'] if answer else 'no answer'}")
    elif effect is None:
        yield Violation(run.workflow_id, f"{command['name']} is done in its history, but not in the ledger")
    elif answer.get("result") != _result(effect):
        yield Violation(
            run.workflow_id, f"{command['name']} gave {answer.get('result')} in its history, {_result(effect)} in the ledger"
        )


def _result(effect: Line) -> object:
    """What the activity makes of the world's answer: a plan is kept whole, of all else the id."""
    return effect["gave"] if effect["operation"] == "plan" else effect["gave"]["id"]
