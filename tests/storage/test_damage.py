"""Cut at every byte, flip every byte: an opening finds a whole prefix and says what it cut, or refuses and names the place."""

import asyncio
import itertools
import logging

import pytest

from perdure.core.errors import HistoryDamaged
from perdure.core.shards import SHARDS
from perdure.ports import RunFilter

GROUPS = [[("a", 1), ("b", 1)], [("a", 2)], [("b", 2), ("c", 1), ("a", 3)]]
WORKFLOWS = ("a", "b", "c")


@pytest.fixture
def whole(bench):
    """The bytes of a small journal of three groups, stopped by a crash between two writes."""
    files = bench.files()
    bench.write(files, [[bench.transition(*pair) for pair in group] for group in GROUPS])
    return bench.contents(files)[bench.newest]


def prefix_of_all(bench, count):
    """What is under each id after the first `count` transitions."""
    pairs = list(itertools.chain(*GROUPS))[:count]
    return {workflow: [bench.transition(*pair) for pair in pairs if pair[0] == workflow] for workflow in WORKFLOWS}


def whole_lines(whole, size):
    """How many lines of `whole` a file of so many bytes holds; the newline of the last may be missing."""
    return sum(index <= size for index, byte in enumerate(whole) if byte == 10)


@pytest.mark.rule("F7")
def test_cut_at_every_byte_of_the_last_two_lines(bench, whole, caplog) -> None:
    """The longest whole prefix is found, the rest is cut and said, and the next commit and opening are as if nothing had been."""
    caplog.set_level(logging.WARNING)
    ends = [index + 1 for index, byte in enumerate(whole) if byte == 10]
    for size in range(ends[-3], len(whole)):
        caplog.clear()
        files = bench.files({bench.newest: whole[:size]})
        found, report = bench.reopen(files, WORKFLOWS)
        kept = whole_lines(whole, size)
        assert found == prefix_of_all(bench, kept - 1), size
        torn = max(0, size - ends[kept - 1])
        assert (report.cut_bytes, report.cut_lines, report.faults) == (torn, 1 if torn else 0, ())
        assert files.size(bench.newest) == size - torn
        assert [f"cut {torn} bytes" in record.message for record in caplog.records] == ([True] if torn else [])
        bench.write(files, [[bench.transition("d", 1)]], clean=True)
        assert bench.reopen(files, ("d", "c"))[0] == {"d": [bench.transition("d", 1)], "c": found["c"]}


@pytest.mark.rule("F7")
def test_cut_at_every_byte_of_all(bench, whole) -> None:
    """A journal that ends anywhere, in its very first line too, opens with what is whole of it."""
    for size in range(len(whole)):
        files = bench.files({bench.newest: whole[:size]})
        found, report = bench.reopen(files, WORKFLOWS)
        assert found == prefix_of_all(bench, max(0, whole_lines(whole, size) - 1)), size
        assert not report.faults
        bench.write(files, [[bench.transition("d", 1)]], clean=True)


async def loaded(store, workflow):
    """What is loaded of an id, or the run that is damaged."""
    try:
        return list(await store.load("default", workflow)), ""
    except HistoryDamaged as error:
        return None, error.run_id


def judged(bench, files, pairs, *, segment_bytes_max=1 << 20):
    """Open a journal that held `pairs` and is damaged; every run is whole or named, no history is wrong. Says which runs were named."""

    async def run():
        store = bench.store(files, segment_bytes_max=segment_bytes_max)
        await store.open()
        named = {run.run_id for run in store.damaged()}
        listed = {row.run_id: row.status for row in (await store.runs(RunFilter(), 100)).items}
        for workflow in dict.fromkeys(workflow for workflow, _ in pairs):
            true = [bench.transition(*pair) for pair in pairs if pair[0] == workflow]
            events = [change.events[0] for transition in true for change in transition.runs]
            found, refused = await loaded(store, workflow)
            if refused:
                assert refused == f"run-{workflow}"
                assert refused in named
                assert listed[refused] == "quarantined"
                assert ("default", workflow) in await store.open_workflows(range(SHARDS))
            else:
                assert found == true or (not found and f"run-{workflow}" in named), workflow
            record = await store.record("default", workflow)
            if record is not None:
                assert list(record.events) == events[: len(record.events)]
                assert (record.damage is not None) == (f"run-{workflow}" in named)
                assert record.damage is not None or len(record.events) == len(events)
        files.crash()
        return named, store.recovery

    return asyncio.run(run())


@pytest.mark.rule("F7")
@pytest.mark.parametrize("flip", [0x01, 0x20, 0xFF, "newline", "zero"])
@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("room", [0, 700])
def test_flip_every_byte(bench, flip, clean, room) -> None:
    """A changed byte is never read as history and never passed over: every acknowledged write is there, or its run is named.

    In every line but the last it is that line's run and no other. What is written afterwards is found with the same runs named.
    """
    pairs = list(itertools.chain(*GROUPS))
    files = bench.files()
    bench.write(files, [[bench.transition(*pair) for pair in group] for group in GROUPS], clean=clean)
    whole = bench.contents(files)[bench.newest]
    lines = whole.splitlines(keepends=True)
    owners = [set(), *({f"run-{workflow}"} for workflow, _ in pairs), set()]
    first = len(whole) - len(lines[-1]) if room else 0
    for index, byte in list(enumerate(whole + bytes(room)))[first:]:
        changed = {"newline": 10, "zero": 0}.get(flip, byte ^ flip if isinstance(flip, int) else 0)
        if changed == byte:
            continue
        bad = bytearray(whole + bytes(room))
        bad[index] = changed
        files = bench.files({bench.newest: bytes(bad)})
        named, report = judged(bench, files, pairs)
        assert report.faults or report.cut_bytes or (index == len(whole) - 1 and changed == 0), f"byte {index} passed over"
        line = sum(index >= end for end in itertools.accumulate(map(len, lines)))
        if line < len(lines) - 1 or clean:
            assert named <= owners[min(line, len(owners) - 1)], index
        if report.faults:
            fault = report.faults[0]
            assert fault.segment == 1
            assert fault.offset <= index <= fault.offset + fault.length
        if not report.faults and index < len(whole):
            assert index == len(whole) - 1
        if index % 7 == 0:
            bench.write(files, [[bench.transition("d", 1)]], clean=True)
            assert judged(bench, files, [*pairs, ("d", 1)])[0] == named, index


def test_lines_taken_out_doubled_or_swapped_are_damage(bench, whole) -> None:
    """Whole lines in the wrong place are found by the chain, though each is good by itself; the run whose line is missing is named."""
    pairs = list(itertools.chain(*GROUPS))
    lines = whole.splitlines(keepends=True)
    for index in range(1, len(lines) - 1):
        without = lines[:index] + lines[index + 1 :]
        doubled = lines[: index + 1] + lines[index:]
        swapped = [*lines[:index], lines[index + 1], lines[index], *lines[index + 2 :]]
        for bad, named in (
            (without, {f"run-{pairs[index - 1][0]}"}),
            (doubled, set()),
            (swapped, {f"run-{pairs[index - 1][0]}"}),
        ):
            found, report = judged(bench, bench.files({bench.newest: b"".join(bad)}), pairs)
            assert found == named or (index == len(lines) - 2 and bad is swapped and found >= named), index
            assert report.faults


def test_a_line_from_another_journal_is_damage(bench, whole) -> None:
    """A line with the right numbers but another past does not fit: nothing of what follows is trusted."""
    files = bench.files()
    groups = [[bench.transition(*pair) for pair in group] for group in GROUPS]
    groups[0][1] = bench.transition("z", 1)
    groups[2][0] = bench.transition("z", 2)
    bench.write(files, groups)
    foreign = bench.contents(files)[bench.newest].splitlines(keepends=True)
    own = whole.splitlines(keepends=True)
    found, _ = judged(bench, bench.files({bench.newest: b"".join([*own[:3], *foreign[3:]])}), list(itertools.chain(*GROUPS)))
    assert found == {"run-a", "run-b", "run-c", "run-z"}


def test_two_lines_lost_in_one_place(bench) -> None:
    """The last of them is named by the line behind; the other by its numbers, which do not go on; those who went on are not touched."""
    pairs = [("a", 1), ("b", 1), ("c", 1), ("d", 1), ("a", 2), ("b", 2), ("c", 2), ("a", 3), ("c", 3)]
    files = bench.files()
    bench.write(files, [[bench.transition(*pair)] for pair in pairs])
    lines = bench.contents(files)[bench.newest].splitlines(keepends=True)
    lines[5] = lines[5][:30] + b"?" + lines[5][31:]
    lines[6] = lines[6][:30] + b"?" + lines[6][31:]
    named, report = judged(bench, bench.files({bench.newest: b"".join(lines)}), pairs)
    assert named == {"run-a", "run-b"}
    assert [(fault.lines, fault.named) for fault in report.faults] == [(2, "chain")]


def test_when_nothing_can_tell_every_open_run_without_a_later_line_is_named(bench) -> None:
    """Two lines of runs that never wrote again: one is named by the chain, for the other all are suspects who may have been it."""
    pairs = [("a", 1), ("b", 1), ("c", 1), ("d", 1), ("b", 2), ("c", 2), ("a", 2), ("a", 3)]
    files = bench.files()
    bench.write(files, [[bench.transition(*pair)] for pair in pairs])
    lines = bench.contents(files)[bench.newest].splitlines(keepends=True)
    lines[5] = lines[5][:30] + b"?" + lines[5][31:]
    lines[6] = lines[6][:30] + b"?" + lines[6][31:]
    named, _ = judged(bench, bench.files({bench.newest: b"".join(lines)}), pairs)
    assert named == {"run-b", "run-c", "run-d"}


def test_zeros_behind_the_last_line_are_room_not_damage(bench, whole) -> None:
    """Space set aside and not used is no torn write: nothing is reported as cut, and writing goes on at the right place."""
    files = bench.files({bench.newest: whole + bytes(5000)})
    found, report = bench.reopen(files, WORKFLOWS)
    assert found == prefix_of_all(bench, 6)
    assert (report.cut_bytes, report.cut_lines) == (0, 0)
    bench.write(files, [[bench.transition("c", 2)]])
    assert bench.reopen(files, ("c",))[0]["c"] == [bench.transition("c", 1), bench.transition("c", 2)]


def test_a_line_torn_into_zeros_is_cut(bench, whole) -> None:
    """Part of a line with zeros behind it, up to the end, is what a crash leaves in space that was set aside."""
    last_line = whole[:-1].rindex(b"\n") + 1
    for size in range(last_line + 1, len(whole), 7):
        found, report = bench.reopen(bench.files({bench.newest: whole[:size] + bytes(3000)}), WORKFLOWS)
        assert found == prefix_of_all(bench, 5)
        assert (report.cut_bytes, report.cut_lines) == (size - last_line + 3000, 1)


def big_groups(bench):
    """Two groups, each line longer than two sectors."""
    payload = b'"' + b"y" * 1300 + b'"'
    first = [bench.transition("a", 1), bench.transition("a", 2, payload)]
    return [first, [bench.transition("a", number, payload) for number in (3, 4, 5)]]


def test_a_sector_not_written_in_the_last_group_is_torn(bench) -> None:
    """Whichever whole sector of the last group is still zero: the group is cut from the first line that lacks it."""
    files = bench.files()
    groups = big_groups(bench)
    bench.write(files, groups)
    whole = bench.contents(files)[bench.newest]
    ends = [index + 1 for index, byte in enumerate(whole) if byte == 10]
    start = ends[2]  # header and two lines stand before the last group
    sector = start - start % 512
    while sector < len(whole):
        low, high = max(sector, start), min(sector + 512, len(whole))
        torn = whole[:low] + bytes(high - low) + whole[high:]
        found, report = bench.reopen(bench.files({bench.newest: torn}), ("a",))
        kept = sum(end <= low for end in ends) - 1
        assert found["a"] == [*groups[0], *groups[1]][:kept]
        assert report.cut_bytes
        sector += 512


def test_a_zero_sector_before_the_last_group_is_damage(bench) -> None:
    """What was acknowledged is never cut, even where it looks torn."""
    files = bench.files()
    bench.write(files, [*big_groups(bench), [bench.transition("a", 6)]])
    whole = bench.contents(files)[bench.newest]
    for sector in range(0, len(whole) - 1024, 512):
        files = bench.files({bench.newest: whole[:sector] + bytes(512) + whole[sector + 512 :]})
        with pytest.raises(HistoryDamaged):
            bench.reopen(files, ("a",))
        assert files.size(bench.newest) == len(whole)


def test_garbage_in_the_last_group_is_damage(bench) -> None:
    """Bytes that are neither what was written nor zeros were not left by a torn write."""
    files = bench.files()
    bench.write(files, big_groups(bench))
    whole = bench.contents(files)[bench.newest]
    bad = whole[:-1000] + b"\xa5" * 300 + whole[-700:]
    with pytest.raises(HistoryDamaged):
        bench.reopen(bench.files({bench.newest: bad}), ("a",))


def test_a_line_that_changes_while_the_store_is_open_is_not_read(bench) -> None:
    """Reads check the line again: bytes that rotted after opening are an error, not history."""
    files = bench.files()
    bench.write(files, [[bench.transition("a", 1)]])

    async def run() -> None:
        store = bench.store(files)
        await store.open()
        files.damage(bench.newest, files.size(bench.newest) - 20, b"~")
        with pytest.raises(HistoryDamaged):
            await store.load("default", "a")
        assert [run.run_id for run in store.damaged()] == ["run-a"]
        record = await store.record("default", "a")
        assert record.events == ()
        assert "segment 1, byte" in record.damage.reason

    asyncio.run(run())
