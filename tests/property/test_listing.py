"""List queries decided row by row and by SQLite: the same runs, whatever the query, the runs and their attributes."""

import asyncio
import random
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import InvalidArgument
from perdure.core.events import Attribute, AttributesSet, Completed, ParentLink, Started
from perdure.core.listing.columns import WHOLE_MAX
from perdure.core.notes import DecidedBy
from perdure.core.shards import SHARDS
from perdure.core.transition import RunChange, Transition
from perdure.ports import RunFilter
from perdure.store.journal import JournalStore
from perdure.store.memory import MemoryStore
from perdure.testing.chance import SeededChance
from perdure.testing.disk import SimulatedFiles

TEXTS = [
    "",
    "a",
    "ab",
    "abc",
    "b",
    "é",
    "éa",
    "it's",
    "\ud7ff",
    "\ue000",
    "\U0010ffff",
    "a\U0010ffff",
    "2026-01-01",
    "1",
    "true",
    "%",
    "_",
    "e\u0301",
    "E\u0301",
    "A",
    "\U0001f98a",
    "\u2028",
    "2026-01-01T01:00:00+01:00",
    "2025-12-31T23:59:59.999999-00:01",
    "\\",
    '"',
]
MOMENTS = ["2026-01-01T00:00:00.000000+00:00", "2026-01-01T12:00:00.000000+00:00", "1969-12-31T23:59:59.999999+00:00"]
NUMBERS: list[int | float] = [
    0,
    1,
    -1,
    2,
    1.0,
    1.5,
    -0.0,
    2**53,
    2**53 + 1,
    float(2**53),
    WHOLE_MAX,
    -WHOLE_MAX,
    1e300,
    0.1,
    5e-324,
    -1e300,
    2**53 - 1,
    1e15,
    1e16,
    123456789.5,
    -0.1,
]
NAMES = ["x", "y", "or", "a b", "Ä"]

texts = st.sampled_from(TEXTS)
values: st.SearchStrategy[Attribute] = st.one_of(
    texts, st.sampled_from(MOMENTS), st.sampled_from(NUMBERS), st.booleans(), st.lists(texts, max_size=3)
)
attributes = st.dictionaries(st.sampled_from(NAMES), values, max_size=4)
runs = st.lists(
    st.tuples(texts, st.integers(0, 3), attributes, st.none() | attributes, st.booleans(), st.booleans()), max_size=8
)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


numbers = st.sampled_from(NUMBERS).map(repr)
words = st.one_of(texts, st.sampled_from(MOMENTS)).map(quoted)
instants = st.sampled_from(["1970-01-01", "1970-01-01T00:00:00.000002Z", "1970-01-01T01:00:00.000001+01:00"]).map(quoted)
names = st.sampled_from(["attr.x", "attr.y", "attr.or", 'attr."a b"', "attr.Ä", "attr.none"])
ordered = st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "<>"])


def lists(of: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(of, min_size=1, max_size=3).map(lambda items: f"({', '.join(items)})")


leaves = st.one_of(
    st.builds("{} {} {}".format, st.sampled_from(["type", "queue", "workflow_id", "parent", "build"]), ordered, words),
    st.builds("{} {} {}".format, st.sampled_from(["started_at", "closed_at"]), ordered, instants),
    st.builds("length {} {}".format, ordered, numbers),
    st.builds("status {} {}".format, st.sampled_from(["=", "!="]), st.sampled_from(["'running'", "'completed'"])),
    st.builds("{} {} {}".format, names, ordered, st.one_of(words, numbers)),
    st.builds("{} {} {}".format, names, st.sampled_from(["=", "!="]), st.sampled_from(["true", "FALSE"])),
    st.builds("{} {} {}".format, names, st.sampled_from(["in", "not in"]), lists(st.one_of(words, numbers))),
    st.builds("{} {} {}".format, st.sampled_from(["type", "parent"]), st.sampled_from(["in", "not in"]), lists(words)),
    st.builds("{} starts_with {}".format, st.one_of(names, st.sampled_from(["type", "parent", "run_id"])), words),
    st.builds("{} is {}".format, st.one_of(names, st.sampled_from(["closed_at", "parent", "type", "build"])), st.sampled_from(["null", "not null"])),
)  # fmt: skip
queries = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds("not {}".format, inner),
        st.builds("({})".format, inner),
        st.builds("{} and {}".format, inner, inner),
        st.builds("({} or {})".format, inner, inner),
    ),
    max_leaves=8,
)


def transitions(number: int, run) -> list[Transition]:
    type, time, first, then, has_parent, is_closed = run
    id = f"w{number}"
    datetimes = tuple(sorted(name for name, value in first.items() if value in MOMENTS))
    started = Started(
        id=1, time=time, workflow_type=type, queue="q", run_id=f"r{number}", seed=1, attributes=first, attribute_datetimes=datetimes,
        parent=ParentLink(workflow_id=TEXTS[number], run_id="p", command=1) if has_parent else None,
    )  # fmt: skip
    events: list = [started]
    if then is not None:
        events.append(AttributesSet(id=2, time=time, at=1, based_on=1, attributes={**then, "x": None}, datetimes=()))
    if is_closed:
        events.append(Completed(id=len(events) + 1, time=time + 1, at=1, based_on=1))
    notes = (DecidedBy(id=1, time=time, build_id=type),) if type else ()
    changes = [RunChange(run_id=started.run_id, events=(event,)) for event in events]
    return [
        Transition(workflow_id=id, runs=(change,))
        for change in (*changes, RunChange(run_id=started.run_id, notes=notes))
        if change.events or change.notes
    ]


async def both(commits, queries: Sequence[str]) -> None:
    """Ask a store of each kind the same."""
    stores = (MemoryStore(), JournalStore(SimulatedFiles(random.Random(1)), StillClock(), SeededChance(1)))
    answers = []
    for store in stores:
        await store.open()
        lease = await store.acquire("n", range(SHARDS))
        for batch in commits:
            await store.commit(lease, batch)
        answers.append([await answer(store, query) for query in queries])
        await store.close()
    assert answers[0] == answers[1]


class StillClock:
    def now(self) -> int:
        return 1

    def not_before(self, instant: int) -> None:
        pass

    def call_at(self, instant, callback):
        raise NotImplementedError

    async def sleep(self, duration: int) -> None:
        raise NotImplementedError


async def answer(store, query: str):
    try:
        return await pages(store, RunFilter(query=query)), await store.count(RunFilter(query=query))
    except InvalidArgument as refused:
        return refused.message, refused.column


async def pages(store, filter: RunFilter):
    items, cursor = [], ""
    while True:
        page = await store.runs(filter, 3, cursor)
        items += page.items
        if not (cursor := page.cursor):
            return items


@given(runs=runs, asked=st.lists(st.one_of(queries, st.text(max_size=30)), min_size=1, max_size=12))
def test_both_find_the_same_runs(runs, asked) -> None:
    """Random runs, random queries and random text: the same rows, counts and refusals."""
    asyncio.run(both([transitions(number, run) for number, run in enumerate(runs)], asked))


def test_the_largest_queries_are_taken() -> None:
    """What the grammar allows SQLite can run: deep, long, and with as many comparisons as may be."""
    some = [transitions(0, ("a", 1, {"x": 3}, None, False, False))]
    largest = [
        " or ".join(["attr.x != 4"] * 250 + ["type = 'b'"] * 250),
        " and ".join(["not attr.x in (4, 5)"] * 250),
        "not " * 50 + "type = 'a'",
        "(" * 50 + "type = 'a'" + ")" * 50,
        "attr.x in (" + ", ".join(map(str, range(500))) + ")",
        "(" * 49 + "type = 'a'" + " and type = 'a')" * 49 + " and type != 'c'" * 440,
    ]
    asyncio.run(both(some, largest))
