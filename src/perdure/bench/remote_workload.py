"""What `perdure bench remote` runs in its worker process beside the steps of the other benchmarks: a run of any length that answers updates."""

from perdure.bench.workload import increment
from perdure.sdk.workflow import workflow


@workflow
class Counter:
    """Does so many steps, then counts what it is asked to count until it is told to end: a history of the length one likes."""

    def __init__(self) -> None:
        self.value = 0
        self.is_ready = False
        self.is_over = False

    @workflow.run
    async def run(self, steps: int) -> int:
        for _ in range(steps):
            self.value = await increment(self.value)
        self.is_ready = True
        await workflow.wait_until(lambda: self.is_over)
        return self.value

    @workflow.update
    async def add(self, number: int) -> int:
        """The count with `number` added."""
        await workflow.wait_until(lambda: self.is_ready)
        self.value += number
        return self.value

    @workflow.signal
    def end(self) -> None:
        self.is_over = True
