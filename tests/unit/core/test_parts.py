"""Reports in parts: whatever is spread over messages becomes the same list again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from perdure.core import commands as cm
from perdure.core.parts import append, count_commands, split
from perdure.core.requests import ActivitySucceeded, Commands, Step


def commands(count: int, first: int) -> Commands:
    return Commands(commands=tuple(cm.StartTimer(at=1, delay=first + n) for n in range(count)))


def fact(number: int) -> ActivitySucceeded:
    return ActivitySucceeded(command=number, attempt=1, token="t", result=Raw(b"1"), fed_at=1)


@st.composite
def reports(draw: st.DrawFn) -> tuple[Step, ...]:
    """As workers make them: commands, then facts each with the commands that followed, never two steps of commands in a row."""
    steps: list[Step] = [commands(draw(st.integers(0, 7)), 1)] if draw(st.booleans()) else []
    for number in range(draw(st.integers(0, 4))):
        steps.append(fact(number + 2))
        if draw(st.booleans()):
            steps.append(commands(draw(st.integers(0, 7)), 100 * number))
    return tuple(steps)


@given(steps=reports(), commands_max=st.integers(1, 5))
def test_parts_become_the_same_report(steps: tuple[Step, ...], commands_max: int) -> None:
    """No message holds more than the limit, and putting them together gives back every step in order."""
    messages = split(steps, commands_max)
    assert all(count_commands(message) <= commands_max for message in messages)
    together: list[Step] = []
    for message in messages:
        append(together, message)
    assert tuple(together) == steps


def test_what_fits_is_one_message() -> None:
    """At the limit nothing is split; one command more makes a second message."""
    assert len(split((commands(5, 1),), 5)) == 1
    assert len(split((commands(6, 1),), 5)) == 2


def test_a_limit_of_none_is_refused() -> None:
    """It would be a message without end."""
    with pytest.raises(AssertionError):
        split((commands(1, 1),), 0)
