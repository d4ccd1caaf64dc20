"""The simulated disk keeps its promises: synced bytes stay, unsynced ones may not, faults come when armed, one seed decides."""

import asyncio
import random

import pytest

from perdure.core.errors import Unavailable
from perdure.ports import DiskFull
from perdure.testing.disk import SimulatedFiles


class TurnClock:
    def now(self) -> int:
        return 0

    def not_before(self, instant: int) -> None:
        raise NotImplementedError

    def call_at(self, instant, callback):
        raise NotImplementedError

    async def sleep(self, duration: int) -> None:
        for _ in range(duration):
            await asyncio.sleep(0)


def crashed(seed: int, synced: bytes, pending: bytes) -> bytes:
    """What is left of a file when the power goes while `pending` is being written behind `synced`."""

    async def run() -> bytes:
        files = SimulatedFiles(random.Random(seed), TurnClock(), sync_us=(5, 5))
        file = files.open_append("f")
        await file.append(synced)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(file.append(pending))
            await asyncio.sleep(0)
            files.crash()
            task.cancel()
        with pytest.raises(OSError, match="dead"):
            await file.append(b"x")
        return files.read("f", 0, 10_000)

    return asyncio.run(run())


def test_a_crash_keeps_what_was_synced_and_a_torn_part_of_the_rest() -> None:
    """Over many seeds: all of it, nothing, parts, and zeros in whole sectors; the same seed leaves the same."""
    synced, pending = b"s" * 700, b"p" * 2000
    left = [crashed(seed, synced, pending) for seed in range(60)]
    assert all(data.startswith(synced) for data in left)
    tails = [data[700:] for data in left]
    assert all(set(tail) <= set(b"p\0") for tail in tails)
    assert any(0 in tail for tail in tails)
    assert any(tail and 0 not in tail for tail in tails)
    for tail in tails:
        for index in range(1, len(tail)):
            assert (tail[index] == 0) == (tail[index - 1] == 0) or (700 + index) % 512 == 0
    assert left == [crashed(seed, synced, pending) for seed in range(60)]


@pytest.mark.parametrize("fault", ["sync", "write", "full"])
def test_faults_come_when_they_are_armed(fault) -> None:
    """The n-th append fails; a full disk is not final, anything else is."""

    async def run() -> None:
        files = SimulatedFiles(random.Random(1))
        file = files.open_append("f")
        files.arm(fault, 2)
        await file.append(b"1")
        await file.append(b"2")
        with pytest.raises(DiskFull if fault == "full" else OSError):
            await file.append(b"333333")
        if fault == "full":
            await file.append(b"4")
            assert files.read("f", 0, 100) == b"124"
        else:
            with pytest.raises(OSError, match="not written to any more"):
                await file.append(b"4")
            assert files.read("f", 0, 100).startswith(b"12")
        assert files.syncs == (3 if fault == "full" else 2)

    asyncio.run(run())


def test_the_lock_is_held_by_one_until_given_back_or_dead() -> None:
    """As on a real disk."""
    files = SimulatedFiles(random.Random(1))
    lock = files.lock()
    with pytest.raises(Unavailable):
        files.lock()
    lock.cancel()
    held = files.lock()
    lock.cancel()
    with pytest.raises(Unavailable):
        files.lock()
    files.crash()
    again = files.lock()
    held.cancel()
    with pytest.raises(Unavailable):
        files.lock()
    again.cancel()


def test_in_room_that_is_there_any_sectors_of_a_write_may_be_missing() -> None:
    """A crash leaves the file as long as it was; sectors of what was being written hold the zeros that stood there, or the bytes."""

    def left(seed: int) -> bytes:
        async def run() -> bytes:
            files = SimulatedFiles(random.Random(seed), TurnClock(), sync_us=(5, 5))
            file = files.open_append("f", room=8_000)
            await file.append(b"s" * 700)
            assert (file.size, files.size("f")) == (700, 8_700)
            async with asyncio.TaskGroup() as group:
                task = group.create_task(file.append(b"p" * 2000))
                await asyncio.sleep(0)
                files.crash()
                task.cancel()
            return files.read("f", 0, 10_000)

        return asyncio.run(run())

    found = [left(seed) for seed in range(40)]
    for data in found:
        assert (len(data), data[:700], data[2700:].strip(b"\0")) == (8_700, b"s" * 700, b"")
        for index in range(701, 2700):
            assert data[index] == data[index - 1] or index % 512 == 0
    kinds = {bytes(sorted(set(data[700:2700]))) for data in found}
    assert kinds == {b"\0", b"p", b"\0p"}


def test_unused_room_is_given_back_at_close() -> None:
    """A file that is closed ends with its last byte."""

    async def run() -> None:
        files = SimulatedFiles(random.Random(1))
        file = files.open_append("f", room=100)
        await file.append(b"abc")
        file.close()
        assert files.read("f", 0, 1000) == b"abc"

    asyncio.run(run())
