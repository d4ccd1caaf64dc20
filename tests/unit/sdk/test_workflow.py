"""Workflows: decorating, and the verbs of workflow code, whose answers come from the run alone."""

import asyncio
import inspect
import random
from datetime import UTC, datetime, timedelta, timezone
from typing import Literal
from uuid import UUID

import msgspec
import pytest

from perdure.core.commands import ContinueAsNew
from perdure.core.errors import InvalidArgument, NondeterminismError, OutsideContext, PayloadTooLarge
from perdure.core.events import SignalReceived
from perdure.sdk.workflow import workflow


def payload(value):
    return msgspec.Raw(msgspec.json.encode(value))


def in_run(scripted, verb):
    async def code():
        return verb()

    return scripted.run(code())


@workflow
async def fulfil(order: str, *, note: str = "") -> int:
    """Fulfil it."""
    return len(order + note)


# ------------------------------------------------------------------------------------------------------------------- decorating


def test_a_workflow_looks_like_its_function():
    """Name, docstring and signature are the function's; without options nothing is set."""
    assert (fulfil.name, fulfil.__doc__) == ("fulfil", "Fulfil it.")
    assert list(inspect.signature(fulfil).parameters) == ["order", "note"]
    assert asyncio.run(fulfil.fn("abc", note="d")) == 4
    assert (fulfil.queue, fulfil.timeout, fulfil.retry) == ("", 0, None)
    assert repr(fulfil) == "<workflow fulfil>"


def test_options():
    """What a start takes unless it says otherwise, in the engine's own units."""

    @workflow(name="other", queue="slow", timeout=timedelta(hours=1))
    async def named() -> None: ...

    assert (named.name, named.queue, named.timeout) == ("other", "slow", 3_600_000_000)
    assert named.retry is None


@pytest.mark.parametrize("options", [{"name": ""}, {"queue": "\n"}, {"timeout": 0}, {"timeout": -1}, {"retry": 3}], ids=str)
def test_options_refuse(options):
    """A value out of its bounds is named where it is written."""
    with pytest.raises(InvalidArgument, match=next(iter(options))):
        workflow(**options)(fulfil.fn)


def test_unknown_options_are_type_errors():
    """As for any keyword Python does not know."""
    with pytest.raises(TypeError, match="start_to_close"):
        workflow(start_to_close=3)  # type: ignore[call-overload]


def not_workflows():
    def plain():
        pass

    async def stream():
        yield 1

    return [(plain, "async"), (stream, "async"), (3, "async"), (fulfil, "async"),
            (staticmethod(fulfil.fn), "below @staticmethod")]  # fmt: skip


@pytest.mark.parametrize(
    ("thing", "reason"), not_workflows(), ids=lambda thing: thing if isinstance(thing, str) else type(thing).__name__
)
def test_what_cannot_be_a_workflow(thing, reason):
    """Each is refused with a reason."""
    with pytest.raises(InvalidArgument, match=reason):
        workflow(thing)


# ----------------------------------------------------------------------------------------------------------------- time and chance


def test_time_is_that_of_the_input(scripted):
    """now() is aware UTC, time() the same in seconds; neither moves by itself."""
    assert in_run(scripted, workflow.now) == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert in_run(scripted, workflow.now).tzinfo is UTC
    assert in_run(scripted, workflow.time) == 1_700_000_000.0
    scripted.time += 1
    assert in_run(scripted, workflow.now).microsecond == 1


@pytest.mark.rule("F24")
def test_chance_comes_from_the_run(scripted):
    """Two runs of one seed draw the same; the generator is the run's own object."""

    def draw():
        return workflow.random().random(), workflow.uuid4(), workflow.uuid7()

    first = in_run(scripted, draw)
    scripted.generator = random.Random(5)
    assert in_run(scripted, draw) == first
    assert in_run(scripted, draw) != first
    assert in_run(scripted, workflow.random) is scripted.generator


def test_uuids_are_well_formed(scripted):
    """Version and variant as RFC 9562 says; uuid7 carries the time and sorts by it, to the microsecond within a few."""
    four, seven = in_run(scripted, workflow.uuid4), in_run(scripted, workflow.uuid7)
    assert (four.version, four.variant) == (4, "specified in RFC 4122")
    assert (seven.version, seven.variant) == (7, "specified in RFC 4122")
    assert seven.int >> 80 == 1_700_000_000_000
    later: list[UUID] = []
    for _ in range(1_500):
        later.append(in_run(scripted, workflow.uuid7)) if _ % 100 == 0 else None
        scripted.time += 1
    assert later == sorted(later)


# ------------------------------------------------------------------------------------------------------------------------ timers


def test_sleep(scripted):
    """Seconds or timedelta, whole microseconds, a summary; a delay below zero is left to the run, which only yields."""

    async def code():
        await workflow.sleep(1.5)
        await workflow.sleep(timedelta(days=1), summary="tomorrow")
        await workflow.sleep(-1)
        await workflow.sleep(0)

    scripted.run(code())
    assert scripted.slept == [(1_500_000, ""), (86_400_000_000, "tomorrow"), (-1_000_000, ""), (0, "")]


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 10**12, "3", None])
def test_sleep_refuses(scripted, wrong):
    """What is no duration starts no timer."""
    with pytest.raises(InvalidArgument, match="sleep"):
        scripted.run(workflow.sleep(wrong))
    assert scripted.slept == []


def test_sleep_until(scripted):
    """Aware in any timezone, exact; what has passed is a delay below zero; naive is refused."""
    soon = datetime(2023, 11, 14, 23, 13, 20, 5, tzinfo=timezone(timedelta(hours=1)))

    async def code():
        await workflow.sleep_until(soon, "soon")
        await workflow.sleep_until(soon - timedelta(seconds=2))
        with pytest.raises(InvalidArgument, match="aware"):
            await workflow.sleep_until(soon.replace(tzinfo=None))

    scripted.run(code())
    assert scripted.slept == [(5, "soon"), (-1_999_995, "")]


# ----------------------------------------------------------------------------------------------------------------------- signals


def signal(*values, **keywords):
    return SignalReceived(
        id=3, time=0, name="approve", input=tuple(map(payload, values)), keywords={k: payload(v) for k, v in keywords.items()}
    )


@pytest.mark.parametrize(
    ("sent", "wanted", "got"),
    [
        ((True,), bool, True),
        (({"a": 1},), dict[str, int], {"a": 1}),
        ((), type(None), None),
        ((None,), int | None, None),
        (("yes",), Literal["yes", "no"], "yes"),
    ],
)
def test_receive(scripted, sent, wanted, got):
    """The value by its type; a signal without one is None."""
    scripted.signals["approve"] = [signal(*sent)]
    assert scripted.run(workflow.receive("approve", wanted)) == got


def test_receive_anything(scripted):
    """Without a type the value comes as plain JSON; signals come in their order."""
    scripted.signals["approve"] = [signal([1, {"b": None}]), signal("next")]

    async def code():
        return [await workflow.receive("approve"), await workflow.receive("approve")]

    assert scripted.run(code()) == [[1, {"b": None}], "next"]


@pytest.mark.parametrize(
    "sent", [signal("maybe"), signal(True, True), signal(True, why=""), signal()], ids=["type", "two", "keyword", "none"]
)
def test_receive_refuses_what_does_not_fit(scripted, sent):
    """The error names the signal; the next one is taken by the next call."""
    scripted.signals["approve"] = [sent, signal(True)]

    async def code():
        with pytest.raises(InvalidArgument, match="signal approve"):
            await workflow.receive("approve", bool)
        return await workflow.receive("approve", bool)

    assert scripted.run(code()) is True


def test_receive_checks_the_name(scripted):
    """A name no signal can have would wait for ever."""
    with pytest.raises(InvalidArgument, match="signal name"):
        scripted.run(workflow.receive(""))


# ---------------------------------------------------------------------------------------------------------------------- versions


def test_version_and_patched(scripted):
    """patched is version 0 to 1; the answer is the run's."""
    scripted.taken_version = 1
    assert in_run(scripted, lambda: workflow.version("tax", 0, 3)) == 1
    assert in_run(scripted, lambda: workflow.patched("tax")) is True
    scripted.taken_version = 0
    assert in_run(scripted, lambda: workflow.patched("tax")) is False
    assert scripted.asked == [("tax", 0, 3), ("tax", 0, 1), ("tax", 0, 1)]


def test_a_version_the_code_does_not_know(scripted):
    """Neither too old nor too new ones are taken for something else."""
    for taken in (0, 4):
        scripted.taken_version = taken
        with pytest.raises(NondeterminismError, match=f"version {taken} of 'tax'; this code knows 1 to 3"):
            in_run(scripted, lambda: workflow.version("tax", 1, 3))


@pytest.mark.parametrize("arguments", [("tax", 2, 1), ("tax", -1, 1), ("", 0, 1)])
def test_version_refuses(scripted, arguments):
    """A range that holds nothing, or a change id that is none, asks nothing of the run."""
    with pytest.raises(InvalidArgument):
        in_run(scripted, lambda: workflow.version(*arguments))
    assert scripted.asked == []


# ------------------------------------------------------------------------------------------------------------------ side effects


def test_side_effect_is_called_once(scripted):
    """Live and on replay the recorded value is what comes back, read by the return hint."""
    calls = []

    def draw() -> tuple[int, UUID]:
        calls.append(1)
        return len(calls), UUID(int=len(calls))

    live = in_run(scripted, lambda: workflow.side_effect(draw))
    scripted.replaying = True
    assert in_run(scripted, lambda: workflow.side_effect(draw)) == live == (1, UUID(int=1))
    assert calls == [1]


def test_side_effect_reads_by_type(scripted):
    """Where there is no hint a type may be given; without either it is plain JSON, live as on replay."""
    make = lambda: UUID(int=1)  # noqa: E731
    assert in_run(scripted, lambda: workflow.side_effect(make, UUID)) == UUID(int=1)
    assert in_run(scripted, lambda: workflow.side_effect(make)) == str(UUID(int=1))
    assert in_run(scripted, lambda: workflow.side_effect(dict)) == {}


def test_side_effect_refuses_async(scripted):
    """Awaiting belongs in an activity."""
    with pytest.raises(InvalidArgument, match="activity"):
        in_run(scripted, lambda: workflow.side_effect(fulfil.fn))


def test_side_effect_must_be_a_payload(scripted):
    """What cannot be recorded is refused when it is made."""
    with pytest.raises(InvalidArgument, match="side_effect"):
        in_run(scripted, lambda: workflow.side_effect(object))
    with pytest.raises(PayloadTooLarge):
        in_run(scripted, lambda: workflow.side_effect(lambda: "x" * 3_000_000))
    assert scripted.effects == []


# --------------------------------------------------------------------------------------------------------------- continue as new


def test_continue_as_new_binds_to_the_workflow(scripted, continued):
    """Where the run's own workflow is known its signature holds: wrong arguments leave the run going."""
    scripted.definition = fulfil
    with pytest.raises(continued):
        in_run(scripted, lambda: workflow.continue_as_new("b", note="n"))
    assert scripted.continued == ContinueAsNew(at=7, input=(payload("b"),), keywords={"note": payload("n")})
    scripted.continued = None
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'order'"):
        in_run(scripted, lambda: workflow.continue_as_new())  # noqa: PLW0108  never returns
    with pytest.raises(InvalidArgument, match=r"fulfil\(order\)"):
        in_run(scripted, lambda: workflow.continue_as_new(object()))
    assert scripted.continued is None


def test_continue_as_new_of_an_unknown_workflow(scripted, continued):
    """Arguments travel as they were given; what cannot is named by its place."""
    with pytest.raises(continued):
        in_run(scripted, lambda: workflow.continue_as_new(1, [2], more=3))
    assert scripted.continued == ContinueAsNew(at=7, input=(payload(1), payload([2])), keywords={"more": payload(3)})
    with pytest.raises(InvalidArgument, match="continue_as_new argument 2"):
        in_run(scripted, lambda: workflow.continue_as_new(1, object()))


# ---------------------------------------------------------------------------------------------------------------- info and logger


def test_info(scripted):
    """Instants are aware datetimes, memo values plain, the parent a pair with names."""
    scripted.memo = {"who": payload(["ann"])}
    scripted.parent = ("p-1", "run-p")
    info = in_run(scripted, workflow.info)
    assert (info.namespace, info.workflow_id, info.run_id, info.type) == ("default", "order-1", "run-1", "fulfil")
    assert (info.queue, info.attempt, info.attributes) == ("default", 1, {"customer": "c1"})
    assert info.started_at == datetime(2020, 9, 13, 12, 26, 40, tzinfo=UTC)
    assert info.memo == {"who": ["ann"]}
    assert (info.parent.workflow_id, info.parent.run_id) == info.parent == ("p-1", "run-p")
    assert (info.history_length, info.history_bytes, info.continue_as_new_suggested) == (7, 900, False)
    scripted.parent = None
    assert in_run(scripted, workflow.info).parent is None


def test_the_logger_is_silent_while_replaying(scripted, caplog):
    """What a run says is said once, with its ids; outside a workflow it is an ordinary logger."""

    def speak():
        workflow.logger.warning("order %s", "o1", extra={"cents": 3})

    scripted.replaying = True
    in_run(scripted, speak)
    assert in_run(scripted, workflow.is_replaying) is True
    assert caplog.records == []
    scripted.replaying = False
    in_run(scripted, speak)
    assert in_run(scripted, workflow.is_replaying) is False
    speak()
    inside, outside = caplog.records
    assert (inside.getMessage(), inside.funcName, inside.cents) == ("order o1", "speak", 3)
    assert (inside.workflow_id, inside.run_id) == ("order-1", "run-1")
    assert not hasattr(outside, "workflow_id")


def test_verbs_outside_a_workflow():
    """They say where they belong, those that wait as well."""
    verbs = [
        workflow.info,
        workflow.now,
        workflow.time,
        workflow.random,
        workflow.uuid4,
        workflow.uuid7,
        workflow.is_replaying,
        workflow.continue_as_new,
        lambda: workflow.version("x", 0, 1),
        lambda: workflow.patched("x"),
        lambda: workflow.side_effect(dict),
        lambda: asyncio.run(workflow.sleep(1)),
        lambda: asyncio.run(workflow.sleep_until(datetime.now(UTC))),
        lambda: asyncio.run(workflow.receive("x")),
    ]
    for verb in verbs:
        with pytest.raises(OutsideContext, match="in workflow code"):
            verb()


@pytest.mark.parametrize("odd", [True, 1.5, "1", None, 2**70, -1])
def test_versions_are_whole_numbers(scripted, odd):
    """Nothing else is asked of the run: it would be written down."""
    for low, high in ((0, odd), (odd, 3)):
        with pytest.raises(InvalidArgument, match="whole number"):
            in_run(scripted, lambda low=low, high=high: workflow.version("tax", low, high))
    assert scripted.asked == []
