"""Segments: rolling, footers, headers, and what may be missing."""

import asyncio
import json
from zlib import crc32

import pytest

from perdure.core.shards import SHARDS
from perdure.ports import DiskFull
from perdure.store.errors import JournalCorrupt, JournalMismatch, StoreFailed


def numbered(bench, workflow, count):
    return [bench.transition(workflow, number) for number in range(1, count + 1)]


def rewritten(line, **head):
    """A header line with other values and a right CRC."""
    record = json.loads(line)
    record["head"] |= head
    del record["crc"]
    checked = b"," + json.dumps(record, separators=(",", ":")).encode()[1:]
    return b'{"crc":"%08x"%b\n' % (crc32(checked), checked)


def test_the_lines_are_as_documented(bench) -> None:
    """Each line is one JSON value whose CRC covers the bytes from the first comma on; seq, seg, grp and prev tell the chain."""
    files = bench.files()
    bench.write(files, [numbered(bench, "a", 2), [bench.transition("b", 1)]], clean=True)
    before = {"seq": 0, "crc": "00000000", "run": ""}
    kinds = []
    for text in bench.contents(files)[bench.newest].splitlines():
        line = json.loads(text)
        assert line["crc"] == f"{crc32(text[17:]):08x}"
        assert text[:17] == b'{"crc":"%b"' % line["crc"].encode()
        assert (line["seq"], line["seg"], line["prev"]) == (before["seq"] + 1, 1, [before["run"], before["crc"]])
        kinds.append((next(kind for kind in ("t", "head", "foot") if kind in line), line["grp"]))
        run = line["t"]["runs"][0]["run_id"] if "t" in line else ""
        before = {"seq": line["seq"], "crc": line["crc"], "run": run}
    assert kinds == [("head", 1), ("t", 2), ("t", 2), ("t", 4), ("foot", 5)]


def test_a_full_segment_is_followed_by_another(bench) -> None:
    """Groups are never divided, every segment but the newest ends in a footer, and everything is found again."""
    files = bench.files()
    groups = [[transition] for transition in numbered(bench, "a", 40)]
    bench.write(files, groups, clean=True, segment_bytes_max=1500)
    contents = bench.contents(files)
    assert len(contents) > 3
    for data in list(contents.values())[:-1]:
        lines = data.splitlines()
        assert json.loads(lines[-1])["foot"] == {"reason": "roll", "lines": len(lines)}
    found, report = bench.reopen(files, ("a",))
    assert found["a"] == numbered(bench, "a", 40)
    assert (report.segments, report.transitions, report.clean) == (len(contents), 40, True)


def test_a_clean_stop_writes_one_footer_and_the_next_start_goes_on_behind_it(bench) -> None:
    """Opening and closing without writing adds nothing."""
    files = bench.files()
    bench.write(files, [[bench.transition("a", 1)]], clean=True)
    once = bench.contents(files)
    bench.write(files, [], clean=True)
    assert bench.contents(files) == once
    bench.write(files, [[bench.transition("a", 2)]], clean=True)
    assert bench.reopen(files, ("a",))[0]["a"] == numbered(bench, "a", 2)
    assert list(bench.contents(files)) == [bench.newest]


def test_opening_and_closing_an_empty_directory_writes_nothing(bench) -> None:
    """A journal begins with its first commit."""
    files = bench.files()
    bench.write(files, [], clean=True)
    assert bench.contents(files) == {}
    assert bench.reopen(files, ())[1].clean


def test_every_crash_between_two_segments_heals(bench) -> None:
    """Next file made, footer torn or whole, part of the next header: opening goes on where that stopped."""
    files = bench.files()
    bench.write(files, [[transition] for transition in numbered(bench, "a", 12)], segment_bytes_max=1500)
    contents = bench.contents(files)
    names = list(contents)
    first, second = contents[names[0]], contents[names[1]]
    footer = first[:-1].rindex(b"\n") + 1
    header = second.index(b"\n") + 1
    states = [{names[0]: first[:size]} for size in range(footer, len(first))]
    states += [{names[0]: first[:size], names[1]: b""} for size in range(footer, len(first))]
    states += [{names[0]: first, names[1]: second[:size]} for size in range(header + 1)]
    kept = first.count(b'"t":{')
    for state in states:
        damaged = bench.files(state)
        found, _ = bench.reopen(damaged, ("a",))
        assert found["a"] == numbered(bench, "a", kept)
        bench.write(damaged, [[bench.transition("a", kept + 1)]], segment_bytes_max=1500)
        assert bench.reopen(damaged, ("a",))[0]["a"] == numbered(bench, "a", kept + 1)


def test_a_missing_segment_is_damage(bench) -> None:
    """The first, one in the middle, the newest ones, or a footer gone: named, not passed over."""
    files = bench.files()
    bench.write(files, [[transition] for transition in numbered(bench, "a", 40)], segment_bytes_max=1500)
    contents = bench.contents(files)
    names = list(contents)
    for gone in names:
        with pytest.raises(JournalCorrupt):
            bench.reopen(bench.files({name: data for name, data in contents.items() if name != gone}), ("a",))
    with pytest.raises(JournalCorrupt, match=f"{names[-2]} is missing") as caught:
        bench.reopen(bench.files({name: contents[name] for name in names[:-2]}), ("a",))
    assert caught.value.segment == names[-2]
    lines = contents[names[0]].splitlines(keepends=True)
    found, report = bench.reopen(bench.files(contents | {names[0]: b"".join(lines[:-1])}), ("a",))
    assert found["a"] == numbered(bench, "a", 40)
    assert [("footer" in fault.why, fault.runs) for fault in report.faults] == [(True, ())]
    with pytest.raises(JournalCorrupt):
        bench.reopen(bench.files(contents | {names[1]: contents[names[0]]}), ("a",))


def test_zeros_behind_the_footer_of_an_older_segment_change_nothing(bench) -> None:
    """Room that a full segment did not use is passed over, and no other segment is cut for it."""
    files = bench.files()
    bench.write(files, [[transition] for transition in numbered(bench, "a", 12)], segment_bytes_max=1500)
    bench.write(files, [[bench.transition("b", number)] for number in range(1, 20)])
    contents = bench.contents(files)
    names = list(contents)
    assert len(contents[names[-1]]) > len(contents[names[0]])
    contents[names[0]] += bytes(3000)
    padded = bench.files(contents)
    found, report = bench.reopen(padded, ("a", "b"))
    assert found == {"a": numbered(bench, "a", 12), "b": numbered(bench, "b", 19)}
    assert report.cut_bytes == 0
    assert bench.contents(padded) == contents


@pytest.mark.parametrize("head", [{"format": 3}, pytest.param({"shards": 128}, marks=pytest.mark.rule("O37"))])
def test_a_journal_for_another_perdure_is_refused_untouched(bench, head) -> None:
    """A newer format or another shard count stops the start with a sentence that says so."""
    files = bench.files()
    bench.write(files, [])
    bench.write(files, [[bench.transition("a", 1)]])
    first = bench.contents(files)[bench.newest].splitlines(keepends=True)[0]
    changed = rewritten(first, **head) + b'{"crc":"torn'
    files = bench.files({bench.newest: changed})
    with pytest.raises(JournalMismatch, match=f"{next(iter(head.values()))}"):
        bench.reopen(files, ("a",))
    assert bench.contents(files)[bench.newest] == changed


def test_a_first_segment_that_the_newest_header_does_not_need_may_be_absent(bench) -> None:
    """A journal may begin later than at 1 if its newest header says so (as it will after old segments were dropped)."""
    files = bench.files()
    bench.write(files, [[bench.transition("a", 1)]])
    line = bench.contents(files)[bench.newest].splitlines(keepends=True)[0]
    record = json.loads(line) | {"seq": 900, "grp": 900, "seg": 3, "prev": ["run-z", "12345678"]}
    record["head"]["first"] = 3
    later = {"journal/00000003.jsonl": rewritten(json.dumps(record).encode())}
    files = bench.files(later)
    bench.write(files, [[bench.transition("a", 1)]])
    assert bench.reopen(files, ("a",))[0]["a"] == [bench.transition("a", 1)]
    assert list(bench.contents(files)) == ["journal/00000003.jsonl"]


def open_store(bench, files, proof, **options):
    async def run() -> None:
        store = bench.store(files, **options)
        await store.open()
        await proof(store, await store.acquire("n", range(SHARDS)))

    asyncio.run(run())


def test_a_full_disk_refuses_writes_reads_go_on_and_later_it_works(bench) -> None:
    """Whichever write of a commit finds no room (footer, header or the group itself), the same commit succeeds later."""
    for after in range(4):
        files = bench.files()

        async def proof(store, lease, files=files, after=after) -> None:
            for transition in numbered(bench, "a", 8):
                files.arm("full", after) if transition.runs[0].events[0].id == 3 else None
                try:
                    await store.commit(lease, [transition])
                except DiskFull:
                    done = transition.runs[0].events[0].id - 1
                    assert list(await store.load("default", "a")) == numbered(bench, "a", done)
                    await store.commit(lease, [transition])
            assert list(await store.load("default", "a")) == numbered(bench, "a", 8)
            await store.close()

        open_store(bench, files, proof, segment_bytes_max=700)
        assert bench.reopen(files, ("a",))[0]["a"] == numbered(bench, "a", 8)


@pytest.mark.parametrize("fault", ["sync", "write"])
def test_after_a_failed_write_the_store_is_never_used_again(bench, fault) -> None:
    """A failed sync is final: no retry, no later write, reads of what was committed go on; opening anew finds out what was kept."""
    files = bench.files()

    async def proof(store, lease) -> None:
        await store.commit(lease, [bench.transition("a", 1)])
        files.arm(fault)
        with pytest.raises(StoreFailed):
            await store.commit(lease, [bench.transition("a", 2)])
        syncs = files.syncs
        with pytest.raises(StoreFailed):
            await store.commit(lease, [bench.transition("b", 1)])
        assert list(await store.load("default", "a")) == [bench.transition("a", 1)]
        await store.close()
        assert files.syncs == syncs

    open_store(bench, files, proof)
    files.crash()
    found, _ = bench.reopen(files, ("a", "b"))
    assert found["a"] in (numbered(bench, "a", 1), numbered(bench, "a", 2))
    assert found["b"] == []


def test_a_cancelled_commit_fails_the_store(bench) -> None:
    """Nobody knows how an abandoned write ends, so nothing follows it."""
    files = bench.files()
    files._sync_us = (1, 1)

    async def proof(store, lease) -> None:
        async with asyncio.TaskGroup() as group:
            commit = group.create_task(store.commit(lease, [bench.transition("a", 1)]))
            await asyncio.sleep(0)
            commit.cancel()
        assert commit.cancelled()
        with pytest.raises(StoreFailed):
            await store.commit(lease, [bench.transition("b", 1)])

    open_store(bench, files, proof)


def test_one_group_is_one_sync(bench) -> None:
    """A batch of a hundred costs what one costs."""
    files = bench.files()

    async def proof(store, lease) -> None:
        await store.commit(lease, [bench.transition("a", 1)])
        syncs = files.syncs
        await store.commit(lease, [bench.transition(f"w{index}", 1) for index in range(100)])
        assert files.syncs == syncs + 1

    open_store(bench, files, proof)


def test_a_closed_store_takes_no_writes(bench) -> None:
    """After close a commit is an error and the lock is free for the next opener."""
    files = bench.files()

    async def proof(store, lease) -> None:
        await store.close()
        with pytest.raises(StoreFailed):
            await store.commit(lease, [bench.transition("a", 1)])
        await bench.store(files).open()

    open_store(bench, files, proof)


def test_opening_tells_the_clock_what_time_has_been_reached(bench, monkeypatch) -> None:
    """The latest time in the journal, whichever run and kind of entry it is of."""
    files = bench.files()
    bench.write(files, [[bench.transition("a", number)] for number in (1, 2, 3)] + [[bench.transition("b", 1)]])
    told = []
    store = bench.store(files)
    monkeypatch.setattr(store._clock, "not_before", told.append)
    asyncio.run(store.open())
    assert told == [3] == [store.recovery.newest]


@pytest.mark.rule("O15")
@pytest.mark.parametrize("clean", [False, True])
def test_what_an_earlier_life_wrote_was_under_a_lower_range_id(bench, clean) -> None:
    """However it ended. (A life that wrote nothing leaves no trace, and nothing to be told apart from.)"""
    files, written = bench.files(), []

    async def proof(store, lease) -> None:
        for older in written:
            assert all(older.range_ids[shard] < lease.range_ids[shard] for shard in range(SHARDS))
            assert [result.reason for result in await store.commit(older, [bench.transition("late", 1)])] == ["fenced"]
        assert list(await store.load("default", "late")) == []
        for number in range(1, lives[len(written)] + 1):
            assert (await store.commit(lease, [bench.transition(f"w{len(written)}", number)]))[0].ok
        written.append(lease)
        if clean:
            await store.close()
        else:
            files.crash()

    lives = (3, 1, 1, 2)
    for _ in lives:
        open_store(bench, files, proof)
    assert len(written) == len(lives)
