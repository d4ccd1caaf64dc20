"""The real disk: appends whole or not at all, failures that are final, and names."""

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest

from perdure.core.errors import Unavailable
from perdure.ports import DiskFull
from perdure.runtime.files import LocalFiles

BOTH_WAYS = pytest.mark.parametrize("inline_below", [0, 1_000_000], ids=["thread", "inline"])


@BOTH_WAYS
def test_appends_stand_one_behind_the_other(tmp_path, inline_below) -> None:
    """What was appended is read back, in order, also after opening again."""

    async def run() -> None:
        files = LocalFiles(tmp_path, inline_below=inline_below)
        file = files.open_append("journal/x")
        for index in range(50):
            await file.append(b"%d\n" % index)
        assert file.size == files.size("journal/x")
        file.close()
        file.close()
        file = files.open_append("journal/x")
        await file.append(b"end")
        file.close()
        whole = b"".join(b"%d\n" % index for index in range(50)) + b"end"
        assert files.read("journal/x", 0, 10_000) == whole
        assert files.read("journal/x", 2, 3) == whole[2:5]
        assert files.names("journal") == ["journal/x"]
        files.truncate("journal/x", 4)
        assert files.read("journal/x", 0, 100) == whole[:4]

    asyncio.run(run())


def test_no_folder_has_no_names(tmp_path) -> None:
    """Looking makes nothing."""
    assert LocalFiles(tmp_path / "none").names("journal") == []
    assert not (tmp_path / "none").exists()


def short_then(error, calls):
    """A pwrite that gets half way at first and then fails."""
    real = os.pwrite

    def pwrite(descriptor, data, offset):
        calls.append(offset)
        if len(calls) == 1:
            return real(descriptor, data[: len(data) // 2], offset)
        if len(calls) == 2 and error is not None:
            raise OSError(error, os.strerror(error))
        return real(descriptor, data, offset)

    return pwrite


@BOTH_WAYS
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
def test_no_room_leaves_nothing_and_is_not_final(tmp_path, monkeypatch, inline_below, error) -> None:
    """What got through is cut back before the error is told; the next append stands where this one should have."""

    async def run() -> None:
        file = LocalFiles(tmp_path, inline_below=inline_below).open_append("x")
        await file.append(b"before|")
        monkeypatch.setattr(os, "pwrite", short_then(error, []))
        with pytest.raises(DiskFull):
            await file.append(b"lost lost lost")
        assert (tmp_path / "x").read_bytes() == b"before|"
        await file.append(b"after")
        assert (tmp_path / "x").read_bytes() == b"before|after"
        file.close()

    asyncio.run(run())


@BOTH_WAYS
def test_a_short_write_goes_on(tmp_path, monkeypatch, inline_below) -> None:
    """A write that takes two calls is whole."""

    async def run() -> None:
        file = LocalFiles(tmp_path, inline_below=inline_below).open_append("x")
        monkeypatch.setattr(os, "pwrite", short_then(None, calls := []))
        await file.append(b"0123456789")
        assert calls == [0, 5]
        assert (tmp_path / "x").read_bytes() == b"0123456789"
        file.close()

    asyncio.run(run())


@BOTH_WAYS
def test_a_failed_write_is_cut_back_and_final(tmp_path, monkeypatch, inline_below) -> None:
    """An error of the device ends the file's life."""

    async def run() -> None:
        file = LocalFiles(tmp_path, inline_below=inline_below).open_append("x")
        await file.append(b"before|")
        monkeypatch.setattr(os, "pwrite", short_then(errno.EIO, []))
        for _ in range(2):
            with pytest.raises(OSError, match=r"nput/output|a write failed"):
                await file.append(b"lost lost lost")
            assert (tmp_path / "x").read_bytes() == b"before|"
        file.close()

    asyncio.run(run())


@BOTH_WAYS
def test_a_failed_sync_is_never_tried_again(tmp_path, monkeypatch, inline_below) -> None:
    """The kernel may have dropped what it could not write: a second sync that succeeds would prove nothing."""

    async def run() -> None:
        file = LocalFiles(tmp_path, inline_below=inline_below).open_append("x")
        await file.append(b"before|")
        syncs = []

        def fail(descriptor):
            syncs.append(descriptor)
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(os, "fdatasync", fail)
        for _ in range(3):
            with pytest.raises(OSError):
                await file.append(b"x")
        assert len(syncs) == 1
        file.close()

    asyncio.run(run())


def test_small_appends_of_an_idle_loop_need_no_thread(tmp_path) -> None:
    """Below the bound and with nothing else to do the loop's thread writes; above it, or with work waiting, another does."""

    async def run() -> None:
        file = LocalFiles(tmp_path, inline_below=100).open_append("x")
        names = {thread.name for thread in threading.enumerate()}
        await file.append(b"small")
        assert {thread.name for thread in threading.enumerate()} == names
        asyncio.get_running_loop().call_soon(lambda: None)
        await file.append(b"busy")
        assert len({thread.name for thread in threading.enumerate()} - names) == 1
        file.close()
        assert {thread.name for thread in threading.enumerate()} == names

    asyncio.run(run())


def test_an_abandoned_append_ends_the_file(tmp_path) -> None:
    """Nobody saw how it ended, so nothing may follow it; closing waits for the thread."""

    async def run() -> None:
        file = LocalFiles(tmp_path, inline_below=0).open_append("x")
        async with asyncio.TaskGroup() as group:
            task = group.create_task(file.append(b"x" * 100_000))
            await asyncio.sleep(0)
            task.cancel()
        with pytest.raises(OSError, match="abandoned"):
            await file.append(b"y")
        file.close()
        assert (tmp_path / "x").read_bytes() == b"x" * 100_000

    asyncio.run(run())


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_many_files_are_read_with_few_descriptors(tmp_path) -> None:
    """Open descriptors for reading are bounded, and given back with the lock."""

    async def run() -> None:
        files = LocalFiles(tmp_path)
        lock = files.lock()
        before = descriptors()
        for index in range(200):
            file = files.open_append(f"journal/{index}")
            await file.append(b"%d" % index)
            file.close()
        for index in range(200):
            assert files.read(f"journal/{index}", 0, 10) == b"%d" % index
        assert descriptors() <= before + 64
        lock.cancel()
        lock.cancel()
        assert descriptors() < before

    asyncio.run(run())


@BOTH_WAYS
def test_nothing_is_acknowledged_into_a_deleted_file(tmp_path, inline_below) -> None:
    """The bytes are durable where nobody can find them: the append fails, and so does every later one."""

    async def run() -> None:
        file = LocalFiles(tmp_path, inline_below=inline_below).open_append("journal/x")
        await file.append(b"kept")
        (tmp_path / "journal/x").unlink()
        for _ in range(2):
            with pytest.raises(OSError, match="deleted"):
                await file.append(b"lost")
        file.close()

    asyncio.run(run())


def test_a_directory_that_cannot_be_used_is_named(tmp_path) -> None:
    """A file where the directory should be, or a directory where the lock should be: a typed error, not the system's own."""
    (tmp_path / "plain").write_text("")
    (tmp_path / "locked/lock").mkdir(parents=True)
    for name in ("plain", "plain/below", "locked"):
        with pytest.raises(Unavailable, match=name):
            LocalFiles(tmp_path / name).lock()


@BOTH_WAYS
def test_room_is_set_aside_and_given_back(tmp_path, inline_below) -> None:
    """Behind what was appended stand zeros, so many at a time; closing takes them away, and opening again finds the end."""

    async def run() -> None:
        files = LocalFiles(tmp_path, inline_below=inline_below)
        file = files.open_append("x", room=5_000)
        await file.append(b"a" * 100)
        assert (file.size, files.size("x")) == (100, 5_100)
        assert files.read("x", 100, 10_000) == bytes(5_000)
        for _ in range(60):
            await file.append(b"b" * 100)
        assert file.size == 6_100 < files.size("x")
        file.close()
        assert files.size("x") == 6_100
        assert files.read("x", 0, 10_000) == b"a" * 100 + b"b" * 6_000

    asyncio.run(run())


def test_without_room_for_room_appends_go_on(tmp_path, monkeypatch) -> None:
    """A disk with place for the bytes but not for what should be set aside behind them takes the bytes."""

    def refuse(descriptor, offset, length):
        raise OSError(errno.ENOSPC, "no space")

    async def run() -> None:
        files = LocalFiles(tmp_path)
        monkeypatch.setattr(os, "posix_fallocate", refuse)
        file = files.open_append("x", room=5_000)
        await file.append(b"abc")
        assert files.read("x", 0, 100) == b"abc"
        file.close()

    asyncio.run(run())


def test_a_failed_write_gives_the_room_back_too(tmp_path, monkeypatch) -> None:
    """What a write left is cut back to the last good byte; the next one sets room aside anew."""

    async def run() -> None:
        files = LocalFiles(tmp_path)
        file = files.open_append("x", room=5_000)
        await file.append(b"abc")
        pwrite = os.pwrite
        monkeypatch.setattr(os, "pwrite", short_then(errno.ENOSPC, []))
        with pytest.raises(DiskFull):
            await file.append(b"defghi")
        assert files.read("x", 0, 10_000) == b"abc"
        monkeypatch.setattr(os, "pwrite", pwrite)
        await file.append(b"xyz")
        assert files.read("x", 0, 6) == b"abcxyz"
        file.close()
        assert files.size("x") == 6

    asyncio.run(run())
