"""New starts that are refused, and what runs meanwhile, on a whole node in virtual time."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import AdmissionRules, OriginQuota, activity, workflow
from perdure.core.overview import QueueFigures
from perdure.core.tasks import Kind
from perdure.errors import ResourceExhausted, Unavailable, WorkflowAlreadyStarted
from perdure.testing import Environment, environment

ONE = {"default": OriginQuota(starts_per_second=1)}


@workflow
async def echo(value: int = 0) -> int:
    return value


@workflow
async def waits() -> str:
    return await workflow.receive("go", str)


@workflow
async def naps() -> str:
    await asyncio.sleep(1.5)
    return "rested"


@workflow(retry=perdure.Retry(initial=0.001, max_attempts=3))
async def fails() -> None:
    raise ValueError("again")


@workflow  # noqa: RET503 – continue_as_new never returns
async def counts(left: int) -> int:
    if not left:
        return 0
    workflow.continue_as_new(left - 1)


@workflow
async def has_children() -> list[int]:
    return list(await asyncio.gather(*(echo(n) for n in range(5))))


@workflow
class Box:
    """Takes updates while it waits."""

    def __init__(self) -> None:
        self.held = 0

    @workflow.run
    async def run(self) -> int:
        await workflow.wait_until(lambda: self.held > 1)
        return self.held

    @workflow.update
    async def put(self, count: int) -> int:
        self.held += count
        return self.held


pace: dict[str, Any] = {}


@activity
async def slow() -> None:
    await pace["env"].sleep(pace["takes"])


@workflow
async def works() -> None:
    await slow()


def line(env: Environment, kind: Kind) -> QueueFigures:
    return next(found for found in env._node.frontend.overview.queues() if found.kind == kind)


def refused(env: Environment) -> dict[str, dict[str, int]]:
    return env._node.frontend.overview.stats().refused


async def refusal(env: Environment, call: Any = None, **options: Any) -> ResourceExhausted:
    with pytest.raises(ResourceExhausted) as caught:
        await env.client.start(echo() if call is None else call, **options)
    return caught.value


async def to_wait(env: Environment) -> float:
    """Seconds until a start may be let in; 0 when one has been."""
    try:
        await env.client.start(echo())
    except ResourceExhausted as error:
        return error.retry_after
    return 0.0


# ---------------------------------------------------------------------------------------------------------------------- quotas


@pytest.mark.rule("O24")
async def test_a_flood_of_one_origin_leaves_the_others_alone() -> None:
    """All of a benchmark's starts but its burst are refused; visitors' and others' are all let in meanwhile."""
    quotas = {"benchmark": OriginQuota(starts_per_second=10), "synthetic": OriginQuota(starts_per_second=5)}
    async with environment(admission=AdmissionRules(origins=quotas)) as env:
        env.register(echo)
        flood = [env.client.start(echo(n), origin="benchmark") for n in range(300)]
        visitors = [env.client.start(echo(n), origin="visitor") for n in range(100)]
        synthetic = [env.client.start(echo(n), origin="synthetic") for n in range(5)]
        ends = await asyncio.gather(*flood, *visitors, *synthetic, return_exceptions=True)
        assert [type(end) for end in ends[:300]].count(ResourceExhausted) == 290
        assert not [end for end in ends[300:] if isinstance(end, BaseException)]
        assert refused(env) == {"benchmark": {"quota": 290}}


@pytest.mark.rule("O27")
async def test_coming_back_when_told_is_in_time() -> None:
    """The refusal names origin, quota and setting; after its delay the start is taken, a moment before it is not."""
    async with environment(admission=AdmissionRules(origins={"visitor": OriginQuota(starts_per_second=0.5)})) as env:
        env.register(echo)
        await env.client.start(echo(1), origin="visitor")
        await env.advance(0.3)
        error = await refusal(env, origin="visitor", id="late")
        assert error.retry_after == pytest.approx(1.7)
        assert str(error).startswith(
            "origin 'visitor' has used up its quota of 0.5 new starts a second (admission.origins.visitor.starts_per_second)"
        )
        await env.advance(error.retry_after - 0.000_001)
        assert (await refusal(env, origin="visitor", id="late")).retry_after == pytest.approx(0.000_001)
        await env.advance(0.000_001)
        assert await env.client.execute(echo(2), origin="visitor", id="late") == 2


@pytest.mark.rule("O39")
async def test_what_has_started_is_no_new_start() -> None:
    """While all new starts are refused: a start sent again finds its run, open or closed, an attaching one the open one, and one of an id
    that is taken is told that."""
    async with environment(admission=AdmissionRules(origins=ONE)) as env:
        env.register(echo, waits)
        first = await env.client.start(waits(), id="w", request_id="r")
        await refusal(env)
        again = await env.client.start(waits(), id="w", request_id="r")
        attached = await env.client.start(waits(), id="w", on_conflict="attach")
        assert first.run_id == again.run_id == attached.run_id
        with pytest.raises(WorkflowAlreadyStarted):
            await env.client.start(waits(), id="w")
        await first.signal("go", "on")
        assert await first.result() == "on"
        assert (await env.client.start(waits(), id="w", request_id="r")).run_id == first.run_id
        await refusal(env, waits(), id="w")  # a run of its own
        assert refused(env) == {"default": {"quota": 2}}


@pytest.mark.rule("O39")
async def test_a_start_whose_answer_was_lost_in_a_crash_is_no_new_start(tmp_path: Path) -> None:
    """Sent again to the next life of the node, which has let in as many as it may: it finds its run on disk, open or closed."""
    async with environment(data=tmp_path) as env:
        env.register(echo, waits)
        runs = [
            (await env.client.start(call, id=name, request_id=name)).run_id for call, name in ((echo(1), "e"), (waits(), "w"))
        ]
        await env.idle()
        later = env.now() + timedelta(seconds=1)
    async with environment(data=tmp_path, start=later, admission=AdmissionRules(origins=ONE)) as env:
        env.register(echo, waits)
        await env.client.start(echo())
        await refusal(env)
        closed, opened = [
            await env.client.start(call, id=name, request_id=name) for call, name in ((echo(1), "e"), (waits(), "w"))
        ]
        assert [closed.run_id, opened.run_id] == runs
        assert await closed.result() == 1
        assert refused(env) == {"default": {"quota": 1}}


@pytest.mark.rule("O28")
async def test_a_refused_start_changes_nothing() -> None:
    """One that was to end the run before it does not; its id stays free; the same request is taken later, as a new one."""
    async with environment(admission=AdmissionRules(origins=ONE)) as env:
        env.register(echo, waits)
        running = await env.client.start(waits(), id="w")
        error = await refusal(env, waits(), id="w", on_conflict="terminate", request_id="r")
        assert (await running.describe()).status == "running"
        await refusal(env, id="free", request_id="f")
        with pytest.raises(perdure.errors.NotFound):
            await env.client.handle("free").describe()
        await env.advance(error.retry_after)
        assert await env.client.execute(echo(3), id="free", request_id="f") == 3


# ------------------------------------------------------------------------------------------------------------ what already runs


@pytest.mark.rule("O28")
async def test_nothing_that_runs_is_refused_anything() -> None:
    """While every start is: signals, signals with a start that finds a run, updates, timers, children, continuations, retries and resets go
    on, each as often as it would."""
    quota = {"default": OriginQuota(starts_per_second=0.001, burst=7)}
    async with environment(admission=AdmissionRules(origins=quota)) as env:
        env.register(echo, waits, naps, fails, counts, has_children, Box)
        start = env.client.start
        hears, boxed, resting = await start(waits(), id="hears"), await start(Box.run(), id="box"), await start(naps())
        failing, counting, family = await start(fails()), await start(counts(20)), await start(has_children())
        met = await start(waits(), id="met")
        await refusal(env)
        await hears.signal("go", "signal")
        found = await env.client.signal_with_start(waits(), "go", "with a start", id="met")
        assert found.run_id == met.run_id
        assert [await boxed.update(Box.put(1)) for _ in range(2)] == [1, 2]
        assert await hears.result() == "signal"
        assert await found.result() == "with a start"
        assert await boxed.result() == 2
        assert await counting.result() == 0
        assert await family.result() == [0, 1, 2, 3, 4]
        with pytest.raises(perdure.errors.WorkflowFailed):
            await failing.result()
        assert await resting.result() == "rested"
        begun = await family.reset(event_id=2)
        assert await begun.result() == [0, 1, 2, 3, 4]
        await refusal(env)
        assert refused(env) == {"default": {"quota": 2}}


@pytest.mark.rule("O28")
async def test_a_signal_with_a_start_is_a_start_where_there_is_no_run() -> None:
    """It is refused as any other, and its signal reaches nobody; sent again it starts one run with one signal."""
    async with environment(admission=AdmissionRules(origins=ONE)) as env:
        env.register(echo, waits)
        await env.client.start(echo())
        with pytest.raises(ResourceExhausted) as caught:
            await env.client.signal_with_start(waits(), "go", "on", id="w", signal_id="s")
        await env.advance(caught.value.retry_after)
        for _ in range(2):
            handle = await env.client.signal_with_start(waits(), "go", "on", id="w", signal_id="s")
        assert await handle.result() == "on"
        assert refused(env) == {"default": {"quota": 1}}


# ------------------------------------------------------------------------------------------------------------------- queue waits


@pytest.mark.rule("O25")
@pytest.mark.rule("O28")
async def test_slow_workers_close_the_door_and_what_runs_ends_as_soon_as_without() -> None:
    """Five activities of two seconds each for one slot: when the line's wait is above a second no start is let in. Those that were end at
    the same instants as without any limit. When the line has been empty for a while, starts are let in again."""
    ends = {}
    for rules in (AdmissionRules(), AdmissionRules(queue_wait_p99_s=1)):
        async with environment(max_activities=1, admission=rules) as env:
            pace.update(env=env, takes=2)
            env.register(works, slow, echo)
            handles = [await env.client.start(works()) for _ in range(5)]
            await env.advance(1)
            await env.client.start(echo())
            await env.advance(0.5)
            if rules.is_set:
                error = await refusal(env)
                assert "activity tasks of queue 'default' wait 1.50 s" in str(error)
                assert "the limit (admission.queue_wait_p99_s) is 1" in str(error)
            begun = env.now()
            for handle in handles:
                await handle.result()
            ends[rules.is_set] = env.now() - begun
            if rules.is_set:
                error = await refusal(env)
                assert line(env, "activity").wait_p99_s == 8.0
                await env.advance(error.retry_after)
                assert await env.client.execute(echo(1)) == 1
                assert refused(env) == {"default": {"queue_wait": 2}}
    assert ends[True] == ends[False]


@pytest.mark.rule("O25")
async def test_only_starts_of_the_slow_queue_are_refused() -> None:
    """A queue nobody serves is slow too; what is for another queue is let in, and never weighs on it."""
    async with environment(admission=AdmissionRules(queue_wait_p99_s=1)) as env:
        env.register(echo)
        await env.client.start(echo(), queue="away")
        await env.advance(1)
        await env.client.start(echo(), queue="away")
        await env.advance(0.1)
        error = await refusal(env, queue="away")
        assert "workflow tasks of queue 'away' wait 1.10 s" in str(error)
        assert error.retry_after == 3  # if it is claimed now, that counts for so long
        assert await env.client.execute(echo(4)) == 4


@pytest.mark.rule("O29")
@pytest.mark.parametrize("away", [10.0, 3_600.0])
async def test_after_a_deploy_starts_are_let_in_within_five_seconds(away: float) -> None:
    """However long no worker was there and however much has waited for it: less than five seconds after it comes, starts are taken, and
    not refused again."""
    async with environment(admission=AdmissionRules(queue_wait_p99_s=1)) as env:
        handles = [await env.client.start(echo(n), id=f"w{n}") for n in range(700)]
        await env.advance(away)
        await refusal(env)
        env.register(echo)
        await env.idle()
        closed_for = 0.0
        while (pause := await to_wait(env)) > 0:
            closed_for += pause
            await env.advance(pause)
        assert 0 < closed_for < 5
        for _ in range(20):
            await env.advance(0.25)
            await env.client.start(echo())
        assert [await handle.result() for handle in handles] == list(range(700))


@pytest.mark.rule("O29")
async def test_what_waited_before_a_restart_does_not_count(tmp_path: Path) -> None:
    """A node that was down for an hour with an activity in line lets starts in when it is back: that hour nobody waited in a line of its."""
    rules = AdmissionRules(queue_wait_p99_s=1)
    async with environment(data=tmp_path, max_activities=1, admission=rules) as env:
        pace.update(env=env, takes=0.25)
        env.register(works, slow)
        handles = [await env.client.start(works()) for _ in range(2)]
        await env.idle()
        assert line(env, "activity").waiting == 1
        names, later = [handle.id for handle in handles], env.now() + timedelta(hours=1)
    async with environment(data=tmp_path, start=later, admission=rules) as env:
        pace.update(env=env)
        env.register(works, slow, echo)
        for name in names:
            await env.client.handle(name).result()
        await env.client.start(echo())
        waited = line(env, "activity").wait_p99_s
        assert waited is not None
        assert waited < 1


# ---------------------------------------------------------------------------------------------------------------- depth, outbox


@pytest.mark.rule("O26")
async def test_a_queue_as_deep_as_it_may_be_takes_no_more() -> None:
    """Exactly so many tasks get to wait, though all come in one turn of the loop; told are depth, limit and setting. Then it drains."""
    async with environment(admission=AdmissionRules(queue_depth_max=20)) as env:
        ends = await asyncio.gather(*(env.client.start(echo(n)) for n in range(50)), return_exceptions=True)
        errors = [end for end in ends if isinstance(end, ResourceExhausted)]
        assert len(errors) == 30
        assert str(errors[0]).startswith("20 tasks wait in queue 'default'; the limit (admission.queue_depth_max) is 20")
        assert line(env, "workflow").waiting == 20
        env.register(echo)
        await env.advance(errors[0].retry_after)
        assert await env.client.execute(echo(5)) == 5
        assert refused(env) == {"default": {"queue_depth": 30}}


@pytest.mark.rule("O26")
async def test_a_full_outbox_takes_no_more_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages between runs that reach nobody pile up to the cap and then close the door. When they do again, nothing was lost."""
    async with environment(admission=AdmissionRules(outbox_max=5)) as env:
        env.register(echo, has_children)
        engine = env._node.frontend
        with monkeypatch.context() as cut:
            cut.setattr(engine, "bring", lambda _request, answer: answer(None, Unavailable("nobody is there")))
            parent = await env.client.start(has_children())
            await env.idle()
            error = await refusal(env)
            assert str(error).startswith("5 messages between runs are on their way; the limit (admission.outbox_max) is 5")
        assert await parent.result() == [0, 1, 2, 3, 4]
        assert await env.client.execute(echo(6)) == 6
        assert refused(env) == {"default": {"outbox": 1}}


# ------------------------------------------------------------------------------------------------------------------------ figures


async def test_nothing_is_measured_or_refused_unless_it_is_set() -> None:
    """Without rules there is no admission at all."""
    async with environment() as env:
        env.register(echo)
        await asyncio.gather(*(env.client.start(echo(n)) for n in range(50)))
        assert env._node.frontend.admission is None
        assert refused(env) == {}
        assert line(env, "workflow").wait_p99_s is None


async def test_refusals_are_counted_by_a_bounded_number_of_origins() -> None:
    """A hundred by name and those the rules name; the rest together."""
    quotas = ONE | {"named": OriginQuota(starts_per_second=1)}
    async with environment(admission=AdmissionRules(origins=quotas)) as env:
        env.register(echo)
        for n in range(110):
            await env.client.start(echo(), origin=f"o{n}")
            await refusal(env, origin=f"o{n}")
        await env.client.start(echo(), origin="named")
        await refusal(env, origin="named")
        counted = refused(env)
        assert len(counted) == 102
        assert counted["named"] == {"quota": 1}
        assert counted["other"] == {"quota": 10}
