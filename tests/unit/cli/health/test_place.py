"""Each check of the place says ok where all is well, and names the mend where it is not."""

import os
import socket
from collections import namedtuple
from pathlib import Path

import pytest

from perdure.cli.health import place
from perdure.cli.health.check import tried
from perdure.store.journal.format import KIND_HEAD, Head, Link, control, frame

Usage = namedtuple("Usage", "total used free")  # noqa: PYI024 – as shutil gives it


def segment(data: Path, number: int = 1, heads: int = 5) -> Path:
    """A segment of whole lines, followed by preallocated zeros."""
    path = data / "journal" / f"{number:08}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    head = Head(format=1, shards=64, store="s", first=1)
    lines, _link = frame(Link(), number, KIND_HEAD, [control(head)] * heads)
    path.write_bytes(b"".join(lines) + b"\0" * 4096)
    return path


def test_a_directory_that_is_there_or_can_be_made(tmp_path: Path) -> None:
    """Nothing is left behind."""
    assert place.directory(tmp_path).status == place.directory(tmp_path / "a" / "b").status == "ok"
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_takes_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in its place, and a folder without the right to write."""
    (tmp_path / "file").write_bytes(b"")
    assert place.directory(tmp_path / "file").status == "fail"

    def refuse(**_keywords: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(place.tempfile, "NamedTemporaryFile", refuse)
    check = place.directory(tmp_path)
    assert (check.status, "Permission denied" in check.found, "--data" in check.mend) == ("fail", True, True)


def test_syncs_are_measured_and_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The figure is a measured one; memory is no disk, and a slow disk is said to be one."""
    assert "a synced write takes" in place.disk_sync(tmp_path / "later").found
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr("perdure.bench.machine.is_in_memory", lambda _path: True)
    assert "survives a power cut" in place.disk_sync(tmp_path).found
    monkeypatch.setattr("perdure.bench.machine.is_in_memory", lambda _path: False)
    monkeypatch.setattr(place, "SYNC_MS_WARN", 0.0)
    assert place.disk_sync(tmp_path).status == "warn"


def test_preallocation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A filesystem without it is slower, not wrong; another error of the disk is a failed check."""
    assert place.preallocation(tmp_path).status in {"ok", "warn"}

    def refuse(number: int) -> object:
        def fallocate(*_args: int) -> None:
            raise OSError(number, os.strerror(number))

        return fallocate

    monkeypatch.setattr(os, "posix_fallocate", refuse(95))
    assert place.preallocation(tmp_path).status == "warn"
    monkeypatch.setattr(os, "posix_fallocate", refuse(5))
    assert tried("preallocation", lambda: place.preallocation(tmp_path)).status == "fail"


@pytest.mark.parametrize(("free", "status"), [(1 << 40, "ok"), (1 << 29, "warn"), (1 << 20, "fail")])
def test_space(free: int, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Much, little, and too little for one segment."""
    monkeypatch.setattr(place.shutil, "disk_usage", lambda _path: Usage(0, 0, free))
    assert place.space(tmp_path).status == status


def test_no_journal_and_a_whole_one(tmp_path: Path) -> None:
    """Preallocated zeros are no damage, nor is a torn end."""
    assert place.journal(tmp_path).found == "there is none yet"
    path = segment(tmp_path)
    assert place.journal(tmp_path).found == "1 segments, 5 whole lines in the newest"
    whole = path.read_bytes().rstrip(b"\0")
    path.write_bytes(whole[:-7])
    assert place.journal(tmp_path).status == "ok"


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    """A flipped byte with whole lines behind it, and a line that is not the next one."""
    path = segment(tmp_path)
    lines = path.read_bytes().rstrip(b"\0").splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], lines[2].replace(b"seq", b"sek"), *lines[3:]]))
    check = place.journal(tmp_path)
    assert (check.status, check.found) == ("fail", "00000001.jsonl, line 3: its checksum does not match its bytes")
    assert f"perdure journal verify {tmp_path}" in check.mend
    path.write_bytes(b"".join([*lines[:2], *lines[3:]]))
    assert "it is line 4, where line 3 should be" in place.journal(tmp_path).found


def test_missing_segments_and_a_clock_set_back(tmp_path: Path) -> None:
    """A gap in the numbers is a failure; a file from the future is a warning."""
    path = segment(tmp_path, 1)
    segment(tmp_path, 3)
    assert place.journal(tmp_path).status == "fail"
    (tmp_path / "journal" / "00000003.jsonl").unlink()
    os.utime(path, (path.stat().st_mtime + 7200, path.stat().st_mtime + 7200))
    assert (place.journal(tmp_path).status, "clock" in place.journal(tmp_path).mend) == ("warn", True)


def test_ports(tmp_path: Path) -> None:
    """A free one, one that is taken, and an address that is none of ours."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        assert place.port("127.0.0.1", number, tmp_path).status == "fail"
    assert place.port("127.0.0.1", number, tmp_path).status == "ok"
    assert place.port("192.0.2.1", number, tmp_path).status == "fail"
