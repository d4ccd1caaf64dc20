"""One suite for every store: what `ports.Store` promises, whatever stands behind it."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec import Raw
from msgspec.structs import replace

from perdure.core.errors import InvalidArgument
from perdure.core.events import AttributesSet, Completed, ContinuedAsNew, ParentLink, Reset, SignalReceived, Started, Terminated
from perdure.core.notes import Delivered, Paused, Quarantined, Resumed
from perdure.core.shards import SHARDS, shard_of
from perdure.core.transition import Message, RunChange, Transition
from perdure.ports import Census, Lease, RunFilter, Store
from perdure.runtime.chance import RealChance
from perdure.runtime.clock import RealClock
from perdure.runtime.files import LocalFiles
from perdure.store.index.index import Index
from perdure.store.index.schema import INDEX_FILE
from perdure.store.journal import JournalStore
from perdure.store.memory import MemoryStore

ALL = range(SHARDS)
Proof = Callable[[Store, Lease], Awaitable[None]]


@pytest.fixture(params=["memory", "journal", "indexed"])
def prove(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Proof], None]:
    """Run a coroutine function with an open store of each kind and a lease on all of its shards."""

    def make() -> Store:
        if request.param == "memory":
            return MemoryStore()
        index = Index(tmp_path / INDEX_FILE) if request.param == "indexed" else Index()
        return JournalStore(LocalFiles(tmp_path), RealClock(), RealChance(), segment_bytes_max=2000, index=index)

    async def run(proof: Proof) -> None:
        store = make()
        await store.open()
        try:
            await proof(store, await store.acquire("node", ALL))
        finally:
            await store.close()

    return lambda proof: asyncio.run(run(proof))


def started(workflow: str, run: str = "r1", *, time: int = 1000, type: str = "order", namespace: str = "default", **fields):
    event = Started(id=1, time=time, workflow_type=type, queue="q", run_id=run, seed=1, **fields)
    return Transition(namespace=namespace, workflow_id=workflow, runs=(RunChange(run_id=run, events=(event,)),))


def signal(workflow: str, number: int, run: str = "r1", text: bytes = b'"x"', namespace: str = "default"):
    event = SignalReceived(id=number, time=2000, name="go", input=(Raw(text),))
    return Transition(namespace=namespace, workflow_id=workflow, runs=(RunChange(run_id=run, events=(event,)),))


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def completed(workflow: str, number: int, run: str = "r1", time: int = 3000):
    event = Completed(id=number, time=time, at=1, based_on=number - 1)
    return Transition(workflow_id=workflow, runs=(RunChange(run_id=run, events=(event,)),))


def noted(workflow: str, note, run: str = "r1"):
    return Transition(workflow_id=workflow, runs=(RunChange(run_id=run, notes=(note,)),))


def continued(workflow: str, number: int, run: str, successor: str, time: int):
    end = ContinuedAsNew(id=number, time=time, at=1, based_on=1, next_run_id=successor, workflow_type="order")
    begin = Started(id=1, time=time, workflow_type="order", queue="q", run_id=successor, seed=2, continued_from=run)
    changes = RunChange(run_id=run, events=(end,)), RunChange(run_id=successor, events=(begin,))
    return Transition(workflow_id=workflow, runs=changes)


def test_what_was_committed_is_loaded_in_order(prove) -> None:
    """Transitions of one id come back equal and in the order of their commits, others left out."""

    async def proof(store: Store, lease: Lease) -> None:
        own = [started("a"), *(signal("a", number) for number in range(2, 30))]
        for index in range(0, len(own), 3):
            results = await store.commit(lease, [*own[index : index + 3], started(f"other-{index}")])
            assert all(result.ok for result in results)
            assert len(results) == len(own[index : index + 3]) + 1
        assert list(await store.load("default", "a")) == own
        assert list(await store.load("default", "other-3")) == [started("other-3")]

    prove(proof)


def test_commits_at_the_same_time_are_all_kept(prove) -> None:
    """Concurrent callers are put in line; none is lost and each id keeps its order."""

    async def proof(store: Store, lease: Lease) -> None:
        async def grow(workflow: str) -> None:
            await store.commit(lease, [started(workflow)])
            for number in range(2, 8):
                await store.commit(lease, [signal(workflow, number)])

        await asyncio.gather(*(grow(f"w{index}") for index in range(10)))
        for index in range(10):
            record = await store.record("default", f"w{index}")
            assert record is not None
            assert [event.id for event in record.events] == list(range(1, 8))

    prove(proof)


def test_reads_see_nothing_before_its_commit_returned(prove) -> None:
    """While a commit is under way its transitions are in no read; afterwards they are in all of them."""

    async def proof(store: Store, lease: Lease) -> None:
        commit = store.commit(lease, [started("a")])
        assert list(await store.load("default", "a")) == []
        assert await store.record("default", "a") is None
        assert await store.count(RunFilter()) == 0
        await commit
        assert len(await store.load("default", "a")) == 1
        assert await store.count(RunFilter()) == 1

    prove(proof)


def test_unknown_ids_are_empty_not_errors(prove) -> None:
    """Nothing is known of an id nobody committed, of another namespace's, or of another run."""

    async def proof(store: Store, lease: Lease) -> None:
        await store.commit(lease, [started("a")])
        assert list(await store.load("default", "b")) == []
        assert list(await store.load("elsewhere", "a")) == []
        assert await store.record("default", "b") is None
        assert await store.record("default", "a", "r9") is None
        assert list(await store.commit(lease, [])) == []

    prove(proof)


@pytest.mark.parametrize(
    "odd", ['"quoted"', "back\\slash", "🦊" * 63, "x" * 255, "a/b?c=d&e", "null", "\u2028", "{}", "ünïcödé"]
)
def test_odd_ids_are_ids(prove, odd: str) -> None:
    """Workflow and run ids are kept byte for byte, whatever characters they hold."""

    async def proof(store: Store, lease: Lease) -> None:
        await store.commit(lease, [started(odd, odd), started("plain", "r2")])
        await store.commit(lease, [signal(odd, 2, odd)])
        record = await store.record("default", odd, odd)
        assert record is not None
        assert (record.workflow_id, record.run_id, len(record.events)) == (odd, odd, 2)
        page = await store.runs(RunFilter(query=f"workflow_id = {quoted(odd)}"), 10)
        assert [item.run_id for item in page.items] == [odd]

    prove(proof)


@pytest.mark.parametrize("text", [b'{"a": 1,\n "b": [2,\n3]}', b"[1,\r\n\t2]", b"\n7\n"])
def test_a_payload_with_newlines_is_kept_as_the_same_value(prove, text: bytes) -> None:
    """Newlines between a payload's tokens do not break framing; the payload's value is the same afterwards."""

    async def proof(store: Store, lease: Lease) -> None:
        await store.commit(lease, [started("a"), signal("a", 2, text=text), started("b")])
        record = await store.record("default", "a")
        assert record is not None
        assert json.loads(bytes(record.events[1].input[0])) == json.loads(text)
        assert len(await store.load("default", "b")) == 1

    prove(proof)


@pytest.mark.scenario(44)
@pytest.mark.parametrize(
    "poison", [b"{", b'"a\nb"', b'{"a":}', b"nan", b'1}],"x":[{', b"[" * 100_000 + b"]" * 100_000, b'"\x00"']
)
@pytest.mark.scenario(41)
def test_poison_is_refused_alone(prove, poison: bytes) -> None:
    """A payload that is no JSON is refused with all that follows it under its id; the rest of the group is kept and can be read."""

    async def proof(store: Store, lease: Lease) -> None:
        await store.commit(lease, [started("a"), started("b")])
        batch = [signal("b", 2), signal("a", 2, text=poison), signal("a", 3), signal("b", 3)]
        results = await store.commit(lease, batch)
        assert [result.ok for result in results] == [True, False, False, True]
        assert results[1].reason.startswith("refused: ")
        assert len(await store.load("default", "a")) == 1
        assert len(await store.load("default", "b")) == 3
        assert [result.ok for result in await store.commit(lease, [signal("a", 2)])] == [True]

    prove(proof)


def test_a_lone_surrogate_is_refused_alone(prove) -> None:
    """Text that has no UTF-8 form harms nobody else."""

    async def proof(store: Store, lease: Lease) -> None:
        results = await store.commit(lease, [started("a", type="\ud800"), started("b")])
        assert [result.ok for result in results] == [False, True]

    prove(proof)


@pytest.mark.rule("O11", "O15")
def test_an_older_lease_is_fenced_shard_by_shard(prove) -> None:
    """After another acquisition a lease still writes to the shards it kept, and to no other; nothing fenced is kept."""

    async def proof(store: Store, lease: Lease) -> None:
        taken = shard_of("default", "a")
        kept = next(f"w{n}" for n in range(100) if shard_of("default", f"w{n}") != taken)
        newer = await store.acquire("other", [taken])
        assert newer.range_ids[taken] > lease.range_ids[taken]
        results = await store.commit(lease, [started("a"), started(kept)])
        assert [(result.ok, result.reason) for result in results] == [(False, "fenced"), (True, "")]
        assert list(await store.load("default", "a")) == []
        results = await store.commit(newer, [started("a"), signal(kept, 2)])
        assert [result.ok for result in results] == [True, False]
        assert (await store.commit(lease, [signal(kept, 2)]))[0].ok

    prove(proof)


def test_the_record_is_of_the_run_asked_for(prove) -> None:
    """Over a continue-as-new each run has its own events; without a run id it is the last run's."""

    async def proof(store: Store, lease: Lease) -> None:
        await store.commit(lease, [started("a"), signal("a", 2), continued("a", 3, "r1", "r2", 3000)])
        await store.commit(lease, [signal("a", 2, "r2"), noted("a", Paused(id=1, time=1), "r1")])
        first, last = await store.record("default", "a", "r1"), await store.record("default", "a")
        assert first is not None
        assert last is not None
        assert [event.type for event in first.events] == ["started", "signal_received", "continued_as_new"]
        assert [note.type for note in first.notes] == ["paused"]
        assert last.run_id == "r2"
        assert [event.type for event in last.events] == ["started", "signal_received"]

    prove(proof)


def test_open_workflows_follow_the_last_run(prove) -> None:
    """An id is open while its last run is: after a continue-as-new it still is, after a close it is not, after a new start again."""

    async def proof(store: Store, lease: Lease) -> None:
        await store.commit(lease, [started("a"), started("b"), started("a", namespace="other")])
        await store.commit(lease, [continued("a", 2, "r1", "r2", 2000), completed("b", 2)])
        assert set(await store.open_workflows(ALL)) == {("default", "a"), ("other", "a")}
        await store.commit(lease, [completed("a", 2, "r2"), started("b", "r2")])
        assert set(await store.open_workflows(ALL)) == {("default", "b"), ("other", "a")}
        own = shard_of("default", "b")
        assert ("default", "b") in set(await store.open_workflows([own]))
        assert ("default", "b") not in set(await store.open_workflows([shard for shard in ALL if shard != own]))

    prove(proof)


def test_a_closed_id_with_messages_to_deliver_counts_as_open(prove) -> None:
    """What a closing run leaves in the outbox must be taken up at the next start, until the last of it is noted as delivered."""

    async def proof(store: Store, lease: Lease) -> None:
        left = tuple(Message(request_id=f"r1/{n}", workflow_id="b", kind="signal_workflow", body={}) for n in (2, 3))
        await store.commit(lease, [started("a"), replace(completed("a", 2), outbox=left)])
        assert list(await store.open_workflows(ALL)) == [("default", "a")]
        assert [message.request_id for transition in await store.load("default", "a") for message in transition.outbox] == [
            "r1/2",
            "r1/3",
        ]
        await store.commit(lease, [noted("a", Delivered(id=1, time=3000, messages=("r1/3",)))])
        assert list(await store.open_workflows(ALL)) == [("default", "a")]
        await store.commit(lease, [started("a", "r2"), completed("a", 2, "r2")])
        assert list(await store.open_workflows(ALL)) == [("default", "a")]
        await store.commit(lease, [noted("a", Delivered(id=1, time=3000, messages=("r1/2",)), "r2")])
        assert list(await store.open_workflows(ALL)) == []
        summary = (await store.runs(RunFilter(query="workflow_id = 'a'"), 10)).items
        assert [run.status for run in summary] == ["completed", "completed"]

    prove(proof)


def test_parked_ids_are_told_apart(prove) -> None:
    """What is parked is no open workflow until its next transition, and wakes in the order of its instants."""

    async def proof(store: Store, lease: Lease) -> None:
        await store.commit(lease, [started(id) for id in "abcd"])
        store.park("default", "a", 0)
        store.park("default", "b", 500)
        store.park("default", "c", 300)
        assert list(await store.open_workflows(ALL)) == [("default", "d")]
        assert await store.waking(100) == ([], 300)
        assert await store.waking(300) == ([("default", "c")], 500)
        assert await store.waking(900) == ([("default", "c"), ("default", "b")], 0)
        await store.commit(lease, [signal("c", 2), completed("b", 2)])
        assert await store.waking(900) == ([], 0)
        assert set(await store.open_workflows(ALL)) == {("default", "c"), ("default", "d")}
        store.park("default", "c", 700)
        assert await store.waking(100) == ([], 700)
        assert await store.count(RunFilter(query="status = 'running'")) == 3

    prove(proof)


def test_a_wake_after_all_times(prove) -> None:
    """A timer may be due later than what 63 bits of microseconds can say: its run is parked and listed like any."""

    async def proof(store: Store, lease: Lease) -> None:
        await store.commit(lease, [started(id) for id in "ab"])
        store.park("default", "a", 2**63)
        store.park("default", "b", 2**70)
        assert await store.count(RunFilter(query="status = 'running'")) == 2
        woken, later = await store.waking(2**62)
        assert woken == []
        assert later >= 2**63 - 1

    prove(proof)


def test_the_census_counts_last_runs_that_are_open(prove) -> None:
    """Of all namespaces, parked or not; which are paused and which quarantined, by run id."""

    async def proof(store: Store, lease: Lease) -> None:
        await store.commit(lease, [started("a"), started("b", "r2"), started("c", "r3"), started("d", "r4", namespace="other")])
        store.park("default", "a", 0)
        await store.commit(lease, [noted("b", Paused(id=1, time=5), "r2"), noted("c", Paused(id=1, time=5), "r3")])
        await store.commit(lease, [noted("c", Quarantined(id=2, time=6, reason="odd"), "r3")])
        assert await store.census() == Census(open=4, paused=("r2", "r3"), quarantined=("r3",))
        await store.commit(lease, [noted("c", Resumed(id=3, time=7, by_build="b2"), "r3"), completed("b", 2, "r2")])
        await store.commit(lease, [continued("a", 2, "r1", "r5", 900)])
        assert await store.census() == Census(open=3, paused=("r3",))

    prove(proof)


def test_summaries_say_how_runs_stand(prove) -> None:
    """Status, times and length of each run, through pause, quarantine, resume and every close."""

    async def proof(store: Store, lease: Lease) -> None:
        async def summary(workflow: str, run: str = "r1"):
            page = await store.runs(RunFilter(query=f"workflow_id = {quoted(workflow)}"), 10)
            return next(item for item in page.items if item.run_id == run)

        await store.commit(lease, [started("a", type="t", time=7)])
        fresh = await summary("a")
        assert (fresh.type, fresh.status, fresh.queue, fresh.started_at, fresh.closed_at, fresh.length) == (
            "t", "running", "q", 7, 0, 1,
        )  # fmt: skip
        await store.commit(lease, [noted("a", Paused(id=1, time=8))])
        assert (await summary("a")).status == "paused"
        await store.commit(lease, [noted("a", Quarantined(id=2, time=8, reason="x"))])
        assert (await summary("a")).status == "quarantined"
        await store.commit(lease, [noted("a", Resumed(id=3, time=8))])
        assert (await summary("a")).status == "running"
        await store.commit(lease, [continued("a", 2, "r1", "r2", 9)])
        old, new = await summary("a"), await summary("a", "r2")
        assert (old.status, old.closed_at, old.length) == ("continued", 9, 2)
        assert (new.status, new.started_at) == ("running", 9)
        end = Terminated(id=2, time=11)
        await store.commit(lease, [Transition(workflow_id="a", runs=(RunChange(run_id="r2", events=(end,)),))])
        assert (await summary("a", "r2")).status == "terminated"
        await store.commit(lease, [started("p", paused=True)])
        assert (await summary("p")).status == "paused"

    prove(proof)


def test_a_reset_run_started_when_it_was_reset(prove) -> None:
    """The copied prefix carries the old start; the new run is listed where it came to be."""

    async def proof(store: Store, lease: Lease) -> None:
        await store.commit(lease, [started("a", time=5), completed("a", 2)])
        prefix = Started(id=1, time=5, workflow_type="order", queue="q", run_id="r1", seed=1)
        reset = Reset(id=2, time=50, run_id="r2", seed=2, reset_from="r1", event_id=1)
        await store.commit(lease, [Transition(workflow_id="a", runs=(RunChange(run_id="r2", events=(prefix, reset)),))])
        page = await store.runs(RunFilter(), 10)
        assert [(item.run_id, item.started_at) for item in page.items] == [("r2", 50), ("r1", 5)]

    prove(proof)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_pages_are_newest_first_and_complete(prove, limit: int) -> None:
    """Every run is on exactly one page, by start time and run id downwards, also where many started at once."""

    async def proof(store: Store, lease: Lease) -> None:
        runs = [(time, f"r{number}") for number, time in enumerate([30, 10, 20, 20, 20, 10, 40, 20, 5])]
        for time, run in runs:
            await store.commit(lease, [started(f"w-{run}", run, time=time)])
        seen: list[tuple[int, str]] = []
        cursor = ""
        while True:
            page = await store.runs(RunFilter(), limit, cursor)
            assert 0 < len(page.items) <= limit
            seen += [(item.started_at, item.run_id) for item in page.items]
            if not (cursor := page.cursor):
                break
        assert seen == sorted(runs, reverse=True)

    prove(proof)


def test_a_page_is_not_disturbed_by_newer_runs(prove) -> None:
    """Runs that start while someone turns pages move nothing."""

    async def proof(store: Store, lease: Lease) -> None:
        await store.commit(lease, [started(f"w{n}", f"r{n}", time=n + 1) for n in range(6)])
        page = await store.runs(RunFilter(), 3)
        await store.commit(lease, [started("late", "z", time=100), started("tie", "a", time=4)])
        rest = await store.runs(RunFilter(), 10, page.cursor)
        assert [item.run_id for item in rest.items] == ["a", "r2", "r1", "r0"]

    prove(proof)


def test_filters_hold_together(prove) -> None:
    """Namespace, id, type, status and start time each narrow the listing, and the count is that of the listing."""

    async def proof(store: Store, lease: Lease) -> None:
        batch = [started(f"w{n}", f"r{n}", time=n, type="even" if n % 2 == 0 else "odd") for n in range(1, 9)]
        await store.commit(lease, [*batch, started("w1", "other", namespace="n2"), completed("w2", 2, "r2")])

        async def found(query: str, namespace: str = "default") -> list[str]:
            filter = RunFilter(query=query, namespace=namespace)
            page = await store.runs(filter, 100)
            assert await store.count(filter) == len(page.items)
            return [item.run_id for item in page.items]

        third, sixth = (f"'1970-01-01T00:00:00.00000{n}Z'" for n in (3, 6))
        assert await found("type = 'even'") == ["r8", "r6", "r4", "r2"]
        assert await found("type = 'even' and status = 'running'") == ["r8", "r6", "r4"]
        assert await found("status in ('completed', 'failed')") == ["r2"]
        assert await found("status != 'running'") == ["r2"]
        assert await found(f"started_at >= {third} and started_at < {sixth}") == ["r5", "r4", "r3"]
        assert await found("", "n2") == ["other"]
        assert await found("workflow_id = 'w3'") == ["r3"]
        assert await found("workflow_id = 'w3' and type = 'even'") == []
        assert await found("", "nowhere") == []
        assert await found("closed_at is not null") == ["r2"]
        assert await found("length > 1 or run_id starts_with 'r1'") == ["r2", "r1"]
        assert await found("not (type = 'even' or workflow_id in ('w1', 'w3'))") == ["r7", "r5"]

    prove(proof)


def test_runs_are_found_by_their_attributes(prove) -> None:
    """By those set at the start and by what code made of them since; a list is found by each of its entries."""

    async def proof(store: Store, lease: Lease) -> None:
        due = "2026-03-01T00:00:00.000000+00:00"
        first = {"customer": "c1", "cents": 999, "vip": True, "tags": ["red", "blue"], "due": due}
        await store.commit(
            lease,
            [
                started("a", attributes=first, attribute_datetimes=("due",)),
                started("b", "r2", attributes={"customer": "c2", "cents": 1.5, "tags": [], "due": due}),
                started("c", "r3", parent=ParentLink(workflow_id="a", run_id="r1", command=2)),
            ],
        )

        async def found(query: str) -> set[str]:
            page = await store.runs(RunFilter(query=query), 100)
            assert await store.count(RunFilter(query=query)) == len(page.items)
            return {item.workflow_id for item in page.items}

        cases = {
            "attr.customer = 'c1'": {"a"},
            "attr.customer != 'c1'": {"b"},
            "not attr.customer = 'c1'": {"b", "c"},
            "attr.customer is null": {"c"},
            "attr.customer > 'c1'": {"b"},
            "attr.cents > 1 and attr.cents < 1000.5": {"a", "b"},
            "attr.cents = '999'": set(),
            "attr.vip = true": {"a"},
            "attr.vip = 1": set(),
            "attr.tags = 'red'": {"a"},
            "attr.tags = 'blue' and attr.tags != 'green'": {"a"},
            "attr.tags is not null": {"a", "b"},
            "attr.tags starts_with 'bl'": {"a"},
            "attr.due < '2026-03-02'": {"a", "b"},
            "attr.due = '2026-03-01'": {"a"},
            "attr.customer in ('c1', 'c2', 'c9')": {"a", "b"},
            "parent = 'a'": {"c"},
            "parent is null": {"a", "b"},
        }
        assert {query: await found(query) for query in cases} == cases
        change = AttributesSet(
            id=2, time=2, at=1, based_on=1, attributes={"customer": None, "due": "soon", "tags": ["green"], "n": 7}
        )
        await store.commit(lease, [Transition(workflow_id="a", runs=(RunChange(run_id="r1", events=(change,)),))])
        assert await found("attr.customer = 'c1' or attr.tags = 'red'") == set()
        assert await found("attr.n = 7 and attr.tags = 'green' and attr.due = 'soon' and attr.cents = 999") == {"a"}
        page = await store.runs(RunFilter(query="workflow_id = 'a'"), 1)
        assert page.items[0].attributes == {"cents": 999, "vip": True, "tags": ["green"], "due": "soon", "n": 7}
        assert page.items[0].attribute_datetimes == ()

    prove(proof)


def test_a_query_that_cannot_be_read_is_refused(prove) -> None:
    """With the place where it goes wrong, by listing and counting alike."""

    async def proof(store: Store, lease: Lease) -> None:
        for ask in (store.runs(RunFilter(query="type ="), 10), store.count(RunFilter(query="type ="))):
            with pytest.raises(InvalidArgument) as refused:
                await ask
            assert refused.value.column == 7

    prove(proof)


@pytest.mark.parametrize("cursor", ["x", "!!!", "e30", "🦊", "WzEsMl0"])
def test_a_cursor_nobody_gave_out_is_refused(prove, cursor: str) -> None:
    """A cursor made up or cut is an error of the caller."""

    async def proof(store: Store, lease: Lease) -> None:
        await store.commit(lease, [started("a")])
        with pytest.raises(InvalidArgument):
            await store.runs(RunFilter(), 10, cursor)
        with pytest.raises(InvalidArgument):
            await store.runs(RunFilter(), 0)

    prove(proof)


def test_close_is_idempotent(prove) -> None:
    """A second close finds nothing to do."""

    async def proof(store: Store, lease: Lease) -> None:
        await store.commit(lease, [started("a")])
        await store.close()
        await store.close()

    prove(proof)
