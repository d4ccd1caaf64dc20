"""Workloads: programs of requests, each with its check at the end. The simulation, chaos and bench run the same ones.

A workload is written against `Stage` alone: a client, a ledger of the outside world, chance and time. It says what must be true of its
runs once they have ended, whatever was done to the engine meanwhile; it never looks at how the engine does it.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, Final, Literal, Protocol, TypeAlias, TypeVar

from perdure import errors
from perdure.core.failure import FailureKind
from perdure.sdk.activity import activity
from perdure.sdk.client import Client
from perdure.sdk.handle import Handle
from perdure.sdk.options import Retry
from perdure.sdk.workflow import workflow

T = TypeVar("T")

PATIENT: Final = Retry(initial=0.05, max_interval=2.0)
"""Retries until it works; soon enough that no simulation waits long."""


OnCancel: TypeAlias = Literal["try", "wait", "abandon"]
HOW: Final[tuple[OnCancel, ...]] = ("try", "wait", "abandon")


class BrokenPromiseError(AssertionError):
    """A workload found something that must not be."""


def promise(holds: bool, what: str) -> None:
    if not holds:
        raise BrokenPromiseError(what)


class Ledger:
    """What the outside world did: one effect for one idempotency key, however often it is asked. Kept apart from the engine."""

    def __init__(self, chance: random.Random, *, fails: float = 0.0, forgets: float = 0.0) -> None:
        self._chance = chance
        self.fails = fails
        """Chance that a request fails before it did anything."""
        self.forgets = forgets
        """Chance that an effect happens and its answer is lost."""
        self.effects: dict[str, tuple[str, str]] = {}
        """Idempotency key → (operation, subject)."""
        self.absorbed = 0
        """Requests that came again with a key that is known."""

    def do(self, operation: str, subject: str) -> str:
        """One request of an activity to the outside world; its receipt. Raises `ConnectionError`, before or after the effect."""
        if self._chance.random() < self.fails:
            raise ConnectionError(f"{operation} could not be reached")
        key = activity.info().idempotency_key
        known = self.effects.get(key)
        if known is None:
            self.effects[key] = (operation, subject)
        else:
            promise(known == (operation, subject), f"key of {known} was used for {(operation, subject)}")
            self.absorbed += 1
        if self._chance.random() < self.forgets:
            raise ConnectionError(f"the answer of {operation} was lost")
        return f"{operation}:{subject}"

    def count(self, operation: str, subject: str) -> int:
        """How often something was really done."""
        return sum(effect == (operation, subject) for effect in self.effects.values())


class Stage(Protocol):
    """What a workload is run on."""

    client: Client
    ledger: Ledger
    chance: random.Random

    async def sleep(self, seconds: float) -> None: ...

    async def again(self, act: Callable[[], Awaitable[T]]) -> T:
        """Do something until it is acknowledged: once more after `Unavailable` and `ResourceExhausted`."""
        ...

    def acknowledged_signal(self, workflow_id: str, signal_id: str) -> None:
        """This signal must be in the history of that workflow id."""
        ...


class Workload:
    """One kind of load: a name, and for each build what a worker must know (the last one serves later builds too)."""

    name: ClassVar[str]
    builds: ClassVar[tuple[tuple[object, ...], ...]]

    def things(self, build: int) -> tuple[object, ...]:
        """What a worker of that build registers."""
        return self.builds[min(build, len(self.builds)) - 1]

    async def play(self, stage: Stage, number: int) -> None:
        """Run instance `number` from its start to its end and check it. Raises `BrokenPromiseError`."""
        raise NotImplementedError


class Services:
    """Activities of all workloads: the outside world, reached over a bad line."""

    def __init__(self, ledger: Ledger, chance: random.Random, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._ledger = ledger
        self._chance = chance
        self._sleep = sleep

    @activity(retry=PATIENT)
    async def charge(self, order: str) -> str:
        await self._sleep(self._chance.random() * 0.05)
        return self._ledger.do("charge", order)

    @activity(retry=PATIENT)
    async def ship(self, order: str, refuse: bool) -> str:
        await self._sleep(self._chance.random() * 0.05)
        if refuse:
            raise errors.ApplicationError("no stock", type="NoStock", non_retryable=True)
        return self._ledger.do("ship", order)

    @activity(retry=PATIENT)
    async def refund(self, order: str) -> str:
        return self._ledger.do("refund", order)

    @activity(retry=PATIENT)
    async def part(self, subject: str, number: int) -> int:
        if self._chance.random() < 0.5:
            await self._sleep(self._chance.random() * 0.2)
        self._ledger.do("part", f"{subject}/{number}")
        return number * number

    @activity(retry=Retry(initial=0.1, max_interval=1.0, max_attempts=3))
    async def doomed(self, subject: str) -> None:
        self._ledger.do("doomed", subject)
        raise ValueError("always")

    @activity(retry=PATIENT, start_to_close=2.0)
    async def slow_at_first(self, subject: str) -> int:
        attempt = activity.info().attempt
        await self._sleep(60.0 if attempt == 1 else 0.1)
        self._ledger.do("slow", subject)
        return attempt

    @activity(retry=Retry(initial=0.1, max_attempts=2), start_to_close=1.0)
    async def never_in_time(self) -> None:
        await self._sleep(60.0)

    @activity(retry=Retry(initial=0.2, factor=1.0, jitter=0.0), schedule_to_close=1.5)
    async def out_of_time(self) -> None:
        raise ValueError("always")

    @activity(queue="nobody", schedule_to_start=0.5)
    async def nobody_takes(self) -> None:
        raise AssertionError("somebody took it")

    @activity(retry=PATIENT)
    async def cancellable(self, subject: str) -> None:
        try:
            await self._sleep(30.0)
        except asyncio.CancelledError:
            self._ledger.do("cleaned", subject)
            raise

    @activity(retry=PATIENT, heartbeat=3.0)
    async def beating(self, subject: str, steps: int) -> int:
        """Works in steps it remembers; falls silent once, on its first attempt."""
        info = activity.info()
        done = int(info.heartbeat_details[0]) if info.heartbeat_details else 0
        for step in range(done, steps):
            await self._sleep(0.7)
            activity.heartbeat(step + 1)
            if info.attempt == 1 and step == steps // 2:
                await self._sleep(100.0)
        self._ledger.do("beat", subject)
        return steps


# ------------------------------------------------------------------------------------------------------------------- orders


@workflow
async def order_saga(order: str, refuse: bool) -> str:
    try:
        async with workflow.saga() as saga:
            receipt = await Services.charge(order)
            saga.add(Services.refund(order))
            await Services.ship(order, refuse)
    except errors.ApplicationError as error:
        return f"refunded: {error.type}"
    return receipt


class Orders(Workload):
    """Charge and ship; a shipment that is refused is paid back. Every effect happens once, for every order."""

    name = "orders"
    builds = ((order_saga,),)

    async def play(self, stage: Stage, number: int) -> None:
        order, refuse = f"order-{number}", stage.chance.random() < 0.3
        handle = await begin(stage, order_saga(order, refuse), order)
        if stage.chance.random() < 0.4:  # the client was not sure and asks again, under the same request id
            await begin(stage, order_saga(order, refuse), order)
        result = await stage.again(handle.result)
        promise(result == ("refunded: NoStock" if refuse else f"charge:{order}"), f"{order} ended with {result!r}")
        counts = tuple(stage.ledger.count(operation, order) for operation in ("charge", "ship", "refund"))
        promise(counts == ((1, 0, 1) if refuse else (1, 1, 0)), f"{order}: charged, shipped, refunded {counts} times")


# ------------------------------------------------------------------------------------------------------------------ signals


@workflow
async def gate(rounds: int) -> list[str]:
    """Waits for signals, each against a timer; what comes late is taken in a later round, or at the end."""
    taken: list[str] = []
    for _ in range(rounds):
        try:
            taken.append(await asyncio.wait_for(workflow.receive("go", str), 0.4))
        except TimeoutError:
            await Services.part("gate", len(taken))
    while len(taken) < rounds:
        taken.append(await workflow.receive("go", str))
    return taken


class RacingSignals(Workload):
    """Signals that race timers, some sent twice under one id. Each is taken once, none is lost."""

    name = "racing signals"
    builds = ((gate,),)

    async def play(self, stage: Stage, number: int) -> None:
        id, rounds = f"gate-{number}", stage.chance.randint(1, 4)
        handle = await begin(stage, gate(rounds), id)
        sent = [f"{id}.{n}" for n in range(rounds)]
        for value in sent:
            await stage.sleep(stage.chance.random() * 0.8)
            await signal(stage, handle, "go", value, value)
        taken = await stage.again(handle.result)
        promise(sorted(taken) == sorted(sent), f"{id} took {taken} of {sent}")


@workflow
async def tally(seen: int, goal: int) -> int:
    """Continues as new after every third signal; counts them all."""
    taken = 0
    while seen < goal:
        if taken == 3:
            workflow.continue_as_new(seen, goal)
        taken += 1
        await workflow.receive("tick", int)
        seen += 1
        if seen % 2:
            await Services.part(f"tally {workflow.info().workflow_id}", seen)
    return seen


class SteadySender(Workload):
    """A steady stream of signals against a workflow that keeps continuing as new: none is lost, none counted twice."""

    name = "steady sender"
    builds = ((tally,),)

    async def play(self, stage: Stage, number: int) -> None:
        id, goal = f"tally-{number}", stage.chance.randint(2, 10)
        call = tally(0, goal)

        async def first() -> Handle[int]:
            return await stage.client.signal_with_start(call, "tick", 0, id=id, signal_id=f"{id}.0", request_id=f"{id}.start")

        handle = await stage.again(first)
        stage.acknowledged_signal(id, f"{id}.0")
        for n in range(1, goal):
            await stage.sleep(stage.chance.random() * 0.05)
            await signal(stage, handle, "tick", n, f"{id}.{n}")
        counted = await stage.again(handle.result)
        promise(counted == goal, f"{id} counted {counted} of {goal} signals")


# ------------------------------------------------------------------------------------------------------- fan-out, retries


@workflow
async def fan_out(id: str, width: int) -> int:
    parts = await asyncio.gather(*(Services.part(id, n) for n in range(width)))
    await asyncio.sleep(0.1)
    first = await asyncio.gather(Services.part(f"{id} again", 1), asyncio.sleep(0.05))
    return sum(parts) + first[0]


class FanOut(Workload):
    """Many activities at once; each part is done once and its result arrives in its place."""

    name = "fan-out"
    builds = ((fan_out,),)

    async def play(self, stage: Stage, number: int) -> None:
        id, width = f"fan-{number}", stage.chance.randint(1, 12)
        handle = await begin(stage, fan_out(id, width), id)
        result = await stage.again(handle.result)
        promise(result == sum(n * n for n in range(width)) + 1, f"{id} ended with {result}")
        for n in range(width):
            promise(stage.ledger.count("part", f"{id}/{n}") == 1, f"part {n} of {id} was not done once")


@workflow
async def trying(id: str) -> list[str]:
    said: list[str] = []
    try:
        await Services.doomed(id)
    except (ValueError, ConnectionError, errors.ActivityError) as error:  # the last one when its last worker was lost
        said.append(type(error).__name__)
    try:
        await Services.never_in_time()
    except errors.ActivityError as error:
        said.append(error.kind)
    said.append(str(await Services.slow_at_first(id) > 1))
    return said


class Timeouts(Workload):
    """Retries that run out, attempts that pass their time: the workflow hears which."""

    name = "timeouts"
    ends: ClassVar[tuple[FailureKind, ...]] = ("start_to_close", "lost")
    builds = ((trying,),)

    async def play(self, stage: Stage, number: int) -> None:
        id = f"try-{number}"
        handle = await begin(stage, trying(id), id)
        doomed, late, slow = await stage.again(handle.result)
        promise(doomed in {"ValueError", "ConnectionError", "ActivityError"}, f"{id}: what was doomed ended {doomed}")
        promise(late in self.ends, f"{id}: what was never in time ended {late}")
        promise(slow == "True", f"{id}: the slow one succeeded at once")
        promise(stage.ledger.count("slow", id) == 1, f"{id}: the slow one happened {stage.ledger.count('slow', id)} times")


@workflow
async def bounded() -> list[str]:
    said: list[str] = []
    for call in (Services.out_of_time(), Services.nobody_takes()):
        try:
            await call
        except errors.ActivityError as error:
            said.append(error.kind)
        except ValueError as error:
            said.append(str(error))
    return said


class Bounds(Workload):
    """Bounds on the whole of an activity, and on its wait for a worker."""

    name = "bounds"
    builds = ((bounded,),)

    async def play(self, stage: Stage, number: int) -> None:
        handle = await begin(stage, bounded(), f"bound-{number}")
        whole, waiting = await stage.again(handle.result)
        promise(whole in {"always", "schedule_to_close", "lost"}, f"bound-{number}: the whole ended {whole}")
        promise(waiting == "schedule_to_start", f"bound-{number}: what nobody takes ended {waiting}")


@workflow
async def interrupted(id: str, how: OnCancel) -> str:
    try:
        async with asyncio.timeout(0.3):
            await Services.cancellable.options(on_cancel=how)(id)
    except TimeoutError:
        await Services.part(id, 1)
        return "interrupted"
    return "done"


class Interruptions(Workload):
    """An activity is cancelled by its workflow, which waits for its end, or not, or lets it run on."""

    name = "interruptions"
    builds = ((interrupted,),)

    async def play(self, stage: Stage, number: int) -> None:
        id, how = f"cut-{number}", stage.chance.choice(HOW)
        handle = await begin(stage, interrupted(id, how), id)
        result = await stage.again(handle.result)
        promise(result == "interrupted", f"{id} ({how}) ended {result}")
        promise(stage.ledger.count("cleaned", id) <= 1, f"{id} was cleaned up more than once")


@workflow
async def juggler(width: int) -> list[str]:
    """Tasks that talk through a queue, with chance, time and ids of the run's own."""
    queue: asyncio.Queue[int] = asyncio.Queue()
    caught: list[str] = []
    lock = asyncio.Lock()

    async def throw(ball: int) -> None:
        await asyncio.sleep(workflow.random().random() * 0.3)
        await queue.put(ball)

    async def catch() -> None:
        ball = await queue.get()
        async with lock:
            await Services.part("juggler", ball)
            caught.append(f"{ball} {workflow.uuid4()} {workflow.now().isoformat()} {workflow.side_effect(lambda: ball)}")

    async with asyncio.TaskGroup() as group:
        for ball in range(width):
            group.create_task(catch())
            group.create_task(throw(ball))
    return caught


class Juggling(Workload):
    """The library's own tools; what they give back is the same at every replay, byte for byte."""

    name = "juggling"
    builds = ((juggler,),)

    async def play(self, stage: Stage, number: int) -> None:
        width = stage.chance.randint(1, 6)
        handle = await begin(stage, juggler(width), f"juggler-{number}")
        caught = await stage.again(handle.result)
        promise(sorted(int(ball.split()[0]) for ball in caught) == list(range(width)), f"juggler-{number} caught {caught}")


@workflow
async def ending(how: str) -> str:
    await Services.part("ending", 1)
    if how == "raise":
        raise LookupError("on purpose")
    if how == "wait":
        await workflow.receive("never", str)
    return how


class Endings(Workload):
    """Runs that fail, that pass their own time, that return: the client hears which, whenever it asks."""

    name = "endings"
    builds = ((ending,),)

    async def play(self, stage: Stage, number: int) -> None:
        id, how = f"end-{number}", stage.chance.choice(("raise", "wait", "return"))
        timeout = 2.0 if how == "wait" else None
        handle = await stage.again(lambda: stage.client.start(ending(how), id=id, request_id=f"{id}.start", timeout=timeout))
        for _ in range(2):
            promise(await self._heard(stage, handle) == how, f"{id}: something else was heard than {how}")

    async def _heard(self, stage: Stage, handle: Handle[str]) -> str:
        try:
            return await stage.again(handle.result)
        except errors.WorkflowTimedOut:
            return "wait"
        except errors.WorkflowFailed as error:
            promise(isinstance(error.__cause__, LookupError), f"{handle.id} failed with {error.__cause__!r}")
            return "raise"


@workflow
async def heart(id: str, steps: int) -> int:
    return await Services.beating(id, steps)


class Heartbeats(Workload):
    """An activity that falls silent is tried again, from where it last said it was."""

    name = "heartbeats"
    builds = ((heart,),)

    async def play(self, stage: Stage, number: int) -> None:
        id, steps = f"heart-{number}", stage.chance.randint(2, 6)
        handle = await begin(stage, heart(id, steps), id)
        promise(await stage.again(handle.result) == steps, f"{id} did not finish its steps")
        promise(stage.ledger.count("beat", id) == 1, f"{id} happened {stage.ledger.count('beat', id)} times")


# ---------------------------------------------------------------------------------------------------------- cancel, terminate


@workflow
async def stoppable(id: str) -> str:
    try:
        async with workflow.saga() as saga:
            await Services.charge(id)
            saga.add(Services.refund(id))
            for n in range(3):
                await asyncio.sleep(0.3)
                await Services.part(id, n)
    except asyncio.CancelledError:
        await Services.part(id, 99)
        raise
    return "done"


class Stopping(Workload):
    """Cancel or terminate at any instant. A cancelled run cleans up; whatever ended, ended once."""

    name = "stopping"
    builds = ((stoppable,),)

    async def play(self, stage: Stage, number: int) -> None:
        id = f"stop-{number}"
        handle = await begin(stage, stoppable(id), id)
        await stage.sleep(stage.chance.random() * 1.6)
        how = stage.chance.choice(("cancel", "terminate"))
        try:
            if how == "cancel":
                await stage.again(lambda: handle.cancel("enough", request_id=f"{id}.c"))
            else:
                await stage.again(lambda: handle.terminate("enough", request_id=f"{id}.t"))
        except errors.WorkflowClosed:
            how = ""
        ended = await self._end(stage, handle)
        allowed = {"cancel": {"cancelled", "done"}, "terminate": {"terminated"}, "": {"done"}}[how]
        promise(ended in allowed, f"{id}: {how or 'nothing'} was acknowledged, it ended {ended}")
        charged, refunded = stage.ledger.count("charge", id), stage.ledger.count("refund", id)
        if ended == "done":
            promise((charged, refunded) == (1, 0), f"{id} is done, charged {charged}, refunded {refunded}")
        elif ended == "cancelled":
            promise(refunded <= charged <= 1, f"{id} was cancelled, charged {charged}, refunded {refunded}")
            promise(stage.ledger.count("part", f"{id}/99") == 1, f"{id} was cancelled and did not clean up")

    async def _end(self, stage: Stage, handle: Handle[str]) -> str:
        try:
            return await stage.again(handle.result)
        except errors.WorkflowCancelled:
            return "cancelled"
        except errors.WorkflowTerminated:
            return "terminated"


# ------------------------------------------------------------------------------------------------------------------- deploys


@workflow(name="deployed")
async def deployed_1(id: str) -> str:
    await Services.part(id, 1)
    await asyncio.sleep(1.0)
    await Services.part(id, 2)
    await asyncio.sleep(1.0)
    return await Services.charge(id)


@workflow(name="deployed")
async def deployed_2(id: str) -> str:
    await Services.part(id, 1)
    if workflow.patched("count before sleeping"):
        await Services.part(id, 3)
    await asyncio.sleep(1.0)
    await Services.part(id, 2)
    if workflow.patched("pause less"):
        await asyncio.sleep(0.5)
    else:
        await asyncio.sleep(1.0)
    return await Services.charge(id)


class Deploys(Workload):
    """Code changes under open runs, with version markers: every run ends as if nothing had happened."""

    name = "deploys"
    builds = ((deployed_1,), (deployed_2,))

    async def play(self, stage: Stage, number: int) -> None:
        id = f"deploy-{number}"
        handle = await begin(stage, stage_call(id), id)
        promise(await stage.again(handle.result) == f"charge:{id}", f"{id} ended otherwise")
        promise(stage.ledger.count("charge", id) == 1, f"{id} was charged {stage.ledger.count('charge', id)} times")


def stage_call(id: str) -> Any:
    """Either build's call is the same request."""
    return deployed_1(id)


# ----------------------------------------------------------------------------------------------------------------- duplicates


@workflow
async def short(id: str, stamp: int) -> int:
    await Services.part(id, stamp)
    return stamp


class Duplicates(Workload):
    """Several starts of one id at once, each with its own request id: one run, and those who may attach get it."""

    name = "duplicates"
    builds = ((short,),)

    async def play(self, stage: Stage, number: int) -> None:
        id = f"twin-{number}"
        results = await asyncio.gather(*(self._one(stage, id, stamp) for stamp in range(3)))
        heard = {result for result in results if result is not None}
        promise(len(heard) == 1, f"{id}: starts at once ended in {heard}")
        done = sum(stage.ledger.count("part", f"{id}/{stamp}") for stamp in range(3))
        promise(done == 1, f"{id}: {done} runs happened")

    async def _one(self, stage: Stage, id: str, stamp: int) -> int | None:
        async def start() -> Handle[int]:
            return await stage.client.start(
                short(id, stamp),
                id=id,
                on_conflict="attach" if stamp else "fail",
                reuse="never",
                request_id=f"{id}.{stamp}",
            )

        try:
            handle = await stage.again(start)
        except errors.WorkflowAlreadyStarted:
            return None
        return await stage.again(handle.result)


WORKLOADS: Final[tuple[Workload, ...]] = (
    Orders(),
    RacingSignals(),
    SteadySender(),
    FanOut(),
    Timeouts(),
    Heartbeats(),
    Stopping(),
    Deploys(),
    Duplicates(),
    Bounds(),
    Interruptions(),
    Juggling(),
    Endings(),
)


async def begin(stage: Stage, call: Any, id: str) -> Handle[Any]:
    """Start `call` under `id`, as often as it takes, as one request."""

    async def start() -> Handle[Any]:
        return await stage.client.start(call, id=id, request_id=f"{id}.start")

    return await stage.again(start)


async def signal(stage: Stage, handle: Handle[Any], name: str, value: Any, signal_id: str) -> None:
    """Send a signal until it is acknowledged, perhaps once more after that; it counts once."""
    await stage.again(lambda: handle.signal(name, value, signal_id=signal_id))
    stage.acknowledged_signal(handle.id, signal_id)
    if stage.chance.random() < 0.2:
        await stage.again(lambda: handle.signal(name, value, signal_id=signal_id))


def all_things(workloads: Sequence[Workload], services: Services, build: int) -> tuple[object, ...]:
    """Everything a worker of `build` registers to run these workloads."""
    return (services, *(thing for workload in workloads for thing in workload.things(build)))
