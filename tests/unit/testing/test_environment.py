"""The environment for tests of workflows: when the clock moves, when it must not, and what is said when nothing can move it."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest

import perdure.testing
from perdure import Retry, activity, errors, workflow

DAY = 86_400


@activity
async def greet(name: str) -> str:
    return f"hello {name}"


@activity
def on_thread(name: str) -> str:
    time.sleep(0.02)  # real time, on a thread
    return name


@activity(retry=Retry(max_attempts=1), start_to_close=30)
async def slow(seconds: float) -> str:
    await ENV[-1].sleep(seconds)
    return "done"


@activity(retry=Retry(initial=3600, max_interval=3600, jitter=0, max_attempts=4))
async def flaky() -> int:
    attempt = activity.info().attempt
    if attempt < 4:
        raise ValueError(attempt)
    return attempt


@activity
async def ask_another(id: str) -> str:
    return await ENV[-1].client.execute(approval("inner", 60), id=id)


@workflow
async def approval(name: str, patience: float = 3 * DAY) -> str:
    await greet(name)
    try:
        async with asyncio.timeout(patience):
            approved = await workflow.receive("approve", bool)
    except TimeoutError:
        return "too late"
    return "approved" if approved else "refused"


@workflow
class Account:
    def __init__(self) -> None:
        self.balance = 0

    @workflow.run
    async def run(self) -> int:
        await workflow.wait_until(lambda: self.balance >= 10)
        return self.balance

    @workflow.update
    async def pay(self, amount: int) -> int:
        await asyncio.sleep(3 * DAY)
        self.balance += amount
        return self.balance


@workflow
async def retrying() -> int:
    return await flaky()


@workflow
async def slowly(seconds: float) -> str:
    try:
        return await slow(seconds)
    except errors.ActivityError as error:
        return error.kind


@workflow
async def threaded() -> str:
    async with asyncio.timeout(0.001):
        return await on_thread("x")


@workflow
async def nested() -> str:
    return await ask_another("inner")


@workflow
async def lonely() -> None:
    await workflow.receive("never", bool)


THINGS = (approval, greet, retrying, flaky, slowly, slow, threaded, on_thread, nested, ask_another, lonely)
ENV: list[perdure.testing.Environment] = []


def in_environment(test, **options):
    """Run a test's body in a loop and an environment of its own."""

    async def run():
        async with perdure.testing.environment(**options) as env:
            env.register(*THINGS)
            ENV.append(env)
            try:
                await test(env)
            finally:
                ENV.remove(env)

    asyncio.run(run())


def test_the_clock_stands_still_while_nobody_waits():
    """A test that starts, advances a day and signals does so after exactly one day, never past the timeout."""

    async def body(env):
        begin = env.now()
        handle = await env.client.start(approval("ann"), id="a")
        await env.idle()
        await asyncio.sleep(0.01)  # real time passing is no reason to move
        assert env.now() == begin
        await env.advance(DAY)
        assert env.now() == begin + timedelta(days=1)
        await handle.signal("approve", True)
        assert await handle.result() == "approved"
        assert env.now() == begin + timedelta(days=1)

    in_environment(body)


def test_awaiting_a_result_moves_the_clock_as_far_as_it_takes():
    """Three days of waiting pass at once, and the timeout fires at its instant."""

    async def body(env):
        begin, started = env.now(), time.perf_counter()
        assert await env.client.execute(approval("ann"), id="a") == "too late"
        assert env.now() == begin + timedelta(days=3)
        assert time.perf_counter() - started < 2

    in_environment(body)


def test_advance_fires_everything_on_the_way_in_order_and_at_its_time():
    """Timers of several runs end in the order of their instants, each with its own time, none before."""

    async def body(env):
        begin = env.now()
        for hours in (3, 1, 2):
            await env.client.start(approval("x", hours * 3600), id=f"h{hours}")
        await env.advance(timedelta(hours=2.5))
        ended = {}
        async for row in env.client.list(status="completed"):
            ended[row.workflow_id] = row.closed_at - begin
        assert ended == {"h1": timedelta(hours=1), "h2": timedelta(hours=2)}
        assert env.now() == begin + timedelta(hours=2.5)
        await env.advance(timedelta(hours=0.5))
        assert (await env.client.handle("h3").describe()).status == "completed"

    in_environment(body)


def test_retries_take_virtual_time():
    """Hours between attempts pass at once; they are there in the history's times."""

    async def body(env):
        begin = env.now()
        assert await env.client.execute(retrying()) == 4
        assert env.now() == begin + timedelta(hours=3)

    in_environment(body)


@pytest.mark.parametrize(("seconds", "said", "passed"), [(29, "done", 29), (31, "start_to_close", 30)])
def test_an_activity_that_sleeps_in_virtual_time_meets_its_timeout_exactly(seconds, said, passed):
    """`env.sleep` lets time move under a running activity."""

    async def body(env):
        begin = env.now()
        assert await env.client.execute(slowly(seconds)) == said
        assert env.now() == begin + timedelta(seconds=passed)

    in_environment(body)


@pytest.mark.scenario(101)
def test_an_activity_that_takes_real_time_holds_the_clock():
    """A thread of 20 real milliseconds beats a timeout of one virtual millisecond, while a result is awaited and while time is pushed."""

    async def body(env):
        assert await env.client.execute(threaded()) == "x"
        handle = await env.client.start(threaded(), id="pushed")
        await env.advance(DAY)
        assert (await handle.describe()).status == "completed"

    in_environment(body)


def test_an_activity_that_awaits_another_workflow_does_not_hold_the_clock():
    """Otherwise the two would wait for each other for ever."""

    async def body(env):
        assert await env.client.execute(nested()) == "too late"

    in_environment(body)


@pytest.mark.scenario(101)
def test_a_hung_run_is_an_error_that_says_what_every_open_run_waits_for():
    """Awaiting what no time can bring raises at once, instead of hanging."""

    async def body(env):
        await env.client.start(approval("ann", 30 * DAY), id="waiting", queue="nobody")
        with pytest.raises(perdure.testing.StuckError) as caught:
            await env.client.execute(lonely(), id="hung")
        text = str(caught.value)
        assert "hung (lonely, running) waits for signal never" in text
        missing = "a worker on queue 'nobody' for workflow type 'approval': environment(queues=['default', 'nobody'])"
        assert f"waiting (approval, running) waits for {missing}" in text

    in_environment(body)


UNKNOWN_TYPE = (
    r"w \(unheard_of, running\) waits for a worker that knows workflow type 'unheard_of': env\.register\(unheard_of\)"
)


def test_a_run_nobody_knows_the_code_of_is_an_error():
    """Its task is offered again every second, for ever: time moves, nothing happens, and that is said."""

    async def body(env):
        handle = await env.client.start("unheard_of", id="w")
        with pytest.raises(perdure.testing.StuckError, match=UNKNOWN_TYPE):
            await handle.result()

    in_environment(body)


def test_an_activity_nobody_knows_is_an_error_that_names_it():
    """A forgotten registration is said as such, not as an activity that waits."""

    async def run():
        async with perdure.testing.environment() as env:
            env.register(approval)
            with pytest.raises(
                perdure.testing.StuckError, match=r"a worker that knows activity 'greet': env\.register\(greet\)"
            ):
                await env.client.execute(approval("ann"))

    asyncio.run(run())


@activity(retry=Retry(initial=3600, max_interval=3600, jitter=0))
async def broken() -> None:
    raise ConnectionRefusedError("no bank")


@workflow
async def hopeless() -> None:
    await broken()


def test_an_activity_that_fails_on_every_attempt_is_an_error_that_names_it():
    """Retries without a bound would move the clock for ever: the wait ends with the activity, the count and the last failure."""

    async def body(env):
        env.register(hopeless, broken)
        handle = await env.client.start(hopeless(), id="w")
        with pytest.raises(perdure.testing.StuckError) as caught:
            await handle.result()
        text = str(caught.value)
        assert "activity 'broken' of a 'hopeless' run has failed 7 attempts" in text
        assert "ConnectionRefusedError: no bank" in text
        assert "environment(attempts_max=…), now 5" in text
        assert "w (hopeless, running) waits for activity broken waiting to retry" in text
        assert len([note for note in await handle.history(notes=True) if note.type == "attempt_failed"]) == 7

    in_environment(body, attempts_max=5)


def test_attempts_count_during_one_wait_only():
    """A push may take as many as fall into it, a wait that is left alone starts from none, and what ends within the bound ends."""

    async def body(env):
        env.register(hopeless, broken)
        handle = await env.client.start(hopeless(), id="w")
        await env.advance(50 * 3600)
        for failed in (57, 63):  # 51 in the push, 6 in each wait
            with pytest.raises(perdure.testing.StuckError, match=f"has failed {failed} attempts"):
                await handle.result()
        assert await env.client.execute(retrying()) == 4

    in_environment(body, attempts_max=5)


def test_the_bound_on_attempts_is_at_least_one():
    """Zero would end every wait in which anything is ever tried again."""
    with pytest.raises(errors.InvalidArgument, match="attempts_max"):
        asyncio.run(perdure.testing.environment(attempts_max=0).__aenter__())


def test_an_activity_that_never_ends_is_an_error_that_names_the_way_out():
    """Holding the clock is bounded in real time."""

    @activity
    async def endless() -> None:
        await asyncio.Event().wait()

    @workflow
    async def waits() -> None:
        await endless()

    async def body(env):
        env.register(endless, waits)
        with pytest.raises(perdure.testing.StuckError, match=r"(?s)env\.sleep.*endless running"):
            await env.client.execute(waits(), id="w")

    in_environment(body, patience=0.2)


def test_two_environments_in_one_loop_do_not_disturb_each_other():
    """Each has its own clock, engine and store; both come to rest though both look for it at once."""

    async def run():
        async with perdure.testing.environment() as one, perdure.testing.environment(seed=2) as two:
            one.register(approval, greet)
            two.register(approval, greet)
            begin = one.now()
            first, _, second = await asyncio.gather(
                one.client.execute(approval("a"), id="same"),
                two.advance(5 * DAY),
                two.client.execute(approval("b", 10 * DAY), id="same"),
            )
            assert (first, second) == ("too late", "too late")
            assert one.now() == begin + timedelta(days=3)
            assert two.now() >= begin + timedelta(days=10)

    asyncio.run(run())


def test_a_result_awaited_in_the_background_does_not_outrun_a_push():
    """While the test pushes the clock nobody else moves it; the signal that follows at once is in time."""

    async def body(env):
        handle = await env.client.start(approval("ann"), id="a")
        async with asyncio.TaskGroup() as group:
            result = group.create_task(handle.result())
            await env.advance(2 * DAY)
            await handle.signal("approve", True)
        assert result.result() == "approved"

    in_environment(body)


def test_the_same_test_does_the_same_every_time():
    """Run ids, seeds and times come from the environment's seed and clock."""
    histories = []

    async def body(env):
        handle = await env.client.start(approval("ann"), id="a")
        await env.advance(DAY)
        await handle.signal("approve", True, signal_id="s")
        await handle.result()
        histories.append([repr(entry) for entry in await handle.history(notes=True)])

    in_environment(body)
    in_environment(body)
    assert histories[0] == histories[1]


def test_the_journal_can_be_used_and_opened_again(tmp_path):
    """With `data` runs go on in the next environment, at its time."""

    async def first(env):
        await env.client.start(approval("ann"), id="a")
        await env.advance(DAY)

    async def second(env):
        assert await env.client.handle("a").result() == "too late"
        assert env.now() == datetime(2026, 1, 4, tzinfo=UTC)

    in_environment(first, data=tmp_path, start=datetime(2026, 1, 1, tzinfo=UTC))
    in_environment(second, data=tmp_path, start=datetime(2026, 1, 2, tzinfo=UTC))


@pytest.mark.anyio
async def test_it_works_under_another_runner_of_tests(anyio_backend):
    """The loop is the test's own, whoever runs it."""
    async with perdure.testing.environment() as env:
        env.register(approval, greet)
        assert await env.client.execute(approval("ann")) == "too late"


@pytest.fixture(params=["asyncio"])
def anyio_backend(request):
    return request.param


def test_time_moves_for_who_waits_for_an_update():
    """For its answer, and for its acceptance where the run begins only later; one nobody will ever take is said to be stuck."""

    async def body(env):
        env.register(Account)
        began = env.now()
        handle = await env.client.start(Account.run(), id="a", start_delay=DAY)
        assert await handle.update(Account.pay(4)) == 4
        assert env.now() - began == timedelta(days=4)
        assert await (await handle.start_update(Account.pay(6))).result() == 10
        assert await handle.result() == 10
        paused = await env.client.start(Account.run(), id="b")
        await paused.pause()
        with pytest.raises(perdure.testing.StuckError):
            await paused.update(Account.pay(1))

    in_environment(body)


def test_time_cannot_be_moved_backwards_and_a_naive_start_is_refused():
    """Both are mistakes, said at once."""

    async def body(env):
        with pytest.raises(errors.InvalidArgument):
            await env.advance(-1)

    in_environment(body)
    with pytest.raises(errors.InvalidArgument):
        in_environment(body, start=datetime(2026, 1, 1))  # noqa: DTZ001
