"""Options and retry policies: checked where they are written."""

import dataclasses
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.commands import ScheduleActivity
from perdure.core.errors import InvalidArgument
from perdure.core.retry import DELAY_MAX_S, RetryPolicy
from perdure.sdk.options import CallOptions, Retry, command_fields, identifier, summary


def test_retry_defaults_are_the_contract():
    """Retry() is what an activity gets that says nothing, and equals the default of commands."""
    retry = Retry()
    assert [retry.initial, retry.factor, retry.max_interval, retry.max_attempts, retry.jitter] == [1.0, 2.0, 100.0, 0, 0.2]
    assert retry.non_retryable == ()
    assert retry.policy() == RetryPolicy()


def test_retry_is_a_value():
    """Frozen, comparable, usable as a key; its repr shows the fields that matter."""
    assert Retry(max_attempts=3) == Retry(max_attempts=3) != Retry()
    assert len({Retry(), Retry(), Retry(factor=3)}) == 2
    assert "_policy" not in repr(Retry())
    with pytest.raises(dataclasses.FrozenInstanceError):
        Retry().factor = 3.0  # type: ignore[misc]
    assert dataclasses.replace(Retry(max_attempts=3), factor=1).policy() == RetryPolicy(max_attempts=3, factor=1.0)


def test_retry_takes_timedeltas_and_classes():
    """Durations are kept as seconds; classes travel by name; one alone needs no tuple."""
    retry = Retry(initial=timedelta(seconds=2), max_interval=timedelta(minutes=1), non_retryable=[ValueError, "Declined"])
    assert (retry.initial, retry.max_interval) == (2.0, 60.0)
    assert retry.non_retryable == (ValueError, "Declined")
    assert retry.policy().non_retryable == ("ValueError", "Declined")
    assert Retry(non_retryable="Declined").policy().non_retryable == ("Declined",)
    assert Retry(non_retryable=KeyError).policy().non_retryable == ("KeyError",)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fields",
    [
        {"initial": -1},
        {"initial": float("nan")},
        {"factor": 0.5},
        {"factor": float("inf")},
        {"factor": "2"},
        {"max_interval": float("inf")},
        {"max_attempts": -1},
        {"max_attempts": 1.5},
        {"max_attempts": True},
        {"jitter": 1.1},
        {"jitter": -0.1},
        {"non_retryable": [3]},
        {"non_retryable": [int]},
        {"non_retryable": [""]},
        {"non_retryable": 3},
    ],
    ids=str,
)
def test_retry_refuses(fields):
    """A field out of its bounds is named when the policy is made, not when something fails."""
    with pytest.raises(InvalidArgument, match=rf"Retry\.{next(iter(fields))}"):
        Retry(**fields)


@pytest.mark.scenario(67)
@given(
    attempt=st.one_of(st.integers(1, 100), st.sampled_from([35, 65, 10**6, 10**400])),
    initial=st.floats(0, 1e6),
    factor=st.floats(1, 1e6),
    cap=st.floats(0, 1e8),
)
def test_delay_never_overflows(attempt, initial, factor, cap):
    """For any attempt the delay is finite, not below the first one nor above the cap, and does not fall with the attempts."""
    retry = Retry(initial=initial, factor=factor, max_interval=cap)
    ceiling = min(retry.max_interval, DELAY_MAX_S)
    assert min(retry.initial, ceiling) <= retry.delay(attempt) <= ceiling
    assert retry.delay(attempt) <= retry.delay(attempt + 1)
    assert retry.delay(attempt) == retry.delay(attempt)


def test_delays_of_the_default():
    """One second, doubled each time, at most 100."""
    assert [Retry().delay(n) for n in (1, 2, 3, 7, 8, 35)] == [1, 2, 4, 64, 100, 100]


def test_fields_hold_only_what_differs():
    """What only repeats a default stays out of commands; the rest is in the command's own units."""
    fields = command_fields(
        {
            "queue": "gpu",
            "start_to_close": 1.5,
            "heartbeat": timedelta(seconds=3),
            "retry": Retry(),
            "priority": 0,
            "on_cancel": "wait",
        }
    )
    assert fields == {"queue": "gpu", "start_to_close": 1_500_000, "heartbeat": 3_000_000, "on_cancel": "wait"}
    assert ScheduleActivity(at=1, name="x", **fields).queue == "gpu"


def test_later_options_replace_and_none_takes_away():
    """Options laid over others keep what they do not name."""
    base = command_fields({"queue": "gpu", "start_to_close": 3, "retry": Retry(max_attempts=2), "summary": "s"})
    over = command_fields({"start_to_close": None, "retry": None, "idempotency_key": "k"}, base)
    assert over == {"queue": "gpu", "summary": "s", "idempotency_key": "k"}
    assert base["start_to_close"] == 3_000_000


def test_every_option_reaches_the_command():
    """Each option of a call has a field of the command by its name."""
    assert set(CallOptions.__optional_keys__) <= set(ScheduleActivity.__struct_fields__)


@pytest.mark.parametrize(
    "option",
    [
        {"start_to_close": 0},
        {"schedule_to_close": -1},
        {"schedule_to_start": float("nan")},
        {"heartbeat": float("inf")},
        {"queue": ""},
        {"queue": 3},
        {"queue": "a\nb"},
        {"idempotency_key": "k" * 256},
        {"retry": 3},
        {"priority": 1_001},
        {"priority": 1.0},
        {"priority": True},
        {"summary": "s" * 1_001},
        {"summary": 3},
        {"on_cancel": "maybe"},
        {"on_cancel": []},
        {"process": 1},
        {"local": "yes"},
        {"local": 1},
    ],
    ids=str,
)
def test_options_refuse(option):
    """A value out of its bounds is named at once."""
    with pytest.raises(InvalidArgument, match=next(iter(option))):
        command_fields(option)


def test_process_and_local_are_flags():
    """True or False, nothing that merely looks like it."""
    assert command_fields({"process": False, "local": False}) == {}
    assert command_fields({"local": True}) == {"local": True}
    with pytest.raises(InvalidArgument, match="local must be True or False"):
        command_fields({"local": 1})  # type: ignore[typeddict-item]


def test_unknown_options_are_type_errors():
    """As for any keyword Python does not know."""
    with pytest.raises(TypeError, match="retries"):
        command_fields({"retries": 3})  # type: ignore[typeddict-unknown-key]


@pytest.mark.scenario(35)
@pytest.mark.parametrize("value", ["", "a\x00b", "a\x7f", "a\x9f", "\ud800", "é" * 128, 3, None])
def test_what_is_no_identifier(value):
    """Empty, too long in bytes, control characters, lone surrogates and other types are refused by name."""
    with pytest.raises(InvalidArgument, match=r"^queue "):
        identifier(value, "queue")


@pytest.mark.parametrize("value", ["a", "ein Name", "é" * 127, "注文", "a/b?c#d", "x" * 255])
def test_identifiers(value):
    """Any other text is a name, byte for byte."""
    assert identifier(value, "queue") == value


def test_summary():
    """Up to 1,000 characters of anything."""
    assert summary(None) == ""
    assert summary("wait\nfor it") == "wait\nfor it"
    assert len(summary("ö" * 1_000)) == 1_000


def test_text_that_cannot_be_written_is_refused_where_it_is_given():
    """A lone surrogate, as file names may hold: in the call, not in a report nobody waits for."""
    for give in (lambda: summary("\ud800"), lambda: Retry(non_retryable=("\ud800",)), lambda: identifier("\ud800", "id")):
        with pytest.raises(InvalidArgument, match="lone surrogate"):
            give()
