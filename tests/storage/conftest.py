"""A small journal on a simulated disk, and how to look at it. Everything a storage test needs that is not its own point."""

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec import Raw

from perdure.core.events import SignalReceived, Started
from perdure.core.shards import SHARDS
from perdure.core.transition import RunChange, Transition
from perdure.store.journal import JournalStore, Recovery
from perdure.testing.chance import SeededChance
from perdure.testing.disk import SimulatedFiles

NEWEST = "journal/00000001.jsonl"


class StillClock:
    """A clock that stands still; nothing here waits."""

    def now(self) -> int:
        return 1_000_000

    def not_before(self, instant: int) -> None:
        pass

    def call_at(self, instant: int, callback: Callable[[], None]) -> Any:
        raise NotImplementedError

    async def sleep(self, duration: int) -> None:
        await asyncio.sleep(0)


class Bench:
    """Makes transitions, journals and copies of them."""

    newest = NEWEST

    def files(self, contents: dict[str, bytes] | None = None, seed: int = 1) -> SimulatedFiles:
        files = SimulatedFiles(random.Random(seed), StillClock())
        for name, data in (contents or {}).items():
            asyncio.run(files.open_append(name).append(data))
        return files

    def clock(self) -> StillClock:
        return StillClock()

    def store(self, files: SimulatedFiles, **options: Any) -> JournalStore:
        return JournalStore(files, StillClock(), SeededChance(1), **{"room_bytes": 0} | options)

    def transition(self, workflow: str, number: int, payload: bytes = b'"x"') -> Transition:
        """Event `number` of the only run of `workflow`; number 1 starts it."""
        run = f"run-{workflow}"
        event = (
            Started(id=1, time=1, workflow_type="t", queue="q", run_id=run, seed=1)
            if number == 1
            else SignalReceived(id=number, time=number, name="go", input=(Raw(payload),))
        )
        return Transition(workflow_id=workflow, runs=(RunChange(run_id=run, events=(event,)),))

    def write(
        self, files: SimulatedFiles, groups: Sequence[Sequence[Transition]], *, clean: bool = False, **options: Any
    ) -> None:
        """Commit groups and stop, with a footer or as a crash would."""

        async def run() -> None:
            store = self.store(files, **options)
            await store.open()
            lease = await store.acquire("n", range(SHARDS))
            for group in groups:
                assert all(result.ok for result in await store.commit(lease, group))
            if clean:
                await store.close()
            else:
                files.crash()

        asyncio.run(run())

    def contents(self, files: SimulatedFiles) -> dict[str, bytes]:
        return {name: files.read(name, 0, files.size(name)) for name in files.names("journal")}

    def reopen(
        self, files: SimulatedFiles, workflows: Sequence[str], **options: Any
    ) -> tuple[dict[str, list[Transition]], Recovery]:
        """What an opening finds under each id; the files stay as that leaves them."""

        async def run() -> tuple[dict[str, list[Transition]], Recovery]:
            store = self.store(files, **options)
            await store.open()
            found = {workflow: list(await store.load("default", workflow)) for workflow in workflows}
            files.crash()
            return found, store.recovery

        return asyncio.run(run())


@pytest.fixture
def bench() -> Bench:
    return Bench()
