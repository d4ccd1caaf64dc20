"""Runs past their keep time go, and their bytes with them; whatever else was written stays, whenever the power fails."""

import asyncio
import random

import pytest
from msgspec import Raw

from perdure.core.events import ChildRequested, Completed, ContinuedAsNew, SignalReceived, Started
from perdure.core.notes import Delivered
from perdure.core.shards import SHARDS
from perdure.core.transition import Message, RunChange, Transition
from perdure.ports import DiskFull, RunFilter
from perdure.store.errors import StoreFailed
from perdure.store.index.index import Index
from perdure.store.journal.repair import verify
from perdure.testing.disk import SimulatedFiles

KEEP = 100
LONG_AGO, LATELY = 50, 999_950
"""The clock of these tests stands at 1,000,000."""


def started(workflow, run="r1", time=LONG_AGO):
    event = Started(id=1, time=time, workflow_type="t", queue="q", run_id=f"{workflow}-{run}", seed=1)
    return Transition(workflow_id=workflow, runs=(RunChange(run_id=f"{workflow}-{run}", events=(event,)),))


def signal(workflow, number, run="r1", time=LONG_AGO, payload=b'"some words to make it longer"'):
    event = SignalReceived(id=number, time=time, name="s", input=(Raw(payload),))
    return Transition(workflow_id=workflow, runs=(RunChange(run_id=f"{workflow}-{run}", events=(event,)),))


def completed(workflow, number, run="r1", time=LONG_AGO, outbox=()):
    event = Completed(id=number, time=time, at=1, based_on=1)
    return Transition(workflow_id=workflow, runs=(RunChange(run_id=f"{workflow}-{run}", events=(event,)),), outbox=outbox)


def continued(workflow, number, run, successor, time=LONG_AGO):
    run, successor = f"{workflow}-{run}", f"{workflow}-{successor}"
    end = ContinuedAsNew(id=number, time=time, at=1, based_on=1, next_run_id=successor, workflow_type="t")
    begin = Started(id=1, time=time, workflow_type="t", queue="q", run_id=successor, seed=2, continued_from=run)
    changes = RunChange(run_id=run, events=(end,)), RunChange(run_id=successor, events=(begin,))
    return Transition(workflow_id=workflow, runs=changes)


def delivered(workflow, message, run="r1"):
    note = Delivered(id=1, time=LONG_AGO, after=2, messages=(message,))
    return Transition(workflow_id=workflow, runs=(RunChange(run_id=f"{workflow}-{run}", notes=(note,)),))


OWED = Message(request_id="m1", workflow_id="elsewhere", kind="x")


def story():
    """Many runs closed long ago, between them some that are wanted."""
    yield [started("open"), started("chain"), started("owes"), started("again")]
    yield [continued("chain", 2, "r1", "r2"), completed("again", 2)]
    for number in range(20):
        yield [started(f"old{number}"), signal(f"old{number}", 2), signal("open", number + 2)]
        yield [signal(f"old{number}", 3), completed(f"old{number}", 4)]
    yield [signal("chain", 2, "r2"), continued("chain", 3, "r2", "r3"), started("again", "r2"), signal("again", 2, "r2")]
    yield [completed("owes", 2, outbox=(OWED,)), started("late"), completed("late", 2, time=LATELY)]
    for number in range(20, 40):
        yield [started(f"old{number}"), completed(f"old{number}", 2)]
    yield [signal("chain", 2, "r3", LATELY)]


WANTED = {
    "open": ["open-r1"],
    "chain": ["chain-r3"],
    "owes": ["owes-r1"],
    "again": ["again-r2"],
    "late": ["late-r1"],
}
ROOM = 3_000


async def write(store, groups):
    lease = await store.acquire("n", range(SHARDS))
    for group in groups:
        assert all(result.ok for result in await store.commit(lease, group))


async def told(store):
    """Every run that is listed, and its events."""
    rows = (await store.runs(RunFilter(), 1000)).items
    return {row.run_id: (await store.record("default", row.workflow_id, row.run_id)).events for row in rows}


def all_events():
    events = {}
    for group in story():
        for transition in group:
            for change in transition.runs:
                events[change.run_id] = events.get(change.run_id, ()) + change.events
    return events


def check(found):
    """Wanted runs are there as they were; of the others nothing, or all."""
    true = all_events()
    wanted = {run for runs in WANTED.values() for run in runs}
    assert wanted <= set(found)
    for run, events in found.items():
        assert events == true[run], run


def size(bench, files):
    return sum(len(data) for name, data in bench.contents(files).items() if name.endswith(".jsonl"))


@pytest.fixture(params=["memory", "file"])
def index_of(request, tmp_path):
    """Makes the index of the next store: in memory, or going on with a file."""
    return lambda: Index(tmp_path / "index.sqlite") if request.param == "file" else Index()


@pytest.mark.scenario(93)
def test_runs_past_their_keep_time_go_with_their_bytes(bench, index_of) -> None:
    """Gone from listings, records and the disk; open runs, late ones, successors and those that owe a message are as they were."""
    files = bench.files()

    async def run() -> None:
        store = bench.store(files, segment_bytes_max=ROOM, index=index_of())
        await store.open()
        await write(store, story())
        before = size(bench, files)
        done = await store.compact(KEEP)
        assert done.runs == 43
        assert done.segments > 2
        found = await told(store)
        check(found)
        assert set(found) == {run for runs in WANTED.values() for run in runs}
        assert size(bench, files) < before / 2
        assert await store.record("default", "old3") is None
        assert list(await store.load("default", "old3")) == []
        loaded = await store.load("default", "chain")
        assert [change.run_id for transition in loaded for change in transition.runs] == ["chain-r3", "chain-r3"]
        again = await store.compact(KEEP)
        assert (again.runs, again.segments) == (0, 0)
        await write(store, [[signal("open", 22)], [started("old3", "r2", LATELY)]])
        assert len(await store.load("default", "old3")) == 1
        await store.close()

    asyncio.run(run())
    assert verify(files).faults == ()

    async def reopen(index: Index) -> None:
        store = bench.store(files, segment_bytes_max=ROOM, index=index)
        await store.open()
        found = await told(store)
        assert found.pop("old3-r2")
        assert len(found["open-r1"]) == 22
        assert set(found) == {run for runs in WANTED.values() for run in runs}
        assert set(await store.open_workflows(range(SHARDS))) == {
            ("default", name) for name in ("open", "chain", "owes", "again", "old3")
        }
        lease = await store.acquire("n", range(SHARDS))
        assert (await store.commit(lease, [delivered("owes", "m1")]))[0].ok
        assert (await store.compact(KEEP, share=0)).runs == 1
        assert "owes-r1" not in await told(store)
        await store.close()
        files.crash()

    for index in (index_of(), Index()):
        saved = bench.contents(files)
        asyncio.run(reopen(index))
        if index is not None:
            files = bench.files(saved)


class Dying(SimulatedFiles):
    """A disk of a process that dies at its next operation but so many that change anything."""

    def __init__(self, contents: dict[str, bytes], clock, seed: int) -> None:
        super().__init__(random.Random(seed), clock)
        self.left = 1 << 30
        for name, data in contents.items():
            asyncio.run(self.open_append(name).append(data)) if data else self.open_append(name)

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(5, "the process is dead")

    def next_fault(self):
        self.step()
        return super().next_fault()

    def replace(self, name: str, by: str) -> None:
        self.step()
        super().replace(name, by)

    def remove(self, name: str) -> None:
        if name in self._contents:
            self.step()
        super().remove(name)


@pytest.mark.rule("F7")
@pytest.mark.parametrize("keeps_index", [False, True])
def test_whenever_the_process_dies_nothing_that_is_wanted_is_lost(bench, tmp_path, keeps_index) -> None:
    """Killed at every operation on the disk: wanted runs are as they were, others whole or gone, none is open again; then it goes on."""
    files = bench.files()
    bench.write(files, list(story()), segment_bytes_max=ROOM)
    contents = bench.contents(files)
    clock = bench.clock()

    async def pass_over(disk, index, *, dies: bool) -> None:
        store = bench.store(disk, segment_bytes_max=ROOM, index=index)
        await store.open()
        if dies:
            with pytest.raises((OSError, StoreFailed)):
                await store.compact(KEEP, share=0)
            index.let_go()
            disk.left = 1 << 30
        else:
            await store.compact(KEEP, share=0)
            await store.close()

    async def look(disk, index) -> None:
        store = bench.store(disk, segment_bytes_max=ROOM, index=index)
        await store.open()
        assert store.damaged() == []
        check(await told(store))
        assert {name for _, name in await store.open_workflows(range(SHARDS))} == {"open", "chain", "again", "owes"}
        for workflow in WANTED:
            first = (await store.load("default", workflow))[0]
            assert first.runs[0].events[0].id == 1
        await write(store, [[signal("open", 22)]])
        assert len((await store.record("default", "open")).events) == 22
        index.let_go()

    died = 0
    for left in range(200):
        path = tmp_path / f"index{left}.sqlite"
        disk = Dying(contents, clock, left)
        if keeps_index:  # it is at the journal's end when the pass begins
            asyncio.run(pass_over_nothing(bench, disk, Index(path)))
        disk.left = left
        try:
            asyncio.run(pass_over(disk, Index(path) if keeps_index else Index(), dies=True))
        except pytest.fail.Exception:
            break
        died += 1
        disk.crash()
        saved = bench.contents(disk)
        asyncio.run(look(disk, Index(path) if keeps_index else Index()))
        disk = Dying(saved, clock, left)
        asyncio.run(look(disk, Index()))
        disk.crash()
        asyncio.run(pass_over(disk, Index(), dies=False))
        assert verify(disk).faults == ()
    assert died > 12


async def pass_over_nothing(bench, disk, index) -> None:
    store = bench.store(disk, segment_bytes_max=ROOM, index=index)
    await store.open()
    disk.crash()
    index.let_go()


def test_commits_go_on_meanwhile(bench) -> None:
    """What is committed while segments are written anew is kept, wherever a crash ends it."""
    for turns in (3, 10, 40, 100, 400):
        files = bench.files(seed=turns)
        files._sync_us = (1, 3)
        acknowledged = []

        async def run(files=files, turns=turns, acknowledged=acknowledged) -> None:
            index = Index()
            store = bench.store(files, segment_bytes_max=ROOM, index=index)
            await store.open()
            await write(store, story())
            lease = await store.acquire("n", range(SHARDS))

            async def commit() -> None:
                for number in range(22, 1000):
                    await store.commit(lease, [signal("open", number)])
                    acknowledged.append(number)

            compacting = asyncio.create_task(store.compact(KEEP))
            committing = asyncio.create_task(commit())
            for _ in range(turns):
                await asyncio.sleep(0)
            files.crash()
            for task in (compacting, committing):
                task.cancel()
            await asyncio.gather(compacting, committing, return_exceptions=True)

        asyncio.run(run())
        files.crash()

        async def look(files=files, acknowledged=acknowledged) -> None:
            store = bench.store(files, segment_bytes_max=ROOM)
            await store.open()
            events = (await store.record("default", "open")).events
            assert [event.id for event in events] == list(range(1, len(events) + 1))
            assert len(events) >= max(acknowledged, default=21)
            assert store.damaged() == []
            found = await told(store)
            found.pop("open-r1")
            true = all_events()
            assert all(events == true[run] for run, events in found.items())
            store._index.let_go()

        asyncio.run(look())
        assert acknowledged or turns < 40


def test_runs_of_an_open_chain_that_asked_for_children_stay(bench) -> None:
    """Whoever closes the chain must find the children of its earlier runs; and nothing behind such a run goes either."""
    files = bench.files()

    async def run() -> None:
        store = bench.store(files, segment_bytes_max=ROOM)
        await store.open()
        await write(store, [[started("chain")], [continued("chain", 2, "r1", "r2")]])
        asked = ChildRequested(id=2, time=LONG_AGO, at=1, based_on=1, workflow_type="t", workflow_id="k")
        change = RunChange(run_id="chain-r2", events=(asked,))
        await write(store, [[Transition(workflow_id="chain", runs=(change,))]])
        await write(store, [[continued("chain", 3, "r2", "r3")], [continued("chain", 2, "r3", "r4")]])
        assert (await store.compact(KEEP, share=0)).runs == 1
        assert set(await told(store)) == {"chain-r2", "chain-r3", "chain-r4"}
        await write(store, [[completed("chain", 2, "r4")]])
        assert (await store.compact(KEEP, share=0)).runs == 3
        assert await told(store) == {}
        await store.close()

    asyncio.run(run())


def test_a_full_disk_puts_it_off(bench) -> None:
    """Without room for the new file the old one stays; with room it is done."""
    files = bench.files()

    async def run() -> None:
        store = bench.store(files, segment_bytes_max=ROOM)
        await store.open()
        await write(store, story())
        files.arm("full")
        with pytest.raises(DiskFull):
            await store.compact(KEEP)
        check(await told(store))
        assert (await store.compact(KEEP)).segments
        check(await told(store))
        await store.close()

    asyncio.run(run())
    assert verify(files).faults == ()


def test_damaged_bytes_are_not_dropped(bench) -> None:
    """While there is a fault that was not repaired no segment is written anew."""
    files = bench.files()
    bench.write(files, list(story()), segment_bytes_max=ROOM)
    contents = bench.contents(files)
    name = min(contents)
    contents[name] = contents[name][:1500] + b"?" + contents[name][1501:]
    files = bench.files(contents)

    async def run() -> None:
        store = bench.store(files, segment_bytes_max=ROOM)
        await store.open()
        assert store.damaged()
        assert (await store.compact(KEEP)).segments == 0
        assert bench.contents(files)[name] == contents[name]
        await store.close()

    asyncio.run(run())
