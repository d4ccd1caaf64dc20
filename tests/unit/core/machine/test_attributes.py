"""Attributes of a run: merged as they are set, carried over as they are then."""

from typing import Any

from perdure.core import commands as cm
from perdure.core.limits import LIMITS
from perdure.core.machine.attributes import beyond, merged
from perdure.core.replies import RunStarted
from perdure.testing.machine.story import Story

AT = "2026-05-04T12:00:00.000000+00:00"


def test_a_change_merges_and_none_takes_away() -> None:
    """Neither what was nor the change is touched; an attribute is a datetime as long as its last value was one."""
    before = {"a": 1, "at": AT, "old": AT}
    change = cm.SetAttributes(at=1, attributes={"a": None, "at": "soon", "new": AT}, datetimes=("new",))
    assert merged(before, ("at", "old"), change) == ({"at": "soon", "old": AT, "new": AT}, ("new", "old"))
    assert before == {"a": 1, "at": AT, "old": AT}
    gone = cm.SetAttributes(at=1, attributes={"old": None})
    assert merged(before, ("at", "old"), gone) == ({"a": 1, "at": AT}, ("at",))


def test_limits_are_named_at_their_edge() -> None:
    """The last that fits is taken; one more is refused with the limit's name, in code as at a start."""
    many: dict[str, Any] = {f"a{number}": number for number in range(LIMITS.attributes_max)}
    full = "é" * (LIMITS.attribute_bytes_max // 2)
    story = Story()
    for name, attributes in (("attributes_max", many | {"b": 1}), ("attribute_bytes_max", {"a": full + "x"})):
        refused = story.start(attributes=attributes)
        assert refused.code == "LIMIT_EXCEEDED"
        assert name in refused.message
    assert not beyond({"a": full}, 1, LIMITS.attribute_bytes_max)
    assert "attribute_bytes_max" in beyond({"a": ["x"] * 10}, 1, 19)
    assert not beyond({"a": ["x"] * 10}, 1, 20)
    assert isinstance(story.start(attributes=many | {"a0": full}), RunStarted)


def test_what_is_set_is_folded_and_survives_a_crash() -> None:
    """Attributes and details are part of the state."""
    story = Story()
    story.start(attributes={"customer": "c1", "due": AT}, attribute_datetimes=("due",))
    started = story.history[0]
    story.decide(
        cm.SetAttributes(at=1, attributes={"customer": "c2", "since": AT}, datetimes=("since",)),
        cm.SetDetails(at=1, details="waiting"),
    )
    story.crash()
    assert story.events == ["started", "attributes_set", "details_set"]
    assert story.run.attributes == {"customer": "c2", "due": AT, "since": AT}
    assert story.run.datetimes == ("due", "since")
    assert story.run.details == "waiting"
    assert started.attributes == {"customer": "c1", "due": AT}  # type: ignore[union-attr]


def test_a_successor_gets_attributes_as_they_are_then() -> None:
    """Also those set in the very decision that continues as new; what the run said of itself is not carried over."""
    story = Story()
    story.start(attributes={"a": 1, "due": AT}, attribute_datetimes=("due",))
    story.decide(
        cm.SetAttributes(at=1, attributes={"a": None, "b": 2, "at": AT}, datetimes=("at",)),
        cm.SetDetails(at=1, details="gone"),
        closing=cm.ContinueAsNew(at=1),
        next_run_id="next",
    )
    assert story.run.run_id == "next"
    assert story.run.attributes == {"b": 2, "due": AT, "at": AT}
    assert (story.run.datetimes, story.run.details) == (("at", "due"), "")
