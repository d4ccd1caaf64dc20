"""Looking through a damaged journal and mending it: every fault is reported, nothing is thrown away, the same runs stay named."""

import asyncio

import pytest

from perdure.core.errors import HistoryDamaged, Unavailable
from perdure.store.journal.repair import repair, verify
from perdure.testing.chance import SeededChance

PAIRS = [(name, number) for number in range(1, 8) for name in ("a", "b", "c")]


@pytest.fixture
def contents(bench):
    """Several segments, stopped by a crash."""
    files = bench.files()
    bench.write(files, [[bench.transition(*pair)] for pair in PAIRS], segment_bytes_max=1500)
    found = bench.contents(files)
    assert len(found) == 3
    return found


def mend(files):
    return asyncio.run(repair(files, SeededChance(3), lambda: None))


def found_in(bench, files):
    """(what is loaded of each id, or None where that is refused; the runs named; the recovery)."""

    async def run():
        store = bench.store(files, segment_bytes_max=1500)
        await store.open()
        loaded = {}
        for workflow in ("a", "b", "c"):
            try:
                loaded[workflow] = list(await store.load("default", workflow))
            except HistoryDamaged:
                loaded[workflow] = None
        files.crash()
        return loaded, {run.run_id for run in store.damaged()}, store.recovery

    return asyncio.run(run())


def test_a_whole_journal_is_whole_and_stays_as_it_is(bench, contents) -> None:
    """Nothing is reported and nothing changed."""
    files = bench.files(contents)
    findings = verify(files)
    assert (findings.faults, findings.torn_bytes, findings.transitions) == ((), 0, len(PAIRS))
    assert mend(files).kept == ()
    assert bench.contents(files) == contents


@pytest.mark.parametrize("step", range(9))
def test_whatever_byte_is_damaged_repair_makes_it_open_clean_with_the_same_runs_named(bench, contents, step) -> None:
    """Flips all over the journal: after the repair there is no fault that is not dealt with, and nothing more is lost than before."""
    for name, data in contents.items():
        for index in range(step * 5, len(data), 45):
            bad = contents | {name: data[:index] + bytes([data[index] ^ 4]) + data[index + 1 :]}
            before, named, report = found_in(bench, bench.files(bad))
            files = bench.files(bad)
            findings = verify(files)
            assert bench.contents(files) == bad
            assert findings.faults == report.faults
            mended = mend(files)
            for kept in mended.kept:
                assert files.read(kept, 0, 100_000) == bad[kept.partition(".damaged")[0]]
            assert bool(mended.kept) == bool(report.faults)
            again = verify(files)
            assert all(fault.kept for fault in again.faults), (name, index)
            assert again.torn_bytes == 0
            assert mend(files).kept == ()
            after, still, _ = found_in(bench, files)
            assert (after, still) == (before, named), (name, index)
            bench.write(files, [[bench.transition("d", number)] for number in range(1, 9)], segment_bytes_max=1500)
            after, still, final = found_in(bench, files)
            assert (after, still) == (before, named), (name, index)
            assert all(fault.kept for fault in final.faults)
            assert bench.reopen(files, ("d",))[0]["d"] == [bench.transition("d", number) for number in range(1, 9)]


def test_damage_at_the_end_that_was_written_behind_is_mended_too(bench, contents) -> None:
    """The segment behind says whose it was; after the repair it is told once, and dealt with."""
    newest = max(contents)
    data = contents[newest]
    bad = contents | {newest: data[:-30] + b"?" + data[-29:]}
    files = bench.files(bad)
    bench.write(files, [[bench.transition("d", 1)]], segment_bytes_max=1500)
    before, named, report = found_in(bench, files)
    assert named == {"run-a", "run-b", "run-c"}
    assert [fault.named for fault in report.faults] == ["suspicion"]
    assert len(mend(files).kept) == 1
    after, still, again = found_in(bench, files)
    assert (after, still, [bool(fault.kept) for fault in again.faults]) == (before, named, [True])


def test_a_newest_segment_of_which_no_line_is_whole_is_left_behind_and_mended(bench, contents) -> None:
    """What is written next goes into a segment of its own, so that its header is never part of the damaged bytes."""
    newest = max(contents)
    lines = contents[newest].splitlines(keepends=True)
    bad = contents | {newest: b"".join(line[:20] + b"?" + line[21:] for line in lines[:2])}
    files = bench.files(bad)
    bench.write(files, [[bench.transition("d", 1)]], segment_bytes_max=1500)
    assert bench.contents(files)[newest] == bad[newest]
    before, named, report = found_in(bench, files)
    assert named
    assert len(report.faults) == 1
    assert len(mend(files).kept) == 1
    assert all(fault.kept for fault in verify(files).faults)
    assert found_in(bench, files)[:2] == (before, named)


def test_a_torn_end_is_cut(bench, contents) -> None:
    """It is reported by verify, taken away by repair."""
    newest = max(contents)
    torn = contents | {newest: contents[newest] + b'{"crc":"12'}
    files = bench.files(torn)
    assert verify(files).torn_bytes == 10
    assert bench.contents(files) == torn
    assert mend(files).torn_bytes == 10
    assert bench.contents(files) == contents


def test_a_repair_that_is_interrupted_anywhere_can_be_done_again(bench, contents) -> None:
    """Whichever append fails for want of room or by an error, the journal opens as before, and the next repair succeeds."""
    bad = dict(contents)
    for name in list(bad)[:2]:
        bad[name] = bad[name][:700] + b"?" + bad[name][701:]
    before, named, _ = found_in(bench, bench.files(bad))
    for fault in ("full", "write"):
        for after in range(6):
            files = bench.files(bad)
            files.arm(fault, after)
            try:
                mend(files)
            except Exception:  # noqa: BLE001  whatever it is, the journal must be as good as before
                files.crash()
            files.disarm()
            assert found_in(bench, files)[:2] == (before, named)
            mend(files)
            assert found_in(bench, files)[:2] == (before, named)
            assert all(found.kept for found in verify(files).faults)


def test_repair_refuses_while_somebody_holds_the_journal(bench, contents) -> None:
    """Under a running node nothing is mended."""
    files = bench.files(contents)
    files.lock()
    with pytest.raises(Unavailable):
        mend(files)
