"""The book of claims in hand: an entry stands from the answer that grants a claim until the answer to what ends it."""

from perdure.core.errors import InvalidArgument, Unavailable
from perdure.core.events import ActivityScheduled
from perdure.core.replies import ActivityClaim, ActivityClaimed, Beaten, NotWanted, Reported, Taken, WorkflowClaimed
from perdure.core.requests import (
    ActivitySucceeded,
    ClaimActivity,
    ClaimWorkflow,
    Commands,
    CompleteLater,
    ReleaseActivity,
    ReleaseWorkflow,
    Report,
)
from perdure.wire.claims_held import ClaimsHeld

RUN = {"workflow_id": "w", "run_id": "r"}
CLAIM = ClaimWorkflow(**RUN, worker="ann", token="t", build_id="b")
CLAIMED = WorkflowClaimed(token="t", length=1, decided=0, covered=0)
TAKE = ClaimActivity(**RUN, command=2, attempt=1, worker="ann", token="a")


def attempt(token: str, command: int = 2) -> ActivityClaim:
    scheduled = ActivityScheduled(id=command, time=0, name="charge", at=1, based_on=1, ordinal=1)
    return ActivityClaim(
        **RUN, namespace="default", scheduled=scheduled, attempt=1, token=token, queue="q", idempotency_key="k", claimed_at=7
    )


def report(*steps: object, token: str = "") -> Report:
    fields = {"worker": "ann", "build_id": "b", "based_on": 1, "decided": 0, "nonce": "n"}
    return Report(**RUN, **fields, token=token, steps=steps)  # type: ignore[arg-type]


def reported(token: str = "", *claims: ActivityClaim) -> Reported:
    return Reported(accepted=True, length=2, decided=1, covered=1, token=token, activities=claims)


def tokens(book: ClaimsHeld) -> list[str]:
    return [claim.token for claim in book.all()]


def test_a_workflow_claim_ends_with_the_answer_to_its_report() -> None:
    """It is kept when the answer says so, and what rides with the answer is in hand too, under the worker's name."""
    book = ClaimsHeld()
    book.answered(CLAIM, CLAIMED, None)
    asked = report(Commands(), token="t")
    book.asked(asked)
    assert tokens(book) == ["t"]
    book.answered(asked, reported("t", attempt("n.2")), None)
    assert tokens(book) == ["t", "n.2"]
    assert [(claim.command, claim.worker, claim.claimed_at) for claim in book.all()] == [(0, "ann", 0), (2, "ann", 7)]
    book.answered(report(token="t"), reported(), None)
    assert tokens(book) == ["n.2"]


def test_an_activity_claim_ends_with_the_answer_to_its_fact() -> None:
    """Not with the report on its way, nor with one that could not be delivered; but with one that was refused."""
    for error, left in ((None, []), (Unavailable("away"), ["a"]), (InvalidArgument("no"), [])):
        book = ClaimsHeld()
        book.answered(TAKE, ActivityClaimed(claim=attempt("a")), None)
        told = report(ActivitySucceeded(command=2, attempt=1, token="a"))
        book.asked(told)
        assert tokens(book) == ["a"]
        book.answered(told, None if error else reported(), error)
        assert tokens(book) == left


def test_what_is_given_back_or_left_to_others_leaves_the_book() -> None:
    """A release at once, a completion from outside when it is written down."""
    book = ClaimsHeld()
    book.answered(CLAIM, CLAIMED, None)
    book.answered(TAKE, ActivityClaimed(claim=attempt("a")), None)
    book.answered(TAKE, ActivityClaimed(claim=attempt("l")), None)
    book.asked(ReleaseWorkflow(**RUN, token="t", build_id="b", why="draining"))
    book.asked(ReleaseActivity(**RUN, command=2, attempt=1, token="a"))
    later = CompleteLater(**RUN, command=2, attempt=1, token="l")
    book.asked(later)
    assert tokens(book) == ["l"]
    book.answered(later, Beaten(wanted=True), None)
    assert tokens(book) == []


def test_what_was_not_granted_is_not_in_hand() -> None:
    """Nor is anything of other requests."""
    book = ClaimsHeld()
    book.answered(CLAIM, NotWanted(reason="paused"), None)
    book.answered(TAKE, None, Unavailable("away"))
    book.answered(ReleaseActivity(**RUN, command=2, attempt=1, token="a"), Taken(), None)
    assert tokens(book) == []
