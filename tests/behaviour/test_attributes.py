"""Attributes, memo and details: set at the start and on the way, seen by the code, by describe, and by the successor."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from perdure import Limits, workflow
from perdure.core.limits import LIMITS
from perdure.core.texts import DETAILS_CHARS_MAX
from perdure.errors import InvalidArgument, LimitExceeded, WorkflowFailed

DUE = datetime(2026, 5, 4, 12, 30, tzinfo=timezone(timedelta(hours=2)))


@workflow
async def tells() -> list[Any]:
    """What it knows of itself before and after it has set something."""
    before = workflow.info().attributes
    workflow.set_attributes({"customer": "c2", "vip": True, "due": None, "since": workflow.now(), "tags": ["a", "b"]})
    after = workflow.info().attributes
    since = after["since"]
    workflow.set_details("half way")
    assert isinstance(since, datetime)
    assert since == workflow.now()
    await workflow.receive("go")
    again = workflow.info()
    assert again.attributes == after
    return [str(before["due"]), before["customer"], sorted(after), after["tags"], again.memo]


@workflow
async def goes_on(left: int) -> list[str]:
    """Attributes follow through the chain."""
    workflow.set_attributes({f"n{left}": left, "at": DUE})
    if left:
        workflow.continue_as_new(left - 1)
    found = workflow.info()
    assert found.attributes["at"] == DUE
    return [*sorted(found.attributes), str(found.memo["note"])]


@workflow
async def sets_too_much() -> list[str]:
    """Each refusal leaves everything as it was, and records nothing."""
    wrong: list[str] = []
    half = {f"a{n}": n for n in range(LIMITS.attributes_max // 2)}
    workflow.set_attributes(half)
    attempts: list[Any] = [
        {f"b{n}": n for n in range(LIMITS.attributes_max // 2 + 1)},
        {"a": "x" * (LIMITS.attribute_bytes_max + 1)},
        {"a": object()},
        {"a": float("nan")},
        {"ok": 1, "a": datetime(2026, 1, 1)},  # noqa: DTZ001
        [],
    ]
    for attempt in attempts:
        try:
            workflow.set_attributes(attempt)
        except (LimitExceeded, InvalidArgument) as error:
            wrong.append(error.code)
    try:
        workflow.set_details("x" * (DETAILS_CHARS_MAX + 1))
    except InvalidArgument as error:
        wrong.append(error.code)
    assert workflow.info().attributes == half
    return wrong


@workflow
async def unsets_one() -> int:
    """At the limit there is room again for what was taken away."""
    workflow.set_attributes({f"a{n}": n for n in range(LIMITS.attributes_max)})
    workflow.set_attributes({"a0": None, "b": 1})
    return len(workflow.info().attributes)


async def test_attributes_of_a_run(any_house, t) -> None:
    """Set at the start, changed on the way, read as what they are; describe shows how they are now, after a restart too."""
    async with any_house(tells) as app:
        handle = await app.client.start(
            tells(), id="a", memo={"note": {"x": 1}}, attributes={"customer": "c1", "due": DUE, "n": 1.5}
        )
        await t.recorded(app, handle, "details_set")
        await t.decided(app, handle)
    async with any_house(tells) as app:
        handle = app.client.handle("a")
        view = await handle.describe()
        assert view.details == "half way"
        assert view.memo == {"note": {"x": 1}}
        since = view.attributes.pop("since")
        assert isinstance(since, datetime)
        assert since.tzinfo is UTC
        assert view.attributes == {"customer": "c2", "vip": True, "tags": ["a", "b"], "n": 1.5}
        await handle.signal("go")
        assert await handle.result() == [
            "2026-05-04 10:30:00+00:00",
            "c1",
            ["customer", "n", "since", "tags", "vip"],
            ["a", "b"],
            {"note": {"x": 1}},
        ]
        assert (await t.types(handle))[:4] == ["started", "attributes_set", "details_set", "signal_received"]


async def test_attributes_and_memo_follow_a_run_that_continues(any_house) -> None:
    """As they are when it continues, datetimes among them."""
    async with any_house(goes_on) as app:
        assert await app.client.execute(goes_on(2), id="c", memo={"note": "kept"}, attributes={"first": "x"}) == [
            "at",
            "first",
            "n0",
            "n1",
            "n2",
            "kept",
        ]
        view = await app.client.handle("c").describe()
        assert view.attributes["at"] == DUE
        assert view.attributes["n0"] == 0


async def test_refused_attributes_change_nothing(any_house, t) -> None:
    """A typed error in the code, and no trace in the history."""
    async with any_house(sets_too_much, unsets_one) as app:
        handle = await app.client.start(sets_too_much(), id="r")
        assert await handle.result() == ["LIMIT_EXCEEDED"] * 2 + ["INVALID_ARGUMENT"] * 5
        assert await t.types(handle) == ["started", "attributes_set", "completed"]
        assert await app.client.execute(unsets_one()) == LIMITS.attributes_max


async def test_refused_at_the_start(house) -> None:
    """Before anything is written."""
    async with house(tells) as app:
        for wrong in ({"a": None}, {"": 1}, {"a": [1]}, 5):
            with pytest.raises(InvalidArgument):
                await app.client.start(tells(), attributes=wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="priority"):
            await app.client.start(tells(), priority=1_001)
        assert await app.client.count() == 0


@workflow
async def outgrows(n: int) -> None:
    workflow.set_attributes({f"c{n}": n})


async def test_too_many_in_a_run_that_was_started_with_many_is_its_failure(house) -> None:
    """The error of the verb fails the run like any other."""
    async with house(outgrows) as app:
        full: Any = {f"a{n}": n for n in range(LIMITS.attributes_max)}
        with pytest.raises(WorkflowFailed) as failed:
            await app.client.execute(outgrows(1), attributes=full)
        assert isinstance(failed.value.__cause__, LimitExceeded)


@workflow
async def sets(names: int, size: int) -> None:
    workflow.set_attributes({f"n{number}": "x" * size for number in range(names)})


@pytest.mark.parametrize(
    ("names", "size", "limit"),
    [(2, 5, ""), (3, 5, "attributes_max"), (2, 6, "attribute_bytes_max")],
    ids=["fits", "many", "long"],
)
async def test_bounds_of_attributes_are_those_of_the_node(house, names, size, limit) -> None:
    """At the start and from the code: at the limit they are taken, beyond it the error names it and its value."""
    limits = Limits(attributes_max=2, attribute_bytes_max=5)
    async with house(sets, memory=True, limits=limits) as app:
        given: Any = {f"n{number}": "x" * size for number in range(names)}
        if not limit:
            await app.client.execute(sets(names, size))
            await app.client.execute(sets(0, 0), attributes=given)
            return
        with pytest.raises(LimitExceeded, match=rf"{limit}\) is"):
            await app.client.start(sets(0, 0), attributes=given)
        with pytest.raises(WorkflowFailed) as caught:
            await app.client.execute(sets(names, size))
        assert isinstance(caught.value.__cause__, LimitExceeded)
        assert f"({limit}) is {getattr(limits, limit)}" in str(caught.value.__cause__)
