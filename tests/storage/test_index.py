"""The index beside a journal: it may be missing, behind, ahead, foreign, damaged or unwritable, and every answer is the journal's all the same."""

import asyncio
import random
import sqlite3
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from perdure.core.errors import HistoryDamaged
from perdure.core.events import AttributesSet, Completed, ContinuedAsNew, SignalReceived, Started
from perdure.core.shards import SHARDS
from perdure.core.transition import RunChange, Transition
from perdure.ports import Lease, RunFilter
from perdure.runtime.chance import RealChance
from perdure.runtime.clock import RealClock
from perdure.runtime.files import LocalFiles
from perdure.store.errors import JournalCorrupt
from perdure.store.index import writing as module
from perdure.store.index.file import BUILDING, DAMAGED
from perdure.store.index.index import Index
from perdure.store.index.schema import INDEX_FILE
from perdure.store.index.tables import Tables
from perdure.store.journal import JournalStore
from perdure.store.memory import MemoryStore

IDS = [f"w{n}" for n in range(12)]
QUERIES = ("", "status = 'running'", "attr.n > 3", "type = 'a' and not attr.n is null", "closed_at is not null")


class Story:
    """Transitions that follow one another, and the reference store that took them."""

    def __init__(self, seed: int = 1) -> None:
        self.chance = random.Random(seed)
        self.heads: dict[str, tuple[int, int]] = {}
        self.time = 1_000
        self.model = MemoryStore()

    def next(self) -> Transition:
        self.time += self.chance.randrange(3)
        workflow = self.chance.choice(IDS)
        run, number = self.heads.get(workflow, (0, 0))
        here, to = f"{workflow}-{run}", {"at": 1, "based_on": max(1, number), "time": self.time, "id": number + 1}
        if not number:
            self.heads[workflow] = run + 1, 1
            return self._started(workflow, run + 1)
        kind = self.chance.randrange(6)
        self.heads[workflow] = run, number + 1
        if kind == 0:
            self.heads[workflow] = run, 0
            return self._change(workflow, RunChange(run_id=here, events=(Completed(**to),)))
        if kind == 1:
            self.heads[workflow] = run + 1, 1
            end = ContinuedAsNew(**to, next_run_id=f"{workflow}-{run + 1}", workflow_type="a")
            begin = self._started(workflow, run + 1).runs[0]
            return self._change(workflow, RunChange(run_id=here, events=(end,)), begin)
        if kind == 2:
            values = {"n": self.chance.randrange(9), "tags": ["x", "y"][: self.chance.randrange(3)]}
            return self._change(workflow, RunChange(run_id=here, events=(AttributesSet(**to, attributes=values),)))
        event = SignalReceived(id=number + 1, time=self.time, name="go")
        return self._change(workflow, RunChange(run_id=here, events=(event,)))

    def _started(self, workflow: str, run: int) -> Transition:
        begin = Started(
            id=1, time=self.time, workflow_type=self.chance.choice("ab"), queue="q", run_id=f"{workflow}-{run}", seed=1
        )
        return self._change(workflow, RunChange(run_id=begin.run_id, events=(begin,)))

    def _change(self, workflow: str, *runs: RunChange) -> Transition:
        return Transition(workflow_id=workflow, runs=runs)

    async def grow(self, store: JournalStore, lease: Lease, transitions: int) -> None:
        model = await self.model.acquire("n", range(SHARDS))
        while transitions > 0:
            batch = [self.next() for _ in range(min(transitions, self.chance.randint(1, 5)))]
            transitions -= len(batch)
            assert all(result.ok for result in await store.commit(lease, batch))
            await self.model.commit(model, batch)

    async def check(self, store: JournalStore) -> None:
        """Every answer is that of the reference store; those about one workflow id first, while listings have not waited yet."""
        for workflow in [*IDS, "nobody"]:
            assert await store.load("default", workflow) == await self.model.load("default", workflow)
            assert await store.record("default", workflow) == await self.model.record("default", workflow)
            for run in range(1, 4):
                own, model = [await each.record("default", workflow, f"{workflow}-{run}") for each in (store, self.model)]
                assert own == model
            assert store.may_hold("default", workflow) or not self.model.may_hold("default", workflow)
        for query in QUERIES:
            filter, cursor = RunFilter(query=query), ""
            while True:
                page = await store.runs(filter, 7, cursor)
                assert page == await self.model.runs(filter, 7, cursor)
                if not (cursor := page.cursor):
                    break
            assert await store.count(filter) == await self.model.count(filter)
        own, model = [await each.open_workflows(range(SHARDS)) for each in (store, self.model)]
        assert sorted(own) == sorted(model)


def run(test: Callable[[Path], Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
    def ran(tmp_path: Path) -> None:
        asyncio.run(test(tmp_path))

    ran.__doc__, ran.__name__ = test.__doc__, test.__name__
    return ran


class Life:
    """One process's use of a store. Left without `close` it died."""

    def __init__(self, path: Path, index: Index | None = None) -> None:
        self.index = index or Index(path / INDEX_FILE)
        self.store = JournalStore(LocalFiles(path), RealClock(), RealChance(), segment_bytes_max=4_000, index=self.index)

    async def begin(self) -> tuple[JournalStore, Lease]:
        await self.store.open()
        return self.store, await self.store.acquire("n", range(SHARDS))

    def die(self) -> None:
        """What is not written stays unwritten."""
        self.index.let_go()
        lock, self.store._lock = self.store._lock, None
        assert lock is not None
        lock.cancel()


def contents(path: Path) -> dict[str, bytes]:
    """The files beside the journal, but for the lock."""
    return {file.name: file.read_bytes() for file in path.iterdir() if file.is_file() and file.name != "lock"}


@run
async def test_a_restart_reads_only_what_the_index_does_not_know(path: Path) -> None:
    """After a clean stop nothing is read; after a crash what was not indexed, and the answers are right both times."""
    story = Story()
    store, lease = await Life(path).begin()
    await story.grow(store, lease, 300)
    await story.check(store)
    await store.close()
    life = Life(path)
    store, lease = await life.begin()
    assert (store.recovery.transitions, store.recovery.lines, store.recovery.clean) == (0, 0, True)
    assert store.recovery.newest == story.time
    await story.check(store)
    await story.grow(store, lease, 40)
    await store.count(RunFilter())
    await story.grow(store, lease, 25)
    life.die()
    store, lease = await Life(path).begin()
    assert store.recovery.transitions == 25
    assert not store.recovery.clean
    await story.check(store)
    await story.grow(store, lease, 10)
    await story.check(store)
    await store.close()


@run
async def test_an_index_that_is_gone_is_made_anew(path: Path) -> None:
    """It may be deleted at any time."""
    story = Story(2)
    store, lease = await Life(path).begin()
    await story.grow(store, lease, 120)
    await store.close()
    (path / INDEX_FILE).unlink()
    store, lease = await Life(path).begin()
    assert store.recovery.transitions == 120
    await story.check(store)
    await store.close()
    assert (path / INDEX_FILE).exists()
    assert not (path / (INDEX_FILE + BUILDING)).exists()


@run
async def test_an_index_of_another_time_or_journal_is_not_believed(path: Path) -> None:
    """One that is behind is read on from; one of another journal, or ahead of this one, is made anew."""
    story = Story(3)
    store, lease = await Life(path).begin()
    await story.grow(store, lease, 60)
    await store.close()
    older = (path / INDEX_FILE).read_bytes()
    shorter = {name: name.read_bytes() for name in (path / "journal").iterdir()}
    model = story.model
    store, lease = await Life(path).begin()
    await story.grow(store, lease, 30)
    await store.close()
    newer = (path / INDEX_FILE).read_bytes()
    (path / INDEX_FILE).write_bytes(older)
    store, _ = await Life(path).begin()
    assert store.recovery.transitions == 30
    await story.check(store)
    await store.close()
    for name in (path / "journal").iterdir():
        name.unlink()
    for name, data in shorter.items():
        name.write_bytes(data)
    (path / INDEX_FILE).write_bytes(newer)
    store, _ = await Life(path).begin()
    assert store.recovery.transitions == 60
    await store.close()
    assert model is story.model
    other = path / "other"
    store, lease = await Life(other).begin()
    strange = Story(4)
    await strange.grow(store, lease, 60)
    await store.close()
    (path / INDEX_FILE).write_bytes((other / INDEX_FILE).read_bytes())
    store, _ = await Life(path).begin()
    assert store.recovery.transitions == 60
    assert (await store.record("default", strange.next().workflow_id)) is not None
    await store.close()


@pytest.mark.parametrize("place", [0, 20, 100, 5_000, 12_000])
@pytest.mark.parametrize("bytes_damaged", [1, 3_000])
def test_a_damaged_index_is_set_aside_and_made_anew(tmp_path: Path, place: int, bytes_damaged: int) -> None:
    """Whatever SQLite says of the file, at opening or while it is used, answers stay those of the journal."""

    async def proof() -> None:
        story = Story(5)
        store, lease = await Life(tmp_path).begin()
        await story.grow(store, lease, 200)
        await store.close()
        index = tmp_path / INDEX_FILE
        data = bytearray(index.read_bytes())
        if bytes_damaged == 1 and place > 100:
            return  # one byte of a value is no damage SQLite could see
        data[place : place + bytes_damaged] = b"\xa5" * bytes_damaged
        index.write_bytes(bytes(data))
        store, lease = await Life(tmp_path).begin()
        await story.check(store)
        await story.grow(store, lease, 20)
        await story.check(store)
        await store.close()
        store, _ = await Life(tmp_path).begin()
        await story.check(store)
        await store.close()

    asyncio.run(proof())


@run
async def test_a_file_that_is_no_index_is_kept_for_people(path: Path) -> None:
    """What cannot be read is put aside under another name."""
    path.joinpath(INDEX_FILE).write_bytes(b"no database at all" * 400)
    store, _ = await Life(path).begin()
    await store.close()
    assert path.joinpath(INDEX_FILE + DAMAGED).read_bytes().startswith(b"no database")


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE places",
        "DROP INDEX runs_by_workflow",
        "UPDATE state SET position = 'no bytes'",
        "DELETE FROM state",
        "PRAGMA user_version = 99",
    ],
)
def test_an_index_that_is_made_otherwise_is_made_anew(tmp_path: Path, change: str) -> None:
    """A table that is gone or a value of another kind is seen at the opening, not by whoever asks later."""

    async def proof() -> None:
        story = Story(9)
        store, lease = await Life(tmp_path).begin()
        await story.grow(store, lease, 60)
        await store.close()
        connection = sqlite3.connect(tmp_path / INDEX_FILE)
        connection.execute(change)
        connection.commit()
        connection.close()
        store, _ = await Life(tmp_path).begin()
        assert store.recovery.transitions == 60
        await story.check(store)
        await store.close()

    asyncio.run(proof())


@run
async def test_a_row_that_the_disk_changed_is_found_while_it_is_in_use(path: Path) -> None:
    """A workflow id that reads otherwise is no damage SQLite sees by itself, and its runs could not be found; soon after the start they can."""
    store, lease = await Life(path).begin()
    await store.commit(lease, [transition("order-1", 1), transition("order-2", 1)])
    await store.close()
    file = path / INDEX_FILE
    data = file.read_bytes()
    file.write_bytes(data.replace(b"order-1", b"order-X", 1))
    life = Life(path)
    store, _ = await life.begin()
    await asyncio.wait([task for task in asyncio.all_tasks() if task.get_name() == "perdure index check"])
    assert await store.load("default", "order-1") == (transition("order-1", 1),)
    assert await store.record("default", "order-X") is None
    await store.close()
    assert (path / (INDEX_FILE + DAMAGED)).exists()


@run
async def test_a_stop_does_not_wait_for_the_look_through_the_file(path: Path) -> None:
    """Closed at once, nothing of it is left: no thread and no task."""
    story = Story(10)
    store, lease = await Life(path).begin()
    await story.grow(store, lease, 100)
    await store.close()
    store, _ = await Life(path).begin()
    await store.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("perdure-index")]
    assert len(asyncio.all_tasks()) == 1


def transition(workflow: str, number: int) -> Transition:
    event = (
        Started(id=1, time=1, workflow_type="a", queue="q", run_id=f"run-{workflow}", seed=1)
        if number == 1
        else SignalReceived(id=number, time=1, name="go")
    )
    return Transition(workflow_id=workflow, runs=(RunChange(run_id=f"run-{workflow}", events=(event,)),))


@pytest.mark.parametrize("others", ["another id's", "a later one"])
def test_a_whole_line_of_the_same_length_is_not_taken_for_the_one_that_was_there(tmp_path: Path, others: str) -> None:
    """Its checksum is right, and yet it is not the history that was asked for: the run is set aside, and the next start reads everything."""

    async def proof() -> None:
        store, lease = await Life(tmp_path).begin()
        for number in range(1, 8):
            await store.commit(lease, [transition(workflow, number) for workflow in "abc"])
        await store.close()
        file = tmp_path / "journal" / "00000001.jsonl"
        lines = file.read_bytes().splitlines(keepends=True)
        there, other = [5, 6] if others == "another id's" else [4, 7]  # event 2 of b, of c; events 2, 3 of a
        assert len(lines[there]) == len(lines[other])
        lines[there] = lines[other]
        file.write_bytes(b"".join(lines))
        hit = "b" if others == "another id's" else "a"
        store, _ = await Life(tmp_path).begin()
        assert store.recovery.transitions == 0
        with pytest.raises(HistoryDamaged):
            await store.load("default", hit)
        record = await store.record("default", hit)
        assert record is not None
        assert [event.id for event in record.events] == [1]
        for workflow in {"a", "b", "c"} - {hit}:
            assert len(await store.load("default", workflow)) == 7
        await store.close()
        store, _ = await Life(tmp_path).begin()
        assert store.recovery.transitions > 0
        assert hit in {run.workflow_id for run in store.damaged()}
        await store.close()

    asyncio.run(proof())


@run
async def test_an_index_of_another_journal_names_nobody(path: Path) -> None:
    """Of two lines that are lost in one place it would name a run that never was here, and whose line it really was nobody would hear."""
    for place, ids in ((path, "abc"), (path / "other", "xyz")):
        store, lease = await Life(place).begin()
        for number in range(1, 4):
            await store.commit(lease, [transition(workflow, number) for workflow in ids])
        await store.commit(lease, [transition(ids[2], 4)])
        await store.close()
    (path / INDEX_FILE).write_bytes((path / "other" / INDEX_FILE).read_bytes())
    file = path / "journal" / "00000001.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    for lost in (7, 8):  # event 3 of a and of b, the last of both
        lines[lost] = lines[lost][:30] + b"???" + lines[lost][33:]
    file.write_bytes(b"".join(lines))
    store, _ = await Life(path).begin()
    assert {run.workflow_id for run in store.damaged()} == {"a", "b"}
    await store.close()


@run
async def test_two_segments_that_were_exchanged_are_refused_though_the_index_knows_them(path: Path) -> None:
    """Nothing of them need be read; that they stand in the wrong places is seen all the same, and putting them back is all it takes."""
    story = Story(11)
    store, lease = await Life(path).begin()
    await story.grow(store, lease, 200)
    await store.close()
    one, two = [path / "journal" / f"{number:08}.jsonl" for number in (2, 4)]
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    with pytest.raises(JournalCorrupt, match="segment 4"):
        await Life(path).begin()
    one.write_bytes(first)
    two.write_bytes(second)
    store, _ = await Life(path).begin()
    await story.check(store)
    await store.close()


@pytest.mark.parametrize("error", [sqlite3.OperationalError("database or disk is full"), sqlite3.DatabaseError("malformed")])
def test_commits_go_on_when_the_index_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: sqlite3.Error
) -> None:
    """A disk that is full for the index alone, or a damaged file: nothing is lost, nobody is refused, the next start mends it."""

    async def proof() -> None:
        story = Story(6)
        store, lease = await Life(tmp_path).begin()
        await story.grow(store, lease, 80)
        await store.count(RunFilter())
        real = Tables.write
        left = [1]

        def fails(self: Tables, *args: Any) -> None:
            if left and left.pop():
                raise error
            real(self, *args)

        monkeypatch.setattr(Tables, "write", fails)
        await story.grow(store, lease, 40)
        await story.check(store)
        assert not left
        await story.grow(store, lease, 40)
        await story.check(store)
        await store.close()
        store, lease = await Life(tmp_path).begin()
        assert store.recovery.transitions >= 80
        await story.check(store)
        await store.close()

    asyncio.run(proof())


@run
async def test_a_copy_changes_nothing(path: Path) -> None:
    """Whoever only reads takes the index of a stopped node into memory; of one that died, the journal is read."""
    story = Story(11)
    store, lease = await Life(path).begin()
    await story.grow(store, lease, 90)
    await store.close()

    async def look() -> int:
        before = contents(path)
        life = Life(path, Index(copy_of=path / INDEX_FILE))
        store, _ = await life.begin()
        await story.check(store)
        life.die()
        assert before == contents(path)
        return store.recovery.transitions

    assert await look() == 0
    (path / (INDEX_FILE + "-wal")).touch()
    assert await look() == 90


@run
async def test_an_index_that_cannot_be_made_is_in_memory(path: Path) -> None:
    """Where its file should be stands a directory: the node runs all the same."""
    (path / (INDEX_FILE + BUILDING)).mkdir(parents=True)
    story = Story(7)
    store, lease = await Life(path).begin()
    await story.grow(store, lease, 50)
    await story.check(store)
    await store.close()


@run
async def test_whose_a_line_is(path: Path) -> None:
    """Any byte of a line leads to its workflow id and runs, from the tables and from what waits to be written."""
    story = Story(8)
    life = Life(path)
    store, lease = await life.begin()
    for _ in range(2):
        await story.grow(store, lease, 60)
        for workflow in IDS:
            for place, transition in zip(
                life.index.places(("default", workflow)), await store.load("default", workflow), strict=True
            ):
                for byte in (place.offset, place.offset + place.length - 1):
                    found = life.index.who_wrote(place.segment, byte)
                    assert found is not None
                    assert (found.namespace, found.workflow_id) == ("default", workflow)
                    assert {change.run_id for change in transition.runs} <= set(found.run_ids)
        assert life.index.who_wrote(999, 0) is None
        await store.count(RunFilter())
    await store.close()


@run
async def test_answers_are_right_while_the_thread_writes(path: Path) -> None:
    """Reads between any two steps of a write see each transition once."""
    story = Story(9)
    life = Life(path)
    store, lease = await life.begin()
    for _ in range(30):
        await story.grow(store, lease, 20)
        waiting = asyncio.ensure_future(life.index.reached())
        while not waiting.done():
            for workflow in IDS:
                assert await store.load("default", workflow) == await story.model.load("default", workflow)
                own, model = [await each.record("default", workflow) for each in (store, story.model)]
                assert own == model
            await asyncio.sleep(0)
        await waiting
    await store.close()


def test_commits_wait_when_far_too_much_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tail has a bound."""
    monkeypatch.setattr(module, "TAIL_MAX", 50)
    monkeypatch.setattr(module, "BEHIND_S", 3_600.0)

    async def proof() -> None:
        story = Story(10)
        life = Life(tmp_path)
        store, lease = await life.begin()
        for _ in range(40):
            await story.grow(store, lease, 5)
            assert life.index._tail.size <= 55
        await store.close()

    asyncio.run(proof())
