"""Updates end to end: asked, judged, accepted, carried out and answered; over races, restarts, ends and continuations."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from perdure import Limits, Retry, activity, workflow
from perdure.core import commands as cm
from perdure.core.requests import ClaimWorkflow, Commands, ReleaseWorkflow, Report
from perdure.errors import (
    ApplicationError,
    InvalidArgument,
    NondeterminismError,
    ResourceExhausted,
    Unavailable,
    WorkflowClosed,
)
from perdure.ports import DiskFull


class OutOfStockError(Exception):
    """What an author's validator raises."""


GATES: dict[str, asyncio.Event] = {}
"""By name: what an activity of a test waits for."""

VALIDATED: list[str] = []
"""What validators have looked at, in this process."""


@activity
async def pass_gate(name: str) -> str:
    if (gate := GATES.get(name)) is not None:
        await gate.wait()
    return f"passed {name}"


@workflow
class Shop:
    """Takes items and orders until it is closed."""

    def __init__(self) -> None:
        self.items: list[str] = []
        self.seen: list[str] = []
        self.closed = False

    @workflow.run
    async def run(self) -> list[str]:
        await workflow.wait_until(lambda: self.closed)
        return self.items

    @workflow.signal
    def close(self) -> None:
        self.closed = True

    @workflow.signal
    def note(self, text: str) -> None:
        self.seen.append(text)

    @workflow.update
    def add(self, item: str, count: int = 1) -> int:
        self.items += [item] * count
        return len(self.items)

    @add.validator
    def _check(self, item: str, count: int = 1) -> None:
        VALIDATED.append(item)
        if item == "nothing":
            raise OutOfStockError("there is none")
        if item == "timer":
            asyncio.get_running_loop().call_later(1, print)
        if item == "chance":
            workflow.random()
        if item == "version":
            workflow.patched("x")
        if item == "file":
            with suppress(NondeterminismError):
                Path(__file__).read_bytes()

    @workflow.update
    async def order(self, gate: str) -> str:
        self.items.append(f"ordering {gate}")
        found = await pass_gate(gate)
        await asyncio.sleep(0.001)
        self.items.append(found)
        return found

    @workflow.update
    async def fail(self, kind: str) -> None:
        if kind == "plain":
            raise OutOfStockError("gone")
        if kind == "continue":
            workflow.continue_as_new()
        if kind == "cancel":
            raise asyncio.CancelledError
        raise ApplicationError("no", type="Mine", details=[1])

    @workflow.update(name="when")
    def moment(self) -> tuple[float, int]:
        return workflow.time(), workflow.info().history_length

    @workflow.update
    def shut(self) -> str:
        self.closed = True
        return "closing"


@pytest.fixture(autouse=True)
def fresh() -> None:
    GATES.clear()
    VALIDATED.clear()


async def test_an_update_is_judged_carried_out_and_answered(any_house: Any, t: Any) -> None:
    """By call, by handler and by name; with hints and defaults; sync and async."""
    async with any_house(Shop, pass_gate) as app:
        handle = await app.client.start(Shop.run(), id="a")
        assert await handle.update(Shop.add("pen", count=2)) == 2
        assert await handle.update(Shop.order, "x") == "passed x"
        assert await handle.update("add", "ink") == 5
        when, length = await handle.update(Shop.moment())
        assert (when > 1e9, length > 1) == (True, True)
        await handle.signal(Shop.close())
        assert await handle.result() == ["pen", "pen", "ordering x", "passed x", "ink"]
        types = await t.types(handle)
        assert (types.count("update_accepted"), types.count("update_completed")) == (4, 4)
        ended = [entry for entry in await handle.history() if entry.type == "update_completed"]
        assert {entry.command for entry in ended} == {e.id for e in await handle.history() if e.type == "update_accepted"}


async def test_a_refused_update_leaves_no_trace(any_house: Any, t: Any) -> None:
    """The validator's own exception reaches the client; nothing is recorded, no commit is made; the run goes on."""
    async with any_house(Shop) as app:
        handle = await app.client.start(Shop.run(), id="a")
        await t.decided(app, handle)
        before = app.frontend.committer.transitions
        with pytest.raises(OutOfStockError, match="there is none"):
            await handle.update(Shop.add("nothing"))
        assert VALIDATED == ["nothing"]
        with pytest.raises(InvalidArgument, match=r"no update 'sell'.*'add', 'fail', 'order', 'shut', 'when'"):
            await handle.update("sell", 1)
        with pytest.raises(InvalidArgument, match="item"):
            await handle.update("add", {"no": "text"})
        assert app.frontend.committer.transitions == before
        assert await handle.update(Shop.add("pen")) == 1


@pytest.mark.parametrize("item", ["timer", "chance", "version", "file"])
async def test_a_validator_may_only_look(any_house: Any, t: Any, item: str) -> None:
    """What asks for something or draws chance is refused as nondeterminism; the run is not harmed."""
    async with any_house(Shop) as app:
        handle = await app.client.start(Shop.run(), id="a")
        with pytest.raises(NondeterminismError, match="open" if item == "file" else "validator"):
            await handle.update(Shop.add(item))
        assert await handle.update(Shop.add("pen")) == 1
        assert "version_marked" not in await t.types(handle)
        assert (await handle.describe()).status == "running"


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("plain", OutOfStockError),
        ("other", ApplicationError),
        ("continue", InvalidArgument),
        ("cancel", ApplicationError),
    ],
)
async def test_what_a_handler_raises_fails_the_update_alone(
    any_house: Any, t: Any, kind: str, error: type[BaseException]
) -> None:
    """The client gets it as its own class, also when it asks again; the run goes on."""
    async with any_house(Shop) as app:
        handle = await app.client.start(Shop.run(), id="a")
        for _ in range(2):
            with pytest.raises(error):
                await handle.update(Shop.fail(kind), update_id="u")
        assert (await t.types(handle)).count("update_failed") == 1
        assert await handle.update(Shop.add("pen")) == 1


async def test_a_handler_that_breaks_determinism_quarantines_its_run(any_house: Any, t: Any) -> None:
    """As main would; nothing of the update is recorded, and it waits for a build that is mended."""
    async with any_house(Reader) as app:
        handle = await app.client.start(Reader.run(), id="a")
        waiting = await sent(handle, Reader.read())
        described = await t.status(app, handle, "quarantined")
        assert any("open" in item.state for item in described.pending)
        assert "update_accepted" not in await t.types(handle)
        assert not waiting.done()
        await handle.terminate("enough")
        with pytest.raises(Unavailable):
            await waiting


@workflow
class Reader:
    @workflow.run
    async def run(self) -> None:
        await workflow.wait_until(lambda: False)

    @workflow.update
    def read(self) -> str:
        return Path(__file__).read_text()


async def test_the_same_update_id_is_carried_out_once(any_house: Any) -> None:
    """At the same time, afterwards, after a restart, and when the run is closed: one execution, one answer."""
    async with any_house(Shop, pass_gate) as app:
        handle = await app.client.start(Shop.run(), id="a")
        answers = await asyncio.gather(*[handle.update(Shop.add("pen"), update_id="u") for _ in range(5)])
        assert answers == [1] * 5
        assert await handle.update(Shop.add("ink"), update_id="u") == 1
    async with any_house(Shop, pass_gate) as app:
        handle = app.client.handle("a")
        assert await handle.update(Shop.add("pen"), update_id="u") == 1
        assert await handle.update(Shop.add("ink")) == 2
        await handle.signal(Shop.close())
        await handle.result()
        assert await handle.update(Shop.add("pen"), update_id="u") == 1
        with pytest.raises(WorkflowClosed):
            await handle.update(Shop.add("pen"))
    async with any_house(Shop, pass_gate) as app:
        assert await app.client.handle("a").update(Shop.add("pen"), update_id="u") == 1


async def test_start_update_returns_once_it_is_accepted(any_house: Any, t: Any) -> None:
    """The answer comes later; giving up the wait changes nothing."""
    GATES["x"] = asyncio.Event()
    async with any_house(Shop, pass_gate) as app:
        handle = await app.client.start(Shop.run(), id="a")
        update = await handle.start_update(Shop.order("x"), update_id="u")
        assert (update.id, update.workflow_id, update.run_id) == ("u", "a", handle.run_id)
        assert "update_accepted" in await t.types(handle)
        assert any(item.kind == "update" and item.name == "u" for item in (await handle.describe()).pending)
        with pytest.raises(TimeoutError, match="it goes on"):
            await update.result(timeout=0.01)
        assert await handle.update(Shop.add("pen")) == 2
        again = await handle.start_update(Shop.order("x"), update_id="u")
        GATES["x"].set()
        assert await update.result() == await again.result() == "passed x"
        with pytest.raises(OutOfStockError):
            await handle.start_update(Shop.add("nothing"))


async def test_a_crash_between_acceptance_and_end_resumes(any_house: Any, t: Any) -> None:
    """The handler goes on where its history ends; the validator is not asked again; whoever asks again gets the answer."""
    GATES["x"] = asyncio.Event()
    async with any_house(Shop, pass_gate, grace=0) as app:
        handle = await app.client.start(Shop.run(), id="a")
        waiting = asyncio.create_task(handle.update(Shop.order("x"), update_id="u"))
        await t.recorded(app, handle, "update_accepted")
        await t.recorded(app, handle, "activity_scheduled")
        assert await handle.update(Shop.add("pen")) == 2
    with pytest.raises(Unavailable):
        await waiting
    GATES["x"].set()
    VALIDATED.clear()
    async with any_house(Shop, pass_gate) as app:
        handle = app.client.handle("a")
        assert await handle.update(Shop.order("x"), update_id="u") == "passed x"
        assert VALIDATED == []
        await handle.signal(Shop.close())
        assert await handle.result() == ["ordering x", "pen", "passed x"]


async def test_an_update_without_a_worker_waits(any_house: Any) -> None:
    """It is neither lost nor refused while the node lives; a worker that comes takes it."""
    async with any_house() as app:
        handle = await app.client.start("Shop", id="a")
        waiting = asyncio.create_task(handle.update("add", "pen", update_id="u"))
        twice = asyncio.create_task(handle.update("add", "pen", update_id="u"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await handle.update("add", "pen", update_id="u")
        app.register(Shop)
        assert (await waiting, await twice) == (1, 1)


async def test_describe_shows_updates_that_wait(house: Any) -> None:
    """How many, and which for longest."""
    async with house() as app:
        handle = await app.client.start("Shop", id="a")
        waiting = [await sent(handle, "add", "pen"), await sent(handle, "order", "x")]
        (item,) = [item for item in (await handle.describe()).pending if item.kind == "update"]
        assert (item.name, item.state) == ("add", "2 waiting for the run's code, this one for longest")
        app.register(Shop, pass_gate)
        await asyncio.gather(*waiting)
        assert not [item for item in (await handle.describe()).pending if item.kind == "update"]


@workflow(retry=Retry(max_attempts=2, initial=0.05, jitter=0))
class Stubborn:
    """Fails once, then answers."""

    def __init__(self) -> None:
        self.asked = False

    @workflow.run
    async def run(self) -> int:
        if workflow.info().attempt == 1:
            await pass_gate("first")
            raise OutOfStockError("once")
        await workflow.wait_until(lambda: self.asked)
        return workflow.info().attempt

    @workflow.update
    def ask(self) -> int:
        self.asked = True
        return workflow.info().attempt

    @workflow.update
    async def stay(self) -> None:
        await workflow.wait_until(lambda: False)


@pytest.mark.scenario(31)
async def test_updates_outlive_a_failed_attempt_of_the_run(any_house: Any) -> None:
    """One whose handler runs is cut off; one that comes while the next attempt waits for its time is taken by that."""
    GATES["first"] = asyncio.Event()
    async with any_house(Stubborn, pass_gate) as app:
        handle = await app.client.start(Stubborn.run(), id="a")
        cut = await handle.start_update(Stubborn.stay())
        GATES["first"].set()
        with pytest.raises(Unavailable):
            await cut.result()
        assert await handle.update(Stubborn.ask()) == 2
        assert await handle.result() == 2


async def test_a_stopping_node_tells_whoever_waits(any_house: Any) -> None:
    """`Unavailable`: the same id may be sent to the next one."""
    async with any_house() as app:
        handle = await app.client.start("Shop", id="a")
        waiting = asyncio.create_task(handle.update("add", "pen", update_id="u"))
        await asyncio.sleep(0)
    with pytest.raises(Unavailable):
        await waiting


@pytest.mark.scenario(31)
async def test_a_run_that_ends_first_says_so(any_house: Any) -> None:
    """A handler that runs when main returns ends there: a retryable error, and then the run is closed."""
    GATES["x"] = asyncio.Event()
    async with any_house(Shop, pass_gate) as app:
        handle = await app.client.start(Shop.run(), id="a")
        update = await handle.start_update(Shop.order("x"), update_id="u")
        assert await handle.update(Shop.shut()) == "closing"
        await handle.result()
        GATES["x"].set()
        with pytest.raises(Unavailable, match="ended before"):
            await update.result()
        with pytest.raises(WorkflowClosed):
            await handle.update(Shop.order("x"), update_id="u")


@workflow
class Relay:
    """Continues as new whenever it is told to."""

    def __init__(self) -> None:
        self.next = False
        self.got: list[str] = []

    @workflow.run
    async def run(self, generation: int) -> list[str]:
        await workflow.wait_until(lambda: self.next or (generation == 3 and bool(self.got)))
        if generation < 3:
            await pass_gate(f"end {generation}")
            workflow.continue_as_new(generation + 1)
        return self.got

    @workflow.update
    def say(self, text: str) -> str:
        self.got.append(text)
        return text

    @workflow.update
    async def stay(self, gate: str) -> str:
        return await pass_gate(gate)

    @workflow.signal
    def go(self) -> None:
        self.next = True


@pytest.mark.scenario(31)
@pytest.mark.scenario(32)
async def test_updates_outlive_a_continuation(any_house: Any) -> None:
    """One that has ended keeps its answer; one whose handler runs is cut and may be sent again, and the successor carries it out."""
    GATES["x"] = asyncio.Event()
    async with any_house(Relay, pass_gate) as app:
        handle = await app.client.start(Relay.run(2), id="a")
        assert await handle.update(Relay.say("one"), update_id="one") == "one"
        cut = await handle.start_update(Relay.stay("x"), update_id="x")
        await handle.signal(Relay.go())
        with pytest.raises(Unavailable):
            await cut.result()
        GATES["x"].set()
        assert await handle.update(Relay.stay("x"), update_id="x") == "passed x"
        assert await handle.update(Relay.say("again"), update_id="one") == "one"
        assert await handle.update(Relay.say("two")) == "two"
        assert await handle.result() == ["two"]


async def test_a_reset_carries_out_again_what_was_accepted_behind_its_point(any_house: Any, t: Any) -> None:
    """Without asking the validator, and under the same ids; what was accepted before the point stays as it is."""
    GATES["x"] = asyncio.Event()
    async with any_house(Shop, pass_gate) as app:
        handle = await app.client.start(Shop.run(), id="a")
        assert await handle.update(Shop.add("pen"), update_id="u1") == 1
        point = (await handle.history())[-1].id
        assert await handle.update(Shop.add("ink"), update_id="u2") == 2
        cut = await handle.start_update(Shop.order("x"), update_id="u3")
        VALIDATED.clear()
        await app.client.handle("a").reset(point, "try again")
        with pytest.raises(Unavailable):
            await cut.result()
        GATES["x"].set()
        again = app.client.handle("a")
        assert await again.update(Shop.order("x"), update_id="u3") == "passed x"
        assert await again.update(Shop.add("ink"), update_id="u2") == 2
        assert await again.update(Shop.add("pen"), update_id="u1") == 1
        assert VALIDATED == []
        assert await again.update(Shop.add("new")) == 5
        await again.signal(Shop.close())
        assert await again.result() == ["pen", "ink", "ordering x", "passed x", "new"]
        accepted = [entry.update_id for entry in await again.history() if entry.type == "update_accepted"]
        assert accepted[:3] == ["u1", "u2", "u3"]


async def test_what_a_reset_owes_survives_a_restart(any_house: Any) -> None:
    """Nobody takes it before the node stops: it is owed by the history, not by memory."""
    async with any_house(Shop, replays=False) as app:
        handle = await app.client.start(Shop.run(), id="a")
        assert await handle.update(Shop.add("pen"), update_id="u1") == 1
        await handle.pause()
        await app.client.handle("a").reset(1, "from the start")
        assert (await app.client.handle("a").describe()).status == "paused"
    async with any_house(Shop) as app:
        handle = app.client.handle("a")
        waiting = await sent(handle, Shop.add("pen"), update_id="u1")
        await handle.resume()
        assert await waiting == 1
        assert await handle.update(Shop.add("ink")) == 2


# ----------------------------------------------------------------------------------------- what a worker may do, told by hand


async def claimed(app: Any, workflow_id: str, **fields: Any) -> Any:
    """A workflow claim taken by nobody's worker."""
    description = await app.client.handle(workflow_id).describe()
    head = {"workflow_id": workflow_id, "run_id": description.run_id, "worker": "hand", "build_id": "b"}
    return await app.frontend.call(ClaimWorkflow(**head, **{"token": "t", **fields}))


async def reported(app: Any, claim: Any, *commands: Any, **fields: Any) -> Any:
    head = {"workflow_id": "a", "run_id": claim.started.run_id, "worker": "hand", "build_id": "b", "token": claim.token}
    head |= {"based_on": claim.length, "decided": claim.decided, "nonce": "n", **fields}
    return await app.frontend.call(Report(steps=(Commands(commands=commands),), **head))


def accept(update_id: str, text: str) -> cm.AcceptUpdate:
    return cm.AcceptUpdate(at=1, name="say", update_id=update_id, fed_at=1, input=(Raw(b'"%b"' % text.encode()),))


async def sent(handle: Any, *args: Any, **options: Any) -> "asyncio.Task[Any]":
    """An update on its way, taken by the engine."""
    task = asyncio.create_task(handle.update(*args, **options))
    await asyncio.sleep(0)
    return task


@pytest.mark.scenario(31)
async def test_waiting_updates_are_offered_to_the_successor(house: Any) -> None:
    """Nobody has taken them: they stay in the owner's memory while the run continues as new."""
    async with house(replays=False) as app:
        handle = await app.client.start("Relay", 1, id="a")
        claim = await claimed(app, "a")
        waiting = await sent(handle, "say", "two", update_id="u")
        pinned = await sent(app.client.handle("a", handle.run_id), "say", "no", update_id="p")
        closing = cm.ContinueAsNew(at=1, input=(Raw(b"3"),))
        reply = await reported(app, claim, closing=closing, next_run_id="next", next_seed=1)
        assert reply.closed
        with pytest.raises(Unavailable):  # it was meant for that run alone
            await pinned
        app.register(Relay)
        assert await waiting == "two"
        assert await handle.result() == ["two"]


@pytest.mark.scenario(31)
async def test_waiting_updates_of_a_run_that_ends_are_told(house: Any) -> None:
    """A retryable error; the next one hears that the run is closed. Another run under the same id gets nothing of them."""
    async with house(replays=False) as app:
        handle = await app.client.start("Relay", 1, id="a")
        claim = await claimed(app, "a")
        waiting = await sent(handle, "say", "two", update_id="u")
        assert (await reported(app, claim, closing=cm.CompleteWorkflow(at=1))).closed
        with pytest.raises(Unavailable, match="ended before it had taken"):
            await waiting
        with pytest.raises(WorkflowClosed):
            await handle.update("say", "two", update_id="u")
        await app.client.start("Relay", 1, id="a")
        waiting = await sent(app.client.handle("a"), "say", "three")
        await app.client.start("Relay", 3, id="a", on_conflict="terminate")
        with pytest.raises(Unavailable):
            await waiting
        app.register(Relay)
        assert await app.client.handle("a").update("say", "four") == "four"


async def test_what_a_reset_owes_passes_to_the_successor_over_a_restart(house: Any) -> None:
    """The node ends between the continue-as-new and the taking: nobody sends the acknowledged update again, and it is carried out."""
    async with house(replays=False) as app:
        handle = await app.client.start("Relay", 1, id="a")
        waiting = await sent(handle, "say", "two", update_id="u")
        end = cm.CompleteUpdate(at=1, update_id="u", target=-1, result=Raw(b'"two"'))
        assert (await reported(app, await claimed(app, "a"), accept("u", "two"), end)).accepted
        assert await waiting == "two"
        await app.client.handle("a").reset(1, "from the start")
        closing = cm.ContinueAsNew(at=2, input=(Raw(b"3"),))
        claim = await claimed(app, "a", token="t2")
        assert (await reported(app, claim, closing=closing, next_run_id="next", next_seed=1, nonce="n2")).closed
    async with house(Relay, replays=False) as app:
        assert await app.client.handle("a").result() == ["two"]


async def test_a_paused_run_takes_updates_when_it_goes_on(any_house: Any) -> None:
    """What comes meanwhile waits."""
    async with any_house(Relay, pass_gate) as app:
        handle = await app.client.start(Relay.run(3), id="a")
        await handle.pause()
        waiting = await sent(handle, Relay.say("x"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await asyncio.shield(waiting)
        await handle.resume()
        assert await waiting == "x"


async def test_an_update_whose_decision_was_dropped_is_offered_again(house: Any) -> None:
    """Another worker decided meanwhile: nothing of the first is kept, and its update is taken by the other."""
    async with house(replays=False) as app:
        handle = await app.client.start("Relay", 3, id="a")
        waiting = await sent(handle, "say", "x", update_id="u")
        first = await claimed(app, "a")
        assert [update.update_id for update in first.updates] == ["u"]
        await app.frontend.call(ReleaseWorkflow(workflow_id="a", run_id=handle.run_id, token="t", build_id="b", why="draining"))
        second = await claimed(app, "a", token="t2")
        assert [update.update_id for update in second.updates] == ["u"]
        assert not (await reported(app, first, accept("u", "x"))).accepted
        assert not waiting.done()
        assert (await reported(app, second, accept("u", "x"))).accepted
        end = cm.CompleteUpdate(at=1, update_id="u", target=2, result=Raw(b'"done"'))
        await handle.signal("go")
        again = await claimed(app, "a", token="t4")
        assert (await reported(app, again, end)).accepted
        assert await waiting == "done"


async def test_an_update_is_acknowledged_only_when_it_is_durable(house: Any) -> None:
    """While the commit is under way nobody has heard; when it fails, everybody hears that it may be sent again."""
    async with house(replays=False, memory=True) as app:
        handle = await app.client.start("Relay", 3, id="a")
        claim = await claimed(app, "a")
        waiting = await sent(handle, "say", "x", update_id="u")
        store: Any = app.store
        commit, gate = store.commit, asyncio.Event()

        async def held(lease: Any, batch: Any) -> Any:
            await gate.wait()
            return await commit(lease, batch)

        store.commit = held
        report = asyncio.create_task(reported(app, claim, accept("u", "x"), cm.CompleteUpdate(at=1, update_id="u", target=-1)))
        for _ in range(20):
            await asyncio.sleep(0)
        twin = await sent(handle, "say", "x", update_id="u")
        assert not waiting.done()
        assert not twin.done()
        gate.set()
        assert (await report).accepted
        assert await waiting is None
        assert await twin is None


async def test_a_write_that_fails_takes_its_updates_with_it(house: Any) -> None:
    """The disk is full: whoever waits hears `Unavailable`, and the same id is carried out once when there is room again."""
    async with house(Relay, replays=False, memory=True) as app:
        handle = await app.client.start(Relay.run(3), id="a")
        store: Any = app.store
        commit = store.commit
        full = True

        async def refusing(lease: Any, batch: Any) -> Any:
            if full:
                raise DiskFull("no room")
            return await commit(lease, batch)

        store.commit = refusing
        with pytest.raises((Unavailable, ResourceExhausted)):
            await handle.update(Relay.say("x"), update_id="u")
        full = False
        assert await handle.update(Relay.say("x"), update_id="u") == "x"
        assert await handle.result() == ["x"]


@pytest.mark.scenario(18)
@pytest.mark.scenario(19)
@pytest.mark.scenario(23)
async def test_updates_keep_their_place_among_signals_and_results(any_house: Any, t: Any) -> None:
    """A crowd of all three at once: every answer fits the order of the history, which replays warm and cold."""
    async with any_house(Shop, pass_gate) as app:
        handle = await app.client.start(Shop.run(), id="a")
        sent = []
        for n in range(15):
            sent.append(handle.update(Shop.add(f"i{n}"), update_id=f"i{n}"))
            sent.append(handle.update(Shop.order(f"g{n}"), update_id=f"g{n}"))
            sent.append(handle.signal(Shop.note(f"n{n}")))
        found = await asyncio.gather(*sent)
        assert {answer for answer in found if isinstance(answer, str)} == {f"passed g{n}" for n in range(15)}
        accepted = [e.update_id for e in await handle.history() if e.type == "update_accepted" and e.update_id[0] == "i"]
        assert accepted == [f"i{n}" for n in range(15)]
        await handle.signal(Shop.close())
        items = await handle.result()
        assert len(items) == 45


async def test_steady_signals_do_not_starve_an_update(any_house: Any) -> None:
    """They follow the fence: a signal that arrives while a decision is on its way is simply later."""
    async with any_house(Shop) as app:
        handle = await app.client.start(Shop.run(), id="a")
        stop = asyncio.Event()

        async def steady() -> None:
            while not stop.is_set():
                await handle.signal(Shop.note("x"))

        senders = [asyncio.create_task(steady()) for _ in range(4)]
        try:
            for n in range(5):
                assert await handle.update(Shop.add("pen")) == n + 1
        finally:
            stop.set()
            await asyncio.gather(*senders)


@workflow
class Patient:
    """A change guarded in an update handler."""

    def __init__(self) -> None:
        self.done = False

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_until(lambda: self.done)

    @workflow.update
    async def ask(self) -> bool:
        new = workflow.patched("new way")
        await asyncio.sleep(0.001)
        return new

    @workflow.signal
    def finish(self) -> None:
        self.done = True


async def test_a_fresh_update_takes_the_new_path(any_house: Any, t: Any) -> None:
    """It belongs to no accepted decision, although the input before it does."""
    async with any_house(Patient) as app:
        handle = await app.client.start(Patient.run(), id="a")
        await t.decided(app, handle)
        assert await handle.update(Patient.ask()) is True
        assert await handle.update(Patient.ask()) is True
        assert (await t.types(handle)).count("version_marked") == 1
        await handle.signal(Patient.finish())
        await handle.result()


async def test_too_many_callers_of_one_waiting_update_are_refused(house: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who gives up waiting cannot be told from who waits: a client that asks again for days must not fill the memory."""
    monkeypatch.setattr("perdure.engine.updates.ANSWERED_MAX", 3)
    async with house() as app:
        handle = await app.client.start("Shop", id="a")
        waiting = [await sent(handle, "add", "pen", update_id="u") for _ in range(3)]
        with pytest.raises(ResourceExhausted, match="answered_max"):
            await handle.update("add", "pen", update_id="u")
        app.register(Shop)
        assert await asyncio.gather(*waiting) == [1, 1, 1]


async def test_too_many_waiting_updates_are_refused_by_name(house: Any) -> None:
    """The limit, its value and its setting; what waits is not touched."""
    async with house(limits=Limits(updates_waiting_max=2)) as app:
        handle = await app.client.start("Shop", id="a")
        waiting = [asyncio.create_task(handle.update("add", "pen", update_id=f"u{n}")) for n in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(ResourceExhausted, match=r"updates_waiting_max.*2"):
            await handle.update("add", "pen")
        app.register(Shop)
        assert sorted(await asyncio.gather(*waiting)) == [1, 2]
