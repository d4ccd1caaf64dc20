"""Attributes between what authors write and what events carry."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from perdure.core.errors import InvalidArgument
from perdure.sdk.attributes import read, written

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


@pytest.mark.parametrize("value", ["x", "", 0, -(2**63) + 1, 1.5, True, False, NOON, [], ["b", "a", "b"]])
def test_a_value_comes_back_as_it_was_set(value: Any) -> None:
    """Same value and same type, whatever it is."""
    attributes, datetimes = written({"a": value}, "attributes")
    back = read(attributes, datetimes)["a"]
    assert (back, type(back)) == (value, type(value))


def test_datetimes_are_written_in_utc_at_one_width() -> None:
    """Later ones sort later as text, whatever their timezone and microseconds."""
    moments = [
        NOON,
        NOON + timedelta(microseconds=1),
        (NOON + timedelta(minutes=1)).astimezone(timezone(timedelta(hours=-9))),
        NOON + timedelta(hours=1),
    ]
    texts = [written({"at": moment}, "attributes")[0]["at"] for moment in moments]
    assert texts == sorted(texts)  # type: ignore[type-var]
    assert texts[0] == "2026-05-04T12:00:00.000000+00:00"
    assert [read({"at": text}, ("at",))["at"] for text in texts] == moments


def test_a_text_that_looks_like_a_datetime_stays_text() -> None:
    """What is a datetime is said, not guessed."""
    assert read(*written({"a": "2026-05-04T12:00:00.000000+00:00"}, "attributes")) == {"a": "2026-05-04T12:00:00.000000+00:00"}


@pytest.mark.parametrize(
    "value",
    [
        None,
        2**63,
        float("nan"),
        float("inf"),
        datetime(2026, 1, 1),  # noqa: DTZ001
        datetime.min.replace(tzinfo=timezone(timedelta(hours=5))),
        ["a", 1],
        ("a",),
        b"x",
        "\ud800",
        {"a": 1},
        object(),
    ],
)
def test_what_can_be_no_attribute_is_refused_by_name(value: Any) -> None:
    """The message says which one; None unsets, and at a start there is nothing to unset."""
    with pytest.raises(InvalidArgument, match=r"attributes\['customer'\]"):
        written({"customer": value}, "attributes")


@pytest.mark.parametrize("name", ["", "a\nb", 5, "x" * 256])
def test_names_are_identifiers(name: Any) -> None:
    """1 to 255 bytes without control characters."""
    with pytest.raises(InvalidArgument, match="attribute"):
        written({name: 1}, "attributes")


@pytest.mark.parametrize("given", [None, [("a", 1)], "a"])
def test_attributes_are_a_mapping(given: Any) -> None:
    """Anything else is refused."""
    with pytest.raises(InvalidArgument, match="mapping"):
        written(given, "attributes")


def test_none_unsets_where_that_is_allowed() -> None:
    """In a running workflow."""
    assert written({"a": None, "b": 1}, "set_attributes", unset=True) == ({"a": None, "b": 1}, ())
