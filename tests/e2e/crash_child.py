"""A node that gets killed: run as `python crash_child.py DATA LEDGER MODE …` by test_crash.

Whatever it has acknowledged it says on standard output. Effects go to LEDGER, a file of JSON lines, each written whole and synced before
the activity returns; a key that is there already is absorbed, as a service that honours idempotency keys would.
"""

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import perdure
from perdure import Retry, activity, workflow
from perdure.errors import ActivityError, WorkflowAlreadyStarted, WorkflowClosed

LEDGER = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(os.devnull)
FAIL_FIRST = random.Random(0)
SHARE = 0.0


def effect(kind: str, order: str) -> str:
    """Do something in the world, once a key."""
    key = activity.info().idempotency_key
    lines = [json.loads(line) for line in LEDGER.read_text().splitlines()] if LEDGER.exists() else []
    known = any(line["key"] == key and line["line"] == "effect" for line in lines)
    line = {
        "line": "absorbed" if known else "effect",
        "key": key,
        "kind": kind,
        "order": order,
        "attempt": activity.info().attempt,
    }
    descriptor = os.open(LEDGER, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(descriptor, json.dumps(line).encode() + b"\n")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if not known and FAIL_FIRST.random() < SHARE:
        raise ConnectionError("the answer was lost on its way")
    return f"{kind} {order}"


SWIFT = Retry(initial=0.005, jitter=0)


@activity(retry=SWIFT)
async def charge(order: str) -> str:
    return effect("charge", order)


@activity(retry=SWIFT)
def label(order: str) -> str:
    return effect("label", order)


@activity(retry=SWIFT)
async def refund(order: str) -> str:
    return effect("refund", order)


@activity(retry=SWIFT)
async def ship(order: str) -> str:
    return effect("ship", order)


@activity(retry=Retry(max_attempts=1))
async def pay_once(order: str) -> str:
    effect("pay", order)
    say("paid")
    await asyncio.Event().wait()
    return "never"


@workflow
async def fulfil(order: str, ok: bool) -> str:
    async with workflow.saga() as saga:
        await asyncio.gather(charge(order), label(order))
        saga.add(refund(order))
        await asyncio.sleep(0.05)
        approved = await workflow.receive("approve", bool)
        await ship(order)
        if not approved:
            raise ValueError("refused after all")
    return f"{order} done"


@workflow
async def sees_it_through(order: str, ok: bool) -> str:
    """The order, with its own failure taken for an answer."""
    try:
        return await fulfil.fn(order, ok)
    except ValueError:
        return f"{order} refunded"


@workflow
async def pays_once(order: str) -> str:
    try:
        return await pay_once(order)
    except ActivityError as error:
        return f"{error.kind} {error.attempts}"


@workflow
async def waits() -> str:
    return await workflow.receive("go", str)


@workflow
async def naps(seconds: float) -> int:
    await asyncio.sleep(seconds)
    return workflow.info().history_length


EVERYTHING = (charge, label, refund, ship, pay_once, sees_it_through, pays_once, waits, naps)


def say(word: str) -> None:
    print(word, flush=True)


def die_at(app: Any, length: int) -> None:
    """SIGKILL right after the commit that brings the run to `length` events."""
    store = app.store
    commit = store.commit

    async def deadly(lease: Any, batch: Any) -> Any:
        results = await commit(lease, batch)
        if any(event.id == length for transition in batch for change in transition.runs for event in change.events):
            os.kill(os.getpid(), signal.SIGKILL)
        return results

    store.commit = deadly


async def order(app: Any, id: str, ok: bool) -> str:
    """Start, approve and await one order, however often it has been done before."""
    try:
        handle = await app.client.start(sees_it_through(id, ok), id=id, on_conflict="attach", reuse="never")
    except WorkflowAlreadyStarted:
        handle = app.client.handle(id, workflow=sees_it_through)
    with contextlib.suppress(WorkflowClosed):
        await handle.signal("approve", ok, signal_id=f"approve-{id}")
    return await handle.result()


async def sweep(app: Any, length: str) -> None:
    die_at(app, int(length))
    say(await order(app, "swept", ok=False))
    say(f"length {(await app.client.handle('swept').describe()).history_length}")


def die_at_line(number: int) -> list[int]:
    """SIGKILL when the workflow's own code reaches its `number`-th line, counted over the whole life; what is returned counts them."""
    ours = {fulfil.fn.__code__, sees_it_through.fn.__code__}
    reached = [0]

    def line(frame: Any, event: str, _argument: Any) -> Any:
        if event == "line":
            reached[0] += 1
            if reached[0] == number:
                signal.raise_signal(signal.SIGKILL)  # no guard of workflow code knows it
        return line

    sys.settrace(lambda frame, _event, _argument: line if frame.f_code in ours else None)
    return reached


async def lines(app: Any, number: str) -> None:
    reached = die_at_line(int(number))
    say(await order(app, "swept", ok=False))
    say(f"lines {reached[0]}")


async def many(app: Any, count: str, seed: str, share: str) -> None:
    global FAIL_FIRST, SHARE
    FAIL_FIRST, SHARE = random.Random(int(seed) + os.getpid()), float(share)
    say("up")
    room = asyncio.Semaphore(6)

    async def in_turn(n: int) -> None:
        async with room:
            await order(app, f"order-{n}", ok=n % 4 != 0)

    await asyncio.gather(*(in_turn(n) for n in range(int(count))))
    say("all done")


async def starts(app: Any) -> None:
    await app.client.start(waits(), id="acknowledged", request_id="r-1")
    say("started")
    await asyncio.Event().wait()


async def signals(app: Any) -> None:
    await app.client.handle("acknowledged").signal("go", "through", signal_id="s-1")
    say("signalled")
    os.kill(os.getpid(), signal.SIGKILL)


async def pays(app: Any) -> None:
    await app.client.start(pays_once("p"), id="pays")
    await asyncio.Event().wait()


async def sleeps(app: Any) -> None:
    await app.client.start(naps(0.2), id="naps")
    say("sleeping")
    await asyncio.Event().wait()


MODES = {"sweep": sweep, "lines": lines, "many": many, "starts": starts, "signals": signals, "pays": pays, "sleeps": sleeps}


async def main(data: str, mode: str, *arguments: str) -> None:
    async with perdure.embedded(data) as app:
        app.register(*EVERYTHING)
        await MODES[mode](app, *arguments)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *sys.argv[3:]))
