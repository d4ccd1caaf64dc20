"""asyncio.wait and as_completed keep argument order; nothing depends on PYTHONHASHSEED or addresses."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

import perdure.replay

PROGRAM = """
import random, sys
junk = [object() for _ in range(random.SystemRandom().randrange(5000))]
names = ["json", "decimal", "csv", "fractions", "email.message"]
random.SystemRandom().shuffle(names)
for name in names: __import__(name)
import asyncio
from contextvars import Context
from perdure.replay import guards
from perdure.replay.loop import WorkflowLoop
guards.install()
fired = []
loop = WorkflowLoop(start_timer=lambda us, s, t: fired.append((us, t)), cancel_timer=lambda t: None, now=lambda: 0.0)
log = []
async def step(name):
    log.append(name)
    await asyncio.sleep(ord(name[0]) % 3)
    return name
async def main():
    tasks = {asyncio.create_task(step(n)) for n in "abcdefgh"}
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    log.append([t.get_name() for t in done] + ["|"] + [t.get_name() for t in pending])
    done, pending = await asyncio.wait(tasks, timeout=5)
    log.append([t.result() for t in done])
    for next_one in asyncio.as_completed([step(n) for n in "qrstuvwxyz"]):
        log.append(await next_one)
    async with asyncio.TaskGroup() as group:
        for n in "mno": group.create_task(step(n))
task = loop.create_task(main(), context=Context())
loop.run_until_idle()
while fired:
    fired.sort(key=lambda e: e[0])
    fired.pop(0)[1].fire()
    loop.run_until_idle()
assert task.done() and not task.exception(), task
print(log)
"""


@pytest.mark.scenario(16)
def test_order_is_the_same_under_any_hash_seed_and_memory_layout():
    """Four processes with other seeds, other import orders and other addresses do exactly the same."""
    source = str(Path(perdure.replay.__file__).parents[2])
    outputs = set()
    for seed in ("0", "1", "12345", "random"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": source}
        done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        outputs.add(done.stdout)
    assert len(outputs) == 1


@pytest.mark.scenario(16)
def test_as_completed_makes_tasks_in_argument_order(stage):
    """Also of plain coroutines, duplicates once, by `for` and by `async for`."""

    async def main():
        order = []

        async def step(number):
            order.append(number)
            await asyncio.sleep(10 - number)
            return number

        results = [await result for result in asyncio.as_completed([step(n) for n in range(9)])]
        twice = asyncio.create_task(step(9))
        results += [future is twice async for future in asyncio.as_completed([twice, twice])]
        return order, results

    assert stage.run(main()) == ([*range(10)], [*range(8, -1, -1), True])


def test_as_completed_times_out(stage):
    """Those still waited for raise TimeoutError; the timer is gone when all came in time."""

    async def main():
        got = []
        for result in asyncio.as_completed([asyncio.sleep(1, "a"), asyncio.sleep(9, "b")], timeout=5):
            try:
                got.append(await result)
            except TimeoutError:
                got.append("timeout")
        return got + [await result for result in asyncio.as_completed([asyncio.sleep(1, "c")], timeout=500)]

    assert stage.run(main()) == ["a", "timeout", "c"]
    assert [round(entry[3].when()) for entry in stage.timers] == [9]


def test_wait_rejects_what_asyncio_rejects(stage):
    """Coroutines, nothing, a lone future and unknown conditions are the same errors."""

    async def main():
        future = asyncio.get_running_loop().create_future()
        coroutine = asyncio.sleep(1)
        for fs, error in ((future, TypeError), ([], ValueError), ([coroutine], TypeError)):
            with pytest.raises(error):
                await asyncio.wait(fs)
        with pytest.raises(ValueError, match="return_when"):
            await asyncio.wait([future], return_when="SOME")
        with pytest.raises(TypeError):
            asyncio.as_completed(future)
        coroutine.close()

    stage.run(main())


def test_other_loops_are_untouched(stage):
    """On a real loop both are asyncio's own."""

    async def main():
        done, pending = await asyncio.wait([asyncio.ensure_future(asyncio.sleep(0, 1))])
        results = [await result for result in asyncio.as_completed([asyncio.sleep(0, 2)])]
        return [task.result() for task in done], pending, results

    assert asyncio.run(main()) == ([1], set(), [2])
