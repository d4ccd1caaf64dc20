"""The workflows that are measured: steps that do next to nothing, so that what is left is the engine's own cost."""

from time import perf_counter, thread_time

from perdure.sdk.activity import activity
from perdure.sdk.workflow import workflow


@activity
async def increment(value: int) -> int:
    return value + 1


@workflow
async def chain(steps: int) -> int:
    """So many steps, one after the other; gives their number back."""
    value = 0
    for _ in range(steps):
        value = await increment(value)
    return value


@workflow
async def parked() -> str:
    """Waits for the signal `go`."""
    return await workflow.receive("go", str)


class Laps:
    """Notes when each step of one run begins: `wall` and `cpu` (of the loop's thread), in seconds. One run at a time."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []
        self._until = 0.0

    def restart(self, until: float) -> None:
        """For the next run; it is ended at the first step after `until` (of perf_counter)."""
        self.wall, self.cpu, self._until = [], [], until

    @activity
    async def lap(self, done: int) -> int:
        """The number of steps done, this one included; -1 when there is no time left."""
        self.wall.append(perf_counter())
        self.cpu.append(thread_time())
        return -1 if self.wall[-1] > self._until else done + 1


@workflow
async def laps(steps: int) -> int:
    """One long run of steps that note when they begin."""
    done = 0
    while 0 <= done < steps:
        done = await Laps.lap(done)
    return done


@workflow
class Poked:
    """So many steps, one after the other; from then on it counts updates until it is told to end."""

    def __init__(self) -> None:
        self.pokes = 0
        self.ready = False

    @workflow.run
    async def run(self, steps: int) -> None:
        value = 0
        for _ in range(steps):
            value = await increment(value)
        self.ready = True
        await workflow.wait_until(lambda: self.pokes < 0)

    @workflow.update
    async def poke(self) -> int:
        """Answered once the steps are done."""
        await workflow.wait_until(lambda: self.ready)
        self.pokes += 1
        return self.pokes
