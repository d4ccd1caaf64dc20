"""Interceptors on a whole node: around client calls, activities and workflows, in the order given."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import Interceptor, Retry, activity, workflow
from perdure.codecs import AesGcm
from perdure.errors import InvalidArgument, NotFound, WorkflowFailed
from perdure.interceptors import ActivityCall, ClientCall, WorkflowCall

LOG: list[str] = []


@pytest.fixture(autouse=True)
def quiet() -> None:
    LOG.clear()


class Tracing(Interceptor):
    """Says what it sees, before and after; carries a trace id from the client to the activity in the run's memo."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    async def call(self, call: ClientCall, next: Callable[[ClientCall], Awaitable[Any]]) -> Any:
        LOG.append(f"{self.name}{call.kind} {call.name} {list(call.args)}")
        if call.kind == "start":
            call = replace(call, memo={**call.memo, "trace": "t-1"})
        return await next(call)

    async def execute_activity(self, call: ActivityCall, next: Callable[[ActivityCall], Awaitable[Any]]) -> Any:
        LOG.append(f"{self.name}> {call.name} {list(call.args)} attempt {activity.info().attempt}")
        try:
            return await next(call)
        finally:
            LOG.append(f"{self.name}< {call.name}")

    async def execute_workflow(self, call: WorkflowCall, next: Callable[[WorkflowCall], Awaitable[Any]]) -> Any:
        assert workflow.info().memo["trace"] == "t-1"
        return await next(call)


class Doubling(Interceptor):
    """Changes arguments and results."""

    async def execute_activity(self, call: ActivityCall, next: Callable[[ActivityCall], Awaitable[Any]]) -> Any:
        return 10 * await next(replace(call, args=(call.args[0] + 1,)))

    async def execute_workflow(self, call: WorkflowCall, next: Callable[[WorkflowCall], Awaitable[Any]]) -> Any:
        await extra(0)
        try:
            return 1_000 + await next(replace(call, args=(call.args[0] * 2,)))
        finally:
            await extra(1)


@activity(retry=Retry(initial=0.001, jitter=0))
async def add(n: int) -> int:
    if activity.info().attempt == 1 and n == 3:
        raise ConnectionError("once")
    return n + 1


@activity
def add_on_thread(n: int) -> int:
    return n + 1


@activity(process=True)
def add_in_process(n: int) -> int:
    return n + 1


@activity
async def extra(n: int) -> int:
    return n


@workflow
async def adds(n: int) -> int:
    return await add(n)


@workflow
class Counter:
    def __init__(self) -> None:
        self.total = 0

    @workflow.run
    async def run(self, start: int) -> int:
        self.total = start
        await workflow.receive("stop")
        return self.total

    @workflow.query
    def now(self, plus: int) -> int:
        return self.total + plus

    @workflow.update
    async def increase(self, by: int) -> int:
        self.total += by
        return self.total


async def test_around_everything_in_order(any_house) -> None:
    """The first is the outermost; retries pass again; memo travels."""
    async with any_house(adds, add, interceptors=[Tracing("a "), Tracing("b ")]) as app:
        handle = await app.client.start(adds(3), id="adds", memo={"own": 1})
        assert await handle.result() == 4
        assert (await handle.describe()).memo == {"own": 1, "trace": "t-1"}
    around = ["a > add [3] attempt {}", "b > add [3] attempt {}", "b < add", "a < add"]
    assert [line for line in LOG if "add " in line or line.endswith("add")] == [
        *(line.format(1) for line in around),
        *(line.format(2) for line in around),
    ]
    assert [line for line in LOG if "start" in line] == ["a start adds [3]", "b start adds [3]"]
    assert [line for line in LOG if "result" in line] == ["a result  []", "b result  []"]


async def test_every_call_of_a_client_passes(any_house) -> None:
    """Signals, queries, updates, cancels, and errors of the engine, which come back through."""
    async with any_house(Counter, interceptors=[Tracing()]) as app:
        handle = await app.client.start(Counter.run(1), id="counter")
        assert await handle.update(Counter.increase(2)) == 3
        assert await handle.query(Counter.now(4)) == 7
        await handle.signal("stop")
        assert await handle.result() == 3
        with pytest.raises(NotFound):
            await app.client.handle("nobody").cancel()
    assert LOG == ["start Counter [1]", "update increase [2]", "query now [4]", "signal stop []", "result  []", "cancel  []"]


async def test_arguments_and_results_can_be_changed(any_house) -> None:
    """Of activities wherever they run, and of workflows, whose interceptors may ask for steps: they are part of the history."""
    async with any_house(adds, add, extra, interceptors=[Doubling()], replays=False) as app:
        handle = await app.client.start(adds(4))
        assert await handle.result() == 1_100
        names = [entry.name for entry in await handle.history() if entry.type == "activity_scheduled"]
        assert names == ["extra", "add", "extra"]


@pytest.mark.parametrize("step", [add, add_on_thread, add_in_process], ids=lambda step: step.name)
async def test_around_functions_wherever_they_run(house, step) -> None:
    """On the loop, on a thread, in a child process."""
    STEP[:] = [step]

    class Plus(Interceptor):
        async def execute_activity(self, call: ActivityCall, next: Callable[[ActivityCall], Awaitable[Any]]) -> Any:
            return 10 * await next(replace(call, args=(call.args[0] + 1,)))

    async with house(steps, step, interceptors=[Plus()], replays=False) as app:
        assert await app.client.execute(steps(5)) == 70


STEP: list[Any] = []


@workflow
async def steps(n: int) -> int:
    return await STEP[0](n)


class Refusing(Interceptor):
    async def call(self, call: ClientCall, next: Callable[[ClientCall], Awaitable[Any]]) -> Any:
        if call.kind == "terminate":
            raise PermissionError("not you")
        return await next(call)

    async def execute_activity(self, call: ActivityCall, next: Callable[[ActivityCall], Awaitable[Any]]) -> Any:
        raise LookupError("no connection in the pool")


async def test_what_an_interceptor_raises_is_what_the_call_raises(house) -> None:
    """At the client as it is; around an activity it is a failed attempt."""
    async with house(fails_at_once, once, interceptors=[Refusing()], replays=False) as app:
        handle = await app.client.start(fails_at_once())
        with pytest.raises(PermissionError, match="not you"):
            await handle.terminate()
        with pytest.raises(WorkflowFailed, match="LookupError: no connection in the pool"):
            await handle.result()


@activity(retry=Retry(max_attempts=1))
async def once() -> None: ...


@workflow
async def fails_at_once() -> None:
    await once()


def careless() -> str:
    return Path("/etc/hostname").read_text()


async def test_around_a_workflow_it_is_workflow_code(house, t) -> None:
    """Guarded like any: reading a file there quarantines the run."""

    class Careless(Interceptor):
        async def execute_workflow(self, call: WorkflowCall, next: Callable[[WorkflowCall], Awaitable[Any]]) -> Any:
            careless()
            return await next(call)

    async with house(adds, add, interceptors=[Careless()], replays=False) as app:
        handle = await app.client.start(adds(1))
        found = await t.status(app, handle, "quarantined")
        assert "open" in found.pending[0].state


async def test_interceptors_see_what_the_codec_hides(house) -> None:
    """They stand in front of it."""
    async with house(adds, add, interceptors=[Tracing()], codec=AesGcm({"k": b"k" * 32}), replays=False) as app:
        assert await app.client.execute(adds(1)) == 2
        blind = perdure.Client(app.frontend, app.client._chance)
        described = await blind.handle((await app.client.list()).items[0].workflow_id).describe()
        assert list(described.memo["trace"]) == ["perdure/encoded"]
    assert "start adds [1]" in LOG


async def test_a_worker_has_its_own(house) -> None:
    """Those of the client it is made of stand around that client's calls only."""
    async with house(replays=False, interceptors=[Tracing("client ")]) as app:

        class Own(Interceptor):
            async def execute_activity(self, call: ActivityCall, next: Callable[[ActivityCall], Awaitable[Any]]) -> Any:
                LOG.append(f"worker {call.name}")
                return await next(call)

        async with perdure.Worker(app.client, workflows=[adds], activities=[add], interceptors=[Own()]):
            assert await app.client.execute(adds(1)) == 2
    assert [line for line in LOG if "add" in line] == ["client start adds [1]", "worker add"]


async def test_without_any_nothing_stands_in_the_way(house) -> None:
    """No frontend, no function is wrapped; an interceptor that overrides nothing is none."""
    for given in ([], [Interceptor()]):
        async with house(adds, add, interceptors=given, replays=False) as app:
            assert app.client.frontend is app.frontend
            assert app.registry.workflow("adds") is adds
            assert app.worker._attempts._around is None


def test_what_is_no_interceptor_is_refused(tmp_path) -> None:
    """Classes, functions, anything else."""
    for given in ([Tracing], [print], 3, [None]):
        with pytest.raises(InvalidArgument, match="interceptors are instances"):
            perdure.embedded(tmp_path, interceptors=given)  # type: ignore[arg-type]


async def test_a_cancelled_call_is_cancelled_within(house) -> None:
    """Giving up the wait for a result ends it in the interceptors too, and leaves the run alone."""
    ended = asyncio.Event()

    class Watching(Interceptor):
        async def call(self, call: ClientCall, next: Callable[[ClientCall], Awaitable[Any]]) -> Any:
            try:
                return await next(call)
            except asyncio.CancelledError:
                ended.set()
                raise

    async with house(Counter, interceptors=[Watching()], replays=False) as app:
        handle = await app.client.start(Counter.run(1))
        with pytest.raises(TimeoutError):
            await handle.result(timeout=0.01)
        assert ended.is_set()
        await handle.signal("stop")
        assert await handle.result() == 1
