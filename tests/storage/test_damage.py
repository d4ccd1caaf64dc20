"""Cut at every byte, flip every byte: an opening finds a whole prefix and says what it cut, or refuses and names the place."""

import asyncio
import itertools
import logging

import pytest

from perdure.store.errors import JournalCorrupt

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


@pytest.mark.rule("F7")
def test_cut_at_every_byte_of_the_last_two_lines(bench, whole, caplog) -> None:
    """The longest whole prefix is found, the rest is cut and said, and the next commit and opening are as if nothing had been."""
    caplog.set_level(logging.WARNING)
    ends = [index + 1 for index, byte in enumerate(whole) if byte == 10]
    for size in range(ends[-3], len(whole)):
        caplog.clear()
        files = bench.files({bench.newest: whole[:size]})
        found, report = bench.reopen(files, WORKFLOWS)
        kept = sum(end <= size for end in ends)
        assert found == prefix_of_all(bench, kept - 1), size
        torn = size - max(end for end in ends if end <= size)
        assert (report.cut_bytes, report.cut_lines) == (torn, 1 if torn else 0)
        assert files.size(bench.newest) == size - torn
        assert [f"cut {torn} bytes" in record.message for record in caplog.records] == ([True] if torn else [])
        bench.write(files, [[bench.transition("d", 1)]], clean=True)
        assert bench.reopen(files, ("d",))[0]["d"] == [bench.transition("d", 1)]


@pytest.mark.rule("F7")
def test_cut_at_every_byte_of_all(bench, whole) -> None:
    """A journal that ends anywhere, in its very first line too, opens with what is whole of it."""
    ends = [index + 1 for index, byte in enumerate(whole) if byte == 10]
    for size in range(len(whole)):
        files = bench.files({bench.newest: whole[:size]})
        found, _ = bench.reopen(files, WORKFLOWS)
        assert found == prefix_of_all(bench, max(0, sum(end <= size for end in ends) - 1)), size
        bench.write(files, [[bench.transition("d", 1)]], clean=True)


def opened(bench, files):
    """(error or None, what was found, the report)."""
    try:
        return None, *bench.reopen(files, WORKFLOWS)
    except JournalCorrupt as error:
        return error, None, None


@pytest.mark.rule("F7")
@pytest.mark.parametrize("flip", [0x01, 0x20, 0xFF, "newline", "zero"])
def test_flip_every_byte(bench, whole, flip) -> None:
    """A changed byte is never read as history: the place is named and nothing changed, or the torn-able last line is cut."""
    last_line = whole[:-1].rindex(b"\n") + 1
    for index, byte in enumerate(whole):
        changed = {"newline": 10, "zero": 0}.get(flip, byte ^ flip if isinstance(flip, int) else 0)
        if changed == byte:
            continue
        bad = whole[:index] + bytes([changed]) + whole[index + 1 :]
        files = bench.files({bench.newest: bad})
        error, found, report = opened(bench, files)
        if error is None:
            assert index >= last_line, f"byte {index} flipped unnoticed"
            assert found == prefix_of_all(bench, 5)
            assert report.cut_bytes
        else:
            assert error.segment == bench.newest
            assert error.offset <= index < error.offset + 600
            assert str(error.offset) in error.message
            assert bench.contents(files)[bench.newest] == bad


@pytest.mark.rule("F7")
def test_a_flip_in_a_cleanly_stopped_journal_is_always_damage(bench) -> None:
    """Behind a footer nothing can be torn, so only the footer's own end may be missing."""
    files = bench.files()
    bench.write(files, [[bench.transition("a", 1)], [bench.transition("a", 2)]], clean=True)
    whole = bench.contents(files)[bench.newest]
    for index, byte in enumerate(whole[:-1]):
        bad = whole[:index] + bytes([byte ^ 1]) + whole[index + 1 :]
        with pytest.raises(JournalCorrupt):
            bench.reopen(bench.files({bench.newest: bad}), ("a",))


def test_lines_taken_out_doubled_or_swapped_are_damage(bench, whole) -> None:
    """Whole lines in the wrong place are found by the chain, though each is good by itself."""
    lines = whole.splitlines(keepends=True)
    for index in range(len(lines) - 1):
        without = lines[:index] + lines[index + 1 :]
        doubled = lines[: index + 1] + lines[index:]
        swapped = [*lines[:index], lines[index + 1], lines[index], *lines[index + 2 :]]
        for bad in (without, doubled, swapped):
            with pytest.raises(JournalCorrupt):
                bench.reopen(bench.files({bench.newest: b"".join(bad)}), WORKFLOWS)


def test_a_line_from_another_journal_is_damage(bench, whole) -> None:
    """A line with the right numbers but another past does not fit."""
    files = bench.files()
    groups = [[bench.transition(*pair) for pair in group] for group in GROUPS]
    groups[0][1] = bench.transition("z", 1)
    groups[2][0] = bench.transition("z", 2)
    bench.write(files, groups)
    foreign = bench.contents(files)[bench.newest].splitlines(keepends=True)
    own = whole.splitlines(keepends=True)
    with pytest.raises(JournalCorrupt):
        bench.reopen(bench.files({bench.newest: b"".join([*own[:3], *foreign[3:]])}), WORKFLOWS)


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
        bad = whole[:sector] + bytes(512) + whole[sector + 512 :]
        with pytest.raises(JournalCorrupt):
            bench.reopen(bench.files({bench.newest: bad}), ("a",))


def test_garbage_in_the_last_group_is_damage(bench) -> None:
    """Bytes that are neither what was written nor zeros were not left by a torn write."""
    files = bench.files()
    bench.write(files, big_groups(bench))
    whole = bench.contents(files)[bench.newest]
    bad = whole[:-1000] + b"\xa5" * 300 + whole[-700:]
    with pytest.raises(JournalCorrupt):
        bench.reopen(bench.files({bench.newest: bad}), ("a",))


def test_a_line_that_changes_while_the_store_is_open_is_not_read(bench) -> None:
    """Reads check the line again: bytes that rotted after opening are an error, not history."""
    files = bench.files()
    bench.write(files, [[bench.transition("a", 1)]])

    async def run() -> None:
        store = bench.store(files)
        await store.open()
        files.damage(bench.newest, files.size(bench.newest) - 20, b"~")
        with pytest.raises(JournalCorrupt):
            await store.load("default", "a")

    asyncio.run(run())
