"""Queries: answered from what is committed, by whoever has the code, without leaving a trace."""

import asyncio
import random
import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest

import perdure
from perdure import Limits, Worker, activity, workflow
from perdure.core import events as ev
from perdure.core.tasks import Task
from perdure.errors import (
    ApplicationError,
    InvalidArgument,
    NondeterminismError,
    NotFound,
    PayloadTooLarge,
    ResourceExhausted,
    Unavailable,
)

GATES: dict[str, asyncio.Event] = {}
BUILD: dict[str, Any] = {"extra": False, "change": False}


class Odd(Exception):
    """Of this test's own."""

    def __init__(self, message: str, size: int = 0) -> None:
        super().__init__(message)
        self.size = size


@activity
async def step(n: int) -> int:
    return n


@activity
async def gated(name: str) -> str:
    await GATES[name].wait()
    return name


@workflow
class Cart:
    def __init__(self) -> None:
        self.items: list[str] = []
        self.stage = "new"
        self.event = asyncio.Event()
        self.random = workflow.random()

    @workflow.run
    async def run(self, gate: str = "") -> list[str]:
        self.stage = "running"
        if gate:
            self.stage = await gated(gate)
        await workflow.receive("end")
        await step(1)
        self.stage = "over"
        return self.items

    @workflow.signal
    def add(self, item: str) -> None:
        self.items.append(item)

    @workflow.signal
    async def add_slowly(self, item: str) -> None:
        await step(2)
        self.items.append(item)

    @workflow.query
    def contents(self, first: int = 0, *, loud: bool = False) -> tuple[str, ...]:
        return tuple(item.upper() if loud else item for item in self.items[first:])

    @workflow.query(name="stage")
    def now_at(self) -> str:
        return self.stage

    @workflow.query
    def clock(self) -> tuple[float, int]:
        return workflow.time(), workflow.info().history_length

    @workflow.query
    def odd(self, message: str) -> None:
        raise Odd(message, size=3)

    @workflow.query
    def big(self) -> str:
        return "x" * 3_000_000

    @workflow.query
    def naughty(self, what: str) -> Any:
        match what:
            case "draw":
                return workflow.random().random()
            case "draw own":
                return self.random.random()
            case "random":
                return random.random()
            case "uuid":
                return str(uuid.uuid4())
            case "version":
                return workflow.version("change", 0, 1)
            case "side effect":
                return workflow.side_effect(lambda: 1)
            case "details":
                workflow.set_details("looked at")
            case "task":
                return str(asyncio.create_task(asyncio.sleep(1)))
            case "wake":
                self.event.set()
            case "continue":
                workflow.continue_as_new()
            case "file":
                return Path(__file__).read_text()
            case "file caught":
                try:
                    return Path(__file__).read_text()
                except NondeterminismError:
                    return "caught"
            case "cancelled":
                raise asyncio.CancelledError("no")
            case "exit":
                raise SystemExit(3)
        return None


@workflow
class Waits:
    """Has somebody waiting for the event a query must not set."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    @workflow.run
    async def run(self) -> str:
        await self.event.wait()
        return "woken"

    @workflow.signal
    def wake(self) -> None:
        self.event.set()

    @workflow.query
    def meddle(self) -> None:
        self.event.set()

    @workflow.query
    def is_set(self) -> bool:
        return self.event.is_set()


@workflow
class Turns:
    """Continues as new at each turn; carries what came with it."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.round = 0

    @workflow.run  # noqa: RET503 – continue_as_new never returns
    async def run(self, round: int) -> int:
        self.round = round
        await workflow.receive("turn")
        if round == 2:
            return round
        workflow.continue_as_new(round + 1)

    @workflow.query
    def at(self) -> int:
        return self.round


@workflow
class Changes:
    @workflow.run
    async def run(self) -> str:
        if BUILD["extra"]:
            await asyncio.sleep(7)
        if BUILD["change"]:
            workflow.patched("better")
        await step(1)
        await workflow.receive("end")
        return "x"

    @workflow.query
    def hello(self) -> str:
        return "hello"


@workflow
class Board:
    def __init__(self) -> None:
        self.numbers: list[int] = []

    @workflow.run
    async def run(self) -> None:
        await workflow.receive("end")

    @workflow.update
    def put(self, n: int) -> None:
        self.numbers.append(n)

    @workflow.query
    def last(self) -> int:
        return self.numbers[-1]


@workflow
async def without_handlers() -> None:
    await workflow.receive("end")


@workflow
class Forgetful:
    """What it is told last it asks for first: its handlers run in tasks while main decides."""

    def __init__(self) -> None:
        self.count = 0

    @workflow.run
    async def run(self, until: int) -> int:
        while self.count < until:
            await workflow.wait_until(lambda: self.count % 5 == 0)
            await step(self.count)
            await workflow.receive("more")
        return self.count

    @workflow.signal
    async def tick(self) -> None:
        await step(0)
        self.count += 1

    @workflow.query
    def counted(self) -> int:
        return self.count


async def recorded(app: Any, handle: Any) -> bytes:
    record = await app.frontend.record("default", handle.id)
    return msgspec.json.encode(record)


async def test_calls_methods_and_names(any_house) -> None:
    """`Cart.contents(1)`, `Cart.contents, 1` and `"contents", 1`; results read by their hint where the handler is known."""
    async with any_house(Cart, step) as app:
        handle = await app.client.start(Cart.run(), id="cart")
        for item in ("a", "b", "c"):
            await handle.signal(Cart.add(item))
        assert await handle.query(Cart.contents(1, loud=True)) == ("B", "C")
        assert await handle.query(Cart.contents, 2) == ("c",)
        assert await handle.query(Cart.contents) == ("a", "b", "c")
        assert await handle.query("contents", 1) == ("b", "c")
        assert await app.client.handle("cart").query("contents", 1) == ["b", "c"]
        assert await handle.query("stage") == "running"


async def test_an_acknowledged_signal_is_seen(any_house) -> None:
    """Signal, then ask at once, again and again, from several sides: never an answer without it."""
    async with any_house(Cart, step) as app:
        handle = await app.client.start(Cart.run(), id="cart")

        async def shop(who: str) -> None:
            for n in range(15):
                item = f"{who}{n}"
                await handle.signal(Cart.add(item))
                assert item in await handle.query(Cart.contents())

        await asyncio.gather(*(shop(who) for who in "abcd"))


async def test_a_query_leaves_no_trace(any_house, t) -> None:
    """History, notes and state are byte for byte what they were, whatever was asked and however it ended."""
    async with any_house(Cart, step) as app:
        handle = await app.client.start(Cart.run(), id="cart")
        await handle.signal(Cart.add("a"))
        await t.decided(app, handle)
        await handle.query(Cart.contents())
        before = await recorded(app, handle), msgspec.json.encode(app.frontend.find("default", "cart").state)
        for _ in range(3):
            assert await handle.query(Cart.contents()) == ("a",)
            with pytest.raises(Odd):
                await handle.query(Cart.odd("x"))
            with pytest.raises(NondeterminismError):
                await handle.query(Cart.naughty("details"))
            with pytest.raises(NotFound):
                await handle.query("nothing")
        assert await handle.query(Cart.clock) == await handle.query(Cart.clock)
        assert (await recorded(app, handle), msgspec.json.encode(app.frontend.find("default", "cart").state)) == before


REFUSED = ["draw", "draw own", "random", "uuid", "version", "side effect", "details", "task", "continue", "file", "file caught"]


@pytest.mark.parametrize("what", REFUSED)
async def test_a_query_only_looks(house, what) -> None:
    """Anything that would be asked of the run is refused, naming a query, and the run goes on as if nobody had asked."""
    async with house(Cart, step) as app:
        handle = await app.client.start(Cart.run())
        await handle.signal(Cart.add("a"))
        with pytest.raises(NondeterminismError):
            await handle.query(Cart.naughty(what))
        await handle.signal(Cart.add("b"))
        assert await handle.query(Cart.contents()) == ("a", "b")
        await handle.signal("end")
        assert await handle.result() == ["a", "b"]


async def test_a_query_that_wakes_somebody_spoils_only_its_own_copy(house) -> None:
    """The waiter it half woke is rebuilt by replay: the run waits as before, and wakes for the real thing."""
    async with house(Waits) as app:
        handle = await app.client.start(Waits.run())
        with pytest.raises(NondeterminismError, match="not allowed in a query"):
            await handle.query(Waits.meddle())
        assert await handle.query(Waits.is_set()) is False
        await handle.signal(Waits.wake())
        assert await handle.result() == "woken"


async def test_what_the_handler_raises_is_raised_here(any_house) -> None:
    """As its own class with its fields; what would end the caller comes as an ApplicationError; misfits say what does not fit."""
    async with any_house(Cart, step) as app:
        handle = await app.client.start(Cart.run())
        with pytest.raises(Odd, match="strange") as odd:
            await handle.query(Cart.odd("strange"))
        assert odd.value.size == 3
        for what, name in (("cancelled", "CancelledError"), ("exit", "SystemExit")):
            with pytest.raises(ApplicationError) as ended:
                await handle.query(Cart.naughty(what))
            assert ended.value.type == name
        with pytest.raises(PayloadTooLarge):
            await handle.query(Cart.big())
        with pytest.raises(InvalidArgument, match=r"query contents\(first\)"):
            await handle.query("contents", "zero")
        with pytest.raises(InvalidArgument, match="arguments that do not fit"):
            await handle.query("contents", 1, 2, 3)
        with pytest.raises(TypeError):
            await handle.query(Cart.odd())  # type: ignore[call-arg]


async def test_unknown_names_and_runs(any_house) -> None:
    """A query there is not names those there are; a workflow function has none; a run there is not is no run."""
    async with any_house(Cart, without_handlers, step) as app:
        handle = await app.client.start(Cart.run(), id="cart")
        with pytest.raises(NotFound, match="has no query 'size'; it has: big, clock, contents, naughty, odd, stage"):
            await handle.query("size")
        plain = await app.client.start(without_handlers())
        with pytest.raises(NotFound, match="it has: none"):
            await plain.query("size")
        with pytest.raises(NotFound):
            await app.client.handle("nobody").query("size")
        with pytest.raises(NotFound):
            await app.client.handle("cart", "no-such-run").query(Cart.contents())
        with pytest.raises(InvalidArgument, match="query name"):
            await handle.query("")
        with pytest.raises(InvalidArgument, match="expected a query call"):
            await handle.query(Cart.add("x"))  # type: ignore[call-overload]


async def test_closed_runs_answer_while_kept(any_house, t) -> None:
    """By replay of their whole history, also after a restart of the node."""
    async with any_house(Cart, step) as app:
        handle = await app.client.start(Cart.run(), id="cart")
        await handle.signal(Cart.add("a"))
        await handle.signal("end")
        await handle.result()
        assert await handle.query("stage") == "over"
        stopped = await app.client.start(Cart.run(), id="stopped")
        await stopped.signal(Cart.add("b"))
        await t.decided(app, stopped)
        await stopped.terminate()
        assert await stopped.query(Cart.contents()) == ("b",)
    async with any_house(Cart, step) as app:
        assert await app.client.handle("cart").query(Cart.contents()) == ("a",)
        assert await app.client.handle("stopped").query("stage") == "running"


async def test_each_run_of_a_chain_answers_for_itself(any_house, t) -> None:
    """A handle follows the current run; one with a run id asks that run, closed or not."""
    async with any_house(Turns) as app:
        handle = await app.client.start(Turns.run(0), id="turns")
        first = handle.run_id
        assert await handle.query(Turns.at()) == 0
        await handle.signal("turn")
        assert await handle.query(Turns.at()) == 1
        await handle.signal("turn")
        assert await handle.query(Turns.at()) == 2
        assert await app.client.handle("turns", first).query(Turns.at()) == 0
        await handle.signal("turn")
        assert await handle.result() == 2


async def test_queries_while_work_is_under_way(any_house) -> None:
    """An activity runs, signals come: queries are answered meanwhile, each from a state whose commands are committed."""
    GATES["open"] = asyncio.Event()
    async with any_house(Cart, step, gated) as app:
        handle = await app.client.start(Cart.run("open"), id="cart")
        assert await handle.query("stage") == "running"
        await handle.signal(Cart.add_slowly("slow"))
        answers = await asyncio.gather(*(handle.query("stage") for _ in range(20)))
        assert set(answers) == {"running"}
        GATES["open"].set()
        await handle.signal("end")
        await handle.result()
        assert await handle.query(Cart.contents()) == ("slow",)


async def test_a_storm_of_signals_and_queries(any_house) -> None:
    """Two hundred of each across a run that decides all the time: counts never go back, and the run replays."""
    async with any_house(Forgetful, step) as app:
        handle = await app.client.start(Forgetful.run(100), id="forgetful")
        counts: list[int] = []

        async def ask() -> None:
            while len(counts) < 50:
                counts.append(await handle.query(Forgetful.counted()))

        async def tell() -> None:
            for _ in range(100):
                await handle.signal(Forgetful.tick())

        async def more() -> None:
            for _ in range(30):
                await handle.signal("more")

        await asyncio.gather(ask(), tell(), more())
        assert counts == sorted(counts)


async def test_no_worker(house) -> None:
    """Nobody serves the queue: Unavailable when the time is over, naming queue and time; a worker that comes in time answers."""
    async with house(Cart, step) as app:
        handle = await app.client.start(Cart.run(), id="cart", queue="elsewhere")
        with pytest.raises(Unavailable, match=r"no worker of queue 'elsewhere' answered within 0\.05 s"):
            await handle.query("stage", timeout=0.05)
        asked = asyncio.create_task(handle.query("stage", timeout=20))
        async with Worker(app.client, queue="elsewhere", workflows=[Cart], activities=[step]):
            assert await asked == "running"


async def test_a_worker_without_the_code(house) -> None:
    """It passes, and the message says why nobody answered."""
    async with house(Cart, step) as app:
        handle = await app.client.start(Cart.run(), id="cart")
        await handle.signal("end")
        await handle.result()
    async with house(without_handlers) as app:
        with pytest.raises(Unavailable, match="'Cart' is not registered"):
            await app.client.handle("cart").query("stage", timeout=0.05)
        with pytest.raises(InvalidArgument, match="timeout"):
            await app.client.handle("cart").query("stage", timeout=-1)


async def test_a_quarantined_run_is_not_asked(house, t) -> None:
    """It says that it is quarantined and why; a build that reproduces its history makes it answer again."""
    async with house(Changes, step, build_id="one") as app:
        handle = await app.client.start(Changes.run(), id="changes")
        await t.recorded(app, handle, "activity_completed")
        await t.decided(app, handle)
    BUILD["extra"] = True
    async with house(Changes, step, build_id="two", replays=False) as app:
        handle = app.client.handle("changes")
        with pytest.raises(NondeterminismError, match="does not reproduce"):
            await handle.query(Changes.hello())
        await handle.signal("another")
        await t.status(app, handle, "quarantined")
        with pytest.raises(NondeterminismError, match="quarantined and answers no queries"):
            await handle.query(Changes.hello())
    BUILD["extra"] = False
    async with house(Changes, step, build_id="three") as app:
        handle = app.client.handle("changes")
        await t.status(app, handle, "running")
        assert await handle.query(Changes.hello()) == "hello"


async def test_a_query_waits_in_vain_when_the_run_is_quarantined_meanwhile(house, t) -> None:
    """The run breaks on the very input the query waits for: the asker hears so, and not a timeout."""
    async with house(Changes, step, build_id="one") as app:
        handle = await app.client.start(Changes.run(), id="changes")
        await t.recorded(app, handle, "activity_completed")
        await t.decided(app, handle)
    BUILD["extra"] = True
    try:
        async with house(Changes, step, build_id="two", replays=False) as app:
            handle = app.client.handle("changes")
            await handle.signal("another")
            with pytest.raises(NondeterminismError):
                await handle.query(Changes.hello())
    finally:
        BUILD["extra"] = False


async def test_a_lost_pointer_costs_time_only() -> None:
    """The first offers are lost, and one is taken by a worker that never answers: the query is offered again until it is answered."""
    async with perdure.testing.environment() as env:
        env.register(Cart, step)
        handle = await env.client.start(Cart.run())
        assert await handle.query("stage") == "running"
        node: Any = env._node
        lost = 2
        publish, answer = node.broker.publish, node.frontend.queries.answer

        def lose(task: Task) -> bool:
            nonlocal lost
            if task.query and lost > 1:
                lost -= 1
                return False
            return bool(publish(task))

        def mute(given: Any) -> None:
            nonlocal lost
            if lost:
                lost -= 1
            else:
                answer(given)

        node.broker.publish, node.frontend.queries.answer = lose, mute
        before = env.now()
        assert await handle.query("stage") == "running"
        assert 1 < (env.now() - before).total_seconds() < 10
        assert lost == 0


async def test_a_build_older_than_the_run(house, t) -> None:
    """It passes: the run has taken a change it does not know, and the asker hears which."""
    BUILD["change"] = True
    try:
        async with house(Changes, step, build_id="new", replays=False) as app:
            handle = await app.client.start(Changes.run(), id="changes")
            await t.recorded(app, handle, "activity_completed")
            await t.decided(app, handle)
            BUILD["change"] = False
            app.worker.let_go()
            with pytest.raises(Unavailable, match="does not know the change 'better'"):
                await handle.query(Changes.hello(), timeout=0.05)
            BUILD["change"] = True
            assert await handle.query(Changes.hello()) == "hello"
    finally:
        BUILD["change"] = False


async def test_too_many_queries_wait(house) -> None:
    """At the bound the next one is refused with its name; those that wait are not touched."""
    async with house(Cart, step, limits=Limits(queries_waiting_max=3)) as app:
        handle = await app.client.start(Cart.run(), queue="elsewhere")
        waiting = [asyncio.create_task(handle.query("stage", timeout=20)) for _ in range(3)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with pytest.raises(ResourceExhausted, match="queries_waiting_max"):
            await handle.query("stage")
        async with Worker(app.client, queue="elsewhere", workflows=[Cart]):
            assert await asyncio.gather(*waiting) == ["running"] * 3


async def test_the_node_stops_under_a_query(house) -> None:
    """Whoever waits hears that the engine has stopped, and nothing is left behind."""
    async with house(Cart, step, replays=False) as app:
        handle = await app.client.start(Cart.run(), queue="elsewhere")
        waiting = asyncio.create_task(handle.query("stage", timeout=20))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    with pytest.raises(Unavailable, match="stopped"):
        await waiting
    assert not app.frontend.queries.waiting


async def test_a_replayed_run_is_kept_warm(house, t) -> None:
    """After a restart the first query replays the run; what follows is answered from memory and decided from it."""
    async with house(Cart, step) as app:
        handle = await app.client.start(Cart.run(), id="cart")
        await handle.signal(Cart.add("a"))
        await t.decided(app, handle)
    async with house(Cart, step) as app:
        handle = app.client.handle("cart")
        assert app.worker.cached_runs == 0
        assert await handle.query(Cart.contents()) == ("a",)
        assert app.worker.cached_runs == 1
        await handle.signal(Cart.add("b"))
        await handle.signal("end")
        assert await handle.result() == ["a", "b"]
        assert [
            event.type for event in (await app.frontend.record("default", "cart")).events if isinstance(event, ev.Completed)
        ]


async def test_a_paused_run_answers_as_of_what_was_decided(any_house, t) -> None:
    """At once, without what came since; resumed, it sees that too."""
    async with any_house(Cart, step) as app:
        handle = await app.client.start(Cart.run(), id="cart")
        await handle.signal(Cart.add("a"))
        await t.decided(app, handle)
        await handle.pause()
        await handle.signal(Cart.add("b"))
        assert await handle.query(Cart.contents()) == ("a",)
        await handle.resume()
        assert await handle.query(Cart.contents()) == ("a", "b")


async def test_a_paused_run_that_has_decided_nothing_has_no_answer(any_house, t) -> None:
    """Paused before its code began, or reset while paused: there is nothing to speak of, and the asker hears why."""
    async with any_house(Cart, step) as app:
        late = await app.client.start(Cart.run(), id="late", start_delay=3_600)
        await late.pause()
        with pytest.raises(Unavailable, match="paused, and its code has decided nothing yet"):
            await late.query(Cart.contents(), timeout=0.05)
        handle = await app.client.start(Cart.run(), id="cart")
        await handle.signal(Cart.add("a"))
        await t.decided(app, handle)
        await handle.pause()
        await handle.reset(len(await handle.history()), "again")
        again = app.client.handle("cart")
        with pytest.raises(Unavailable, match="paused, and its code has decided nothing yet"):
            await again.query(Cart.contents(), timeout=0.05)
        await again.resume()
        assert await again.query(Cart.contents()) == ("a",)
        await late.terminate("seen")


async def test_an_update_and_a_query_agree(any_house) -> None:
    """Whoever was told that an update is done finds it in the next answer, on whichever worker."""
    async with any_house(Board) as app, Worker(app.client, workflows=[Board]):
        handle = await app.client.start(Board.run(), id="board")
        for n in range(30):
            await handle.update(Board.put(n))
            assert await handle.query(Board.last()) == n
