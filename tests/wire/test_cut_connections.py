"""Whatever becomes of connections, nothing is lost and nothing is done twice: cut at every message, doubled, out of order, node away."""

import asyncio
from collections import Counter
from typing import Any

import pytest

import perdure
from perdure import activity, workflow
from perdure.replay.history import replay_history
from perdure.testing.unkind_wire import Unkindness, UnkindWire
from perdure.wire import frames

DONE: Counter[str] = Counter()
"""How often each step has had its effect."""


@activity
async def step(run: str, name: str) -> str:
    DONE[f"{run}/{name}"] += 1
    return name


@activity
def threaded(run: str, name: str) -> str:
    DONE[f"{run}/{name}"] += 1
    return name


@workflow
async def child(run: str) -> str:
    return await step(run, "child")


@workflow
class Everything:
    """Steps in line and side by side, a thread, a timer, a child, a signal, an update, a query."""

    def __init__(self) -> None:
        self.put: list[str] = []
        self.stage = "begun"

    @workflow.run
    async def run(self, run: str) -> str:
        first = await step(run, "first")
        self.stage = "waiting"
        await workflow.wait_until(lambda: len(self.put) >= 2)
        sides = await asyncio.gather(step(run, "left"), threaded(run, "right"), child(run))
        await asyncio.sleep(0.001)
        return " ".join([first, *self.put, *sides, await step(run, "last")])

    @workflow.signal
    def add(self, item: str) -> None:
        self.put.append(item)

    @workflow.update
    async def insist(self, item: str) -> int:
        self.put.append(item)
        return len(self.put)

    @workflow.query
    def how(self) -> str:
        return self.stage


STEPS = ("first", "left", "right", "child", "last")


async def live(client: perdure.Client, run: str) -> str:
    """One run of everything, as its client sees it."""
    handle = await client.start(Everything.run(run), id=run)
    assert await handle.update(Everything.insist("u"), update_id=f"{run}-u") == 1
    assert await handle.query(Everything.how()) in {"begun", "waiting"}
    await handle.signal(Everything.add("s"), signal_id=f"{run}-s")
    return await handle.result(timeout=30)


async def check(node: Any, run: str, *, once: bool = True) -> None:
    """Every step counts once in the history, and the code reproduces it; with `once` each was carried out once, at its first attempt."""
    assert await node.client.handle(run).result() == "first u s left right child last"
    for row in [row async for row in node.client.list()]:
        if run not in (row.workflow_id, row.parent):
            continue
        record = await node.frontend.record("default", row.workflow_id, row.run_id)
        definition = Everything if row.type == "Everything" else child
        replay_history(workflow_definition(definition), record.events, workflow_id=row.workflow_id, strict=True).close()
        completed = [event.command for event in record.events if event.type == "activity_completed"]
        assert len(completed) == len(set(completed))
        if once:
            assert all(event.attempt == 1 for event in record.events if event.type == "activity_completed")
    if once:
        assert {name: DONE[f"{run}/{name}"] for name in STEPS} == dict.fromkeys(STEPS, 1)


def workflow_definition(thing: Any) -> Any:
    from perdure.sdk.workflow import workflow_of

    return workflow_of(thing)


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()


@pytest.fixture
def single(monkeypatch: pytest.MonkeyPatch) -> None:
    """One message a frame, so that a cut between frames is one between messages."""
    monkeypatch.setattr(frames, "FRAME_BYTES", 1)


async def through(served: Any, unkindness: Unkindness, run: str) -> UnkindWire:
    """Live one run over an unkind wire, with a client and a worker behind it."""
    async with UnkindWire("127.0.0.1", served.server.port, unkindness) as wire:
        async with (
            await perdure.connect(wire.url) as client,
            perdure.Worker(client, workflows=[Everything, child], activities=[step, threaded]),
        ):
            assert await live(client, run) == "first u s left right child last"
        await check(served.node, run)
    return wire


@pytest.mark.parametrize("direction", ["in", "out"])
@pytest.mark.parametrize("delivered", [False, True])
@pytest.mark.usefixtures("single")
async def test_cut_at_every_message(serve: Any, direction: Any, delivered: bool) -> None:
    """The connection ends with the k-th message, for every k: what was under way goes on over the next one, each step carried out once."""
    async with serve() as served:
        count = 1
        while True:
            unkindness = Unkindness(direction=direction, cut_at=count, delivered=delivered)
            wire = await through(served, unkindness, f"{direction}-{count}")
            if not wire.cuts:
                break
            count += 1
        assert count > 20


@pytest.mark.parametrize("every", [4, 7, 11, 16])
@pytest.mark.usefixtures("single")
async def test_cut_again_and_again(serve: Any, every: int) -> None:
    """Connections that last for a few messages each are enough to get through."""
    async with serve() as served:
        wire = await through(served, Unkindness(direction="in", cut_at=6, cut_every=6 + every), f"every-{every}")
        assert wire.cuts > 1


@pytest.mark.parametrize("single_frames", [True, False])
async def test_frames_that_come_twice(serve: Any, single_frames: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame that comes twice counts once, either way."""
    if single_frames:
        monkeypatch.setattr(frames, "FRAME_BYTES", 1)
    async with serve() as served:
        await through(served, Unkindness(twice=True), "twice")


@pytest.mark.usefixtures("single")
async def test_messages_that_change_places(serve: Any) -> None:
    """Messages that come in another order than they were sent, where nobody waits for one before sending the other, all count."""
    async with serve() as served:
        await through(served, Unkindness(swapped=True), "swapped")


@pytest.mark.usefixtures("single")
@pytest.mark.parametrize("direction", ["in", "out"])
async def test_the_node_restarts_at_a_message(serve: Any, direction: Any) -> None:
    """The connection ends and the node is another one when the next is made: every run gets through, each step counts once."""
    async with serve() as served:
        port = served.server.port
    for count in range(3, 40, 4):
        await restarted(serve, port, direction, count)


async def restarted(serve: Any, port: int, direction: Any, count: int) -> None:
    run = f"restart-{direction}-{count}"
    stopped, again = asyncio.Event(), asyncio.Event()

    async def on_cut() -> None:
        stopped.set()
        await again.wait()

    async def first_life() -> None:
        async with serve(port=port):
            await stopped.wait()

    wire = UnkindWire("127.0.0.1", port, Unkindness(direction=direction, cut_at=count), on_cut)
    async with wire, asyncio.TaskGroup() as group:
        life = group.create_task(first_life())
        while not life.done():
            try:
                client = await perdure.connect(wire.url)
                break
            except perdure.errors.Unavailable:
                continue
        worker = perdure.Worker(client, workflows=[Everything, child], activities=[step, threaded])
        await worker.__aenter__()
        living = group.create_task(live(client, run))
        await asyncio.wait([life, living], return_when=asyncio.FIRST_COMPLETED)
        stopped.set()
        await life
        async with serve(port=port) as served:
            again.set()
            assert await living == "first u s left right child last"
            await check(served.node, run, once=False)
            await worker.__aexit__(None, None, None)
            await client.close()


TOKENS: list["asyncio.Queue[str]"] = []


@activity
async def outside() -> str:
    TOKENS[-1].put_nowait(activity.info().task_token)
    activity.complete_later()


@workflow
async def given() -> str:
    return await outside()


@pytest.mark.parametrize("fails", [False, True])
async def test_a_completion_whose_answer_died_with_the_node(serve: Any, fails: bool) -> None:
    """The node completes an activity by its token and dies before it can say so: told again, the completion has been carried out; another
    one with that token is not found."""
    TOKENS.append(asyncio.Queue())
    cut, again = asyncio.Event(), asyncio.Event()

    async def on_cut() -> None:
        cut.set()
        await again.wait()

    async with serve(given, outside) as served:
        port = served.server.port
        await served.node.client.start(given(), id="given")
        token = await TOKENS[-1].get()
        wire = UnkindWire("127.0.0.1", port, Unkindness(direction="out", cut_at=2), on_cut)
        await wire.__aenter__()
        client = await perdure.connect(wire.url)
        wrong = ValueError("no")
        told = asyncio.create_task(client.fail_activity(token, wrong) if fails else client.complete_activity(token, "here"))
        await cut.wait()
    async with serve(port=port):
        again.set()
        await told
        with pytest.raises(perdure.errors.NotFound):
            await client.complete_activity(token, "elsewhere")
        await client.close()
        await wire.__aexit__(None, None, None)
