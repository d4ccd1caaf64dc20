"""Any sequence of commits, faults, crashes and openings, compared with the reference store."""

import asyncio
import random
from contextlib import suppress

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec import Raw

from perdure.core.errors import HistoryDamaged
from perdure.core.events import Completed, SignalReceived, Started
from perdure.core.shards import SHARDS
from perdure.core.transition import RunChange, Transition
from perdure.ports import DiskFull, RunFilter
from perdure.store.errors import StoreFailed
from perdure.store.journal import JournalStore
from perdure.store.journal.repair import repair
from perdure.store.memory import MemoryStore
from perdure.testing.chance import SeededChance
from perdure.testing.disk import SimulatedFiles

IDS = ("a", "b", 'c"\n🦊'.replace("\n", ""))


class TurnClock:
    """Waiting passes with the turns of the loop; the time of day only when it is set."""

    time = 1

    def now(self) -> int:
        return self.time

    def not_before(self, instant: int) -> None:
        pass

    def call_at(self, instant, callback):
        raise NotImplementedError

    async def sleep(self, duration: int) -> None:
        for _ in range(duration):
            await asyncio.sleep(0)


class JournalAgainstMemory(RuleBasedStateMachine):
    """What is acknowledged is in both; what a crash left open is there as a prefix of what was sent, and then in both."""

    @initialize(
        seed=st.integers(0, 2**32), segment=st.sampled_from([600, 3000, 1_000_000]), room=st.sampled_from([0, 700, 5000])
    )
    def begin(self, seed: int, segment: int, room: int) -> None:
        self.room = room
        self.runner = asyncio.Runner()
        self.clock = TurnClock()
        self.files = SimulatedFiles(random.Random(seed), self.clock, sync_us=(1, 4))
        self.segment = segment
        self.chance = SeededChance(seed)
        self.model = MemoryStore()
        self.model_lease = self.runner.run(self.model.acquire("n", range(SHARDS)))
        self.heads: dict[str, tuple[int, int]] = {}
        self.dropped: set[str] = set()
        """Runs past their keep time: they may be there, whole, or not."""
        self.open()

    def open(self) -> None:
        self.store = JournalStore(self.files, self.clock, self.chance, segment_bytes_max=self.segment, room_bytes=self.room)
        self.runner.run(self.store.open())
        self.lease = self.runner.run(self.store.acquire("n", range(SHARDS)))

    def next(self, workflow: str, size: int, *, close: bool, heads: dict[str, tuple[int, int]]) -> Transition:
        """The next transition of an id; `heads` says run and event number reached."""
        run, number = heads.get(workflow, (0, 0))
        if number == 0:
            run, number = run + 1, 1
            event = Started(id=1, time=run, workflow_type="t", queue="q", run_id=f"{workflow}-{run}", seed=1)
        elif close:
            event = Completed(id=number + 1, time=self.clock.time, at=1, based_on=number)
            number = -1
        else:
            number += 1
            event = SignalReceived(id=number, time=9, name="s", input=(Raw(b'"%b"' % (b"p" * size)),))
        heads[workflow] = (run, max(0, number))
        return Transition(workflow_id=workflow, runs=(RunChange(run_id=f"{workflow}-{run}", events=(event,)),))

    batches = st.lists(
        st.tuples(st.sampled_from(IDS), st.sampled_from([0, 10, 400, 1500]), st.booleans()), min_size=1, max_size=6
    )

    def draft(self, batch) -> tuple[list[Transition], dict[str, tuple[int, int]]]:
        heads = dict(self.heads)
        return [self.next(workflow, size, close=close, heads=heads) for workflow, size, close in batch], heads

    def accept(self, transitions, heads) -> None:
        self.heads = heads
        self.runner.run(self.model.commit(self.model_lease, transitions))

    @rule(batch=batches)
    def commit(self, batch) -> None:
        transitions, heads = self.draft(batch)
        assert all(result.ok for result in self.runner.run(self.store.commit(self.lease, transitions)))
        self.accept(transitions, heads)

    @rule(batch=batches, after=st.integers(0, 2))
    def commit_on_a_full_disk(self, batch, after: int) -> None:
        transitions, heads = self.draft(batch)
        self.files.arm("full", after)
        try:
            self.runner.run(self.store.commit(self.lease, transitions))
        except DiskFull:
            return
        finally:
            self.files._faults.clear()
        self.accept(transitions, heads)

    @rule(batch=batches, turns=st.integers(0, 12))
    def crash_during_a_commit(self, batch, turns: int) -> None:
        transitions, _ = self.draft(batch)

        async def run() -> bool:
            async with asyncio.TaskGroup() as group:
                commit = group.create_task(self.store.commit(self.lease, transitions))
                for _ in range(turns):
                    await asyncio.sleep(0)
                acknowledged = commit.done()
                self.files.crash()
                commit.cancel()
            return acknowledged

        self.settle(transitions, acknowledged=self.runner.run(run()))

    @rule(batch=batches, fault=st.sampled_from(["sync", "write"]), after=st.integers(0, 2))
    def fail_a_write(self, batch, fault, after: int) -> None:
        transitions, _ = self.draft(batch)
        self.files.arm(fault, after)
        try:
            self.runner.run(self.store.commit(self.lease, transitions))
            acknowledged = True
        except StoreFailed:
            acknowledged = False
            with pytest.raises(StoreFailed):
                self.runner.run(self.store.commit(self.lease, transitions))
        self.files._faults.clear()
        self.files.crash()
        self.settle(transitions, acknowledged=acknowledged)

    def settle(self, transitions, *, acknowledged: bool) -> None:
        """Open after a crash and find out how much of the group is there: all of an acknowledged one, a prefix of another."""
        self.open()
        heads = dict(self.heads)
        kept = 0
        for transition in transitions:
            loaded = self.runner.run(self.store.load("default", transition.workflow_id))
            if transition not in loaded:
                break
            kept += 1
        assert kept == len(transitions) or not acknowledged
        for transition in transitions[:kept]:
            event = transition.runs[0].events[0]
            run = int(transition.runs[0].run_id.rpartition("-")[2])
            heads[transition.workflow_id] = (run, 0 if isinstance(event, Completed) else event.id)
        self.accept(transitions[:kept], heads)

    @rule()
    def restart(self) -> None:
        self.runner.run(self.store.close())
        self.open()
        assert self.store.recovery.clean
        assert self.store.recovery.cut_bytes == 0

    @rule(where=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), mended=st.booleans(), stopped=st.booleans())
    def flip(self, where: float, bit: int, mended: bool, stopped: bool) -> None:
        """One bit changes while nobody looks: every run is whole or named, before and after a repair. Then the bit changes back."""
        names = self.files.names("journal")
        if not names:
            return
        self.leave(stopped=stopped)
        saved = self.saved()
        total = sum(map(len, saved.values()))
        at = int(where * total)
        for name, data in saved.items():
            if at < len(data):
                self.files.damage(name, at, bytes([data[at] ^ (1 << bit)]))
                break
            at -= len(data)
        if mended:
            self.runner.run(repair(self.files, self.chance, lambda: None))
        self.look()
        self.restore(saved)

    @rule(where=st.floats(0, 1, exclude_max=True))
    def cut_the_last_line(self, where: float) -> None:
        """The file ends somewhere in its last line: everything before it is there, nothing is named, and what was cut is said."""
        names = self.files.names("journal")
        if not names:
            return
        self.leave(stopped=False)
        saved = self.saved()
        name = max(names)
        written = saved[name].rstrip(b"\0")
        if written:
            last = written[:-1].rfind(b"\n") + 1
            size = last + int(where * (len(written) - last))
            self.files.truncate(name, size)
            store = self.look(may_lose=True)
            # A crash may leave the first bytes of a line unwritten: then it is whole all the same, and said to be mended.
            assert not any(fault.lines or fault.runs for fault in store.recovery.faults)
            assert store.recovery.cut_bytes in (size - last, 0)
        self.restore(saved)

    @rule(after=st.one_of(st.none(), st.integers(0, 8)))
    def compact(self, after: int | None) -> None:
        """Every closed run is past its keep time; perhaps the power goes on the way."""
        rows = self.runner.run(self.model.runs(RunFilter(), 1000)).items
        self.dropped |= {row.run_id for row in rows if row.closed_at}
        if after is None:
            self.runner.run(self.store.compact(0, share=0.0))
            self.clock.time += 1
            left = {row.run_id for row in self.runner.run(self.store.runs(RunFilter(), 1000)).items}
            assert not left & self.dropped
            return
        self.files.arm("write", after)
        with suppress(OSError):
            self.runner.run(self.store.compact(0, share=0.0))
        self.files.disarm()
        self.clock.time += 1
        self.files.crash()
        self.open()

    def wanted(self, transitions) -> list[Transition]:
        """Those that are not of dropped runs; every transition here changes one run."""
        return [transition for transition in transitions if transition.runs[0].run_id not in self.dropped]

    def leave(self, *, stopped: bool) -> None:
        if stopped:
            self.runner.run(self.store.close())
        self.files.crash()

    def saved(self) -> dict[str, bytes]:
        return {name: self.files.read(name, 0, self.files.size(name)) for name in self.files.names("journal")}

    def restore(self, saved: dict[str, bytes]) -> None:
        self.files.crash()
        for name in self.files.names("journal"):
            self.files.remove(name)
        for name, data in saved.items():
            self.runner.run(self.files.open_append(name).append(data)) if data else self.files.open_append(name)
        self.open()

    def look(self, *, may_lose: bool = False) -> JournalStore:
        """Open a store on what is there and hold every history against the model's: never a wrong one, never silence."""
        store = JournalStore(self.files, self.clock, self.chance, segment_bytes_max=self.segment, room_bytes=self.room)
        self.runner.run(store.open())
        named = {run.run_id for run in store.damaged()}
        for workflow in IDS:
            true = self.wanted(self.runner.run(self.model.load("default", workflow)))
            runs = {change.run_id for transition in true for change in transition.runs}
            try:
                found = self.wanted(self.runner.run(store.load("default", workflow)))
            except HistoryDamaged as error:
                assert error.run_id in named & (runs | self.dropped)  # noqa: PT017
            else:
                lost = [transition for transition in true if transition not in found]
                assert [transition for transition in true if transition in found] == found
                missing = {change.run_id for transition in lost for change in transition.runs} - named
                assert may_lose or not missing or self.is_nowhere(store, missing)
            for run in runs:
                own = self.runner.run(store.record("default", workflow, run))
                model = self.runner.run(self.model.record("default", workflow, run))
                assert model is not None
                if own is None:
                    assert run in named or may_lose or self.is_nowhere(store, {run})
                else:
                    assert own.events == model.events[: len(own.events)]
                    assert own.events == model.events or own.damage is not None or may_lose
        return store

    def is_nowhere(self, store: JournalStore, missing: set[str]) -> bool:
        """The journal's last line was a run's only one, and its very ids are damaged: lines are known to be lost, whose is not."""
        return len(missing) == 1 and any(fault.named in {"suspicion", ""} and fault.lines for fault in store.recovery.faults)

    @invariant()
    def both_tell_the_same(self) -> None:
        if not hasattr(self, "store"):
            return
        both = (self.store, self.model)
        for workflow in IDS:
            own, model = (self.runner.run(store.load("default", workflow)) for store in both)
            assert self.wanted(own) == self.wanted(model)
            own, model = (self.runner.run(store.record("default", workflow)) for store in both)
            assert own == model or (own is None and model.run_id in self.dropped)
        own, model = (set(self.runner.run(store.open_workflows(range(SHARDS)))) for store in both)
        assert own == model
        own, model = (self.runner.run(store.runs(RunFilter(), 1000)).items for store in both)
        assert [row for row in own if row.run_id not in self.dropped] == [
            row for row in model if row.run_id not in self.dropped
        ]
        assert all(row in model for row in own)

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.runner.close()


TestJournalAgainstMemory = JournalAgainstMemory.TestCase
TestJournalAgainstMemory.settings = settings(stateful_step_count=20)
