"""The exception tree: stable codes, and errors that can be built again from data."""

import copy
import pickle
from datetime import timedelta

import pytest

import perdure.errors
from perdure.core import errors
from perdure.core.errors import BY_CODE, ERRORS, ApplicationError, InvalidArgument, PerdureError

CODES = {
    "ACTIVITY_ERROR",
    "ALREADY_EXISTS",
    "APPLICATION_ERROR",
    "CHILD_WORKFLOW_ERROR",
    "CODEC_ERROR",
    "HISTORY_DAMAGED",
    "INVALID_ARGUMENT",
    "LIMIT_EXCEEDED",
    "NONDETERMINISM",
    "NOT_FOUND",
    "OUTSIDE_CONTEXT",
    "PAYLOAD_TOO_LARGE",
    "PERDURE_ERROR",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "UNAUTHENTICATED",
    "UNAVAILABLE",
    "WORKFLOW_ALREADY_STARTED",
    "WORKFLOW_CANCELLED",
    "WORKFLOW_CLOSED",
    "WORKFLOW_FAILED",
    "WORKFLOW_TERMINATED",
    "WORKFLOW_TIMED_OUT",
}

FIELDS = {
    "ApplicationError": {"type": "Declined", "details": [1], "non_retryable": True, "next_retry_delay": 2.5},
    "ActivityError": {"name": "charge", "attempts": 3, "kind": "heartbeat"},
    "ChildWorkflowError": {"name": "ship", "attempts": 1, "kind": "cancelled"},
    "WorkflowAlreadyStarted": {"run_id": "r1"},
    "WorkflowClosed": {"run_id": "r-1"},
    "HistoryDamaged": {"run_id": "r-2"},
    "ResourceExhausted": {"retry_after": 0.25},
    "InvalidArgument": {"column": 7},
    "PayloadTooLarge": {"column": 7},
}


def all_classes():
    return [thing for thing in vars(errors).values() if isinstance(thing, type) and issubclass(thing, PerdureError)]


def test_codes_are_pinned_and_unique():
    """Every class has a code of its own, and the set of codes only ever grows by a line here."""
    assert {error.code for error in all_classes()} == CODES
    assert len(all_classes()) == len(CODES)
    assert all("code" in vars(error) for error in all_classes())


def test_no_class_is_missing_from_the_lists():
    """The list, the table by code and the public module all hold every class."""
    assert set(ERRORS) == set(all_classes()) == set(BY_CODE.values())
    assert {error.__name__ for error in ERRORS} == set(perdure.errors.__all__)
    assert all(getattr(perdure.errors, error.__name__) is error for error in ERRORS)


def test_the_docstring_draws_the_tree():
    """The drawing at the head of the module names every class beside its code."""
    drawn = errors.__doc__.splitlines()
    for error in ERRORS:
        assert any(error.__name__ in line.split() and error.code in line.split() for line in drawn), error


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_an_error_can_be_built_again(error):
    """Message and fields are enough, whether by hand, by pickle or by copy; and fields have defaults."""
    fields = FIELDS.get(error.__name__, {})
    made = error("it broke", **fields)
    assert vars(made) == fields
    for again in (error(made.message, **vars(made)), pickle.loads(pickle.dumps(made)), copy.copy(made)):
        assert (type(again), str(again), again.message, vars(again)) == (error, "it broke", "it broke", fields)
    assert error().message == ""
    assert set(vars(error())) == set(fields)


def test_next_retry_delay_is_kept_in_seconds():
    """A timedelta is turned into seconds; what cannot be a delay is refused."""
    assert ApplicationError("x", next_retry_delay=timedelta(minutes=1)).next_retry_delay == 60.0
    assert ApplicationError("x").next_retry_delay is None
    for wrong in (-1, float("nan"), float("inf"), timedelta(seconds=-1)):
        with pytest.raises(InvalidArgument):
            ApplicationError("x", next_retry_delay=wrong)


def test_outside_context_is_a_runtime_error():
    """Who guards against a missing loop with RuntimeError catches a missing run too."""
    assert issubclass(errors.OutsideContext, RuntimeError)
