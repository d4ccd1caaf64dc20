"""Ids are judged at the door, and idempotency keys depend on what they name and on nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.ids import fault_of_id, idempotency_key

KEY = ("default", "order-42", "r1", "charge", 1)


@pytest.mark.scenario(35)
@pytest.mark.parametrize("good", ["a", "order-42", "x" * 255, "ü" * 127, "a b", "日本語", "a/b?c=d", "🙂"])
def test_ids_that_are_allowed(good: str) -> None:
    """1 to 255 bytes of UTF-8 without control characters."""
    assert fault_of_id(good) is None


@pytest.mark.scenario(35)
@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("", "must not be empty"),
        ("x" * 256, "is 256 bytes long; the limit (id_bytes_max) is 255"),
        ("ü" * 128, "is 256 bytes long"),
        ("a\nb", "control character"),
        ("a\x00", "control character"),
        ("\x7f", "control character"),
        ("\x85", "control character"),
        ("\ud800", "lone surrogate"),
        (None, "must be text, not NoneType"),
        (7, "must be text, not int"),
        (b"a", "must be text, not bytes"),
    ],
)
def test_ids_that_are_refused(bad: object, words: str) -> None:
    """Empty, too long, unprintable or no text at all: the fault says which."""
    assert words in (fault_of_id(bad) or "")


@given(st.text())
def test_what_passes_is_what_the_rule_says(value: str) -> None:
    """The verdict agrees with the rule, spelled out another way."""
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        size = 0
    allowed = 0 < size <= 255 and not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in value)
    assert (fault_of_id(value) is None) == allowed


@pytest.mark.rule("O23")
def test_golden_key() -> None:
    """Services remember keys: the same activity of the same run has the same key in every release."""
    assert idempotency_key(*KEY) == "0293cba86591b8334a3ca3109fe38eb4"


@pytest.mark.rule("O23")
@pytest.mark.parametrize("place", range(5))
def test_each_part_makes_another_key(place: int) -> None:
    """Namespace, workflow id, origin run, name and ordinal all count."""
    other = [*KEY]
    other[place] = 2 if place == 4 else "other"
    assert idempotency_key(*other) != idempotency_key(*KEY)  # type: ignore[arg-type]
