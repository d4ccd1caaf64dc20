"""Checks of the place where a node would keep its data, and of the port it would answer on. What they write they take away again."""

import errno
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from perdure.cli.health.check import Check, fail, ok, warn

FREE_WARN: Final = 1 << 30
FREE_FAIL: Final = 64 << 20
"""A segment of the journal is as large; below it not even one can be begun."""
FILES_MIN: Final = 1_000
SYNCS: Final = 50
SYNC_MS_WARN: Final = 20.0
PROBE_BYTES: Final = 1 << 20
AHEAD_S_MAX: Final = 60.0
TAIL_BYTES_MAX: Final = 64 << 20


def nearest(data: Path) -> Path:
    """`data`, or the folder it would be made in."""
    resolved = data.absolute()
    return next(folder for folder in (resolved, *resolved.parents) if folder.exists())


def directory(data: Path) -> Check:
    """The data directory, or the folder it will be made in, takes files."""
    place = nearest(data)
    mend = f"give this user the right to write there, or name another place: --data DIR ({data} is meant)"
    if not place.is_dir():
        return fail("directory", f"{place} is no directory", mend)
    try:
        with tempfile.NamedTemporaryFile(dir=place, prefix=".perdure-doctor-") as probe:
            probe.write(b"x")
            probe.flush()
    except OSError as error:
        return fail("directory", f"{place} cannot be written to: {error.strerror}", mend)
    return ok(
        "directory", f"{data} {'is there and' if place == data.absolute() else 'will be made; its folder'} can be written to"
    )


def disk_sync(data: Path) -> Check:
    """How long a small write takes until it is durable: what every step of a workflow waits for."""
    from perdure.bench.disk import flush_times
    from perdure.bench.machine import is_in_memory, mount_of

    with tempfile.TemporaryDirectory(dir=nearest(data), prefix=".perdure-doctor-") as probe:
        times = flush_times(Path(probe), SYNCS)
        kind = " on ".join(filter(None, mount_of(Path(probe)))) or "an unknown filesystem"
        in_memory = is_in_memory(Path(probe))
    usual, worst = times.p50_us / 1e3, times.p999_us / 1e3
    found = f"a synced write takes {usual:.2f} ms, at worst {worst:.1f} ms ({kind})"
    if in_memory:
        return warn("disk sync", f"{found}: nothing there survives a power cut", "keep data you need on a disk")
    if usual > SYNC_MS_WARN:
        return warn("disk sync", found, f"steps take at least that long; below {SYNC_MS_WARN:g} ms is usual: use a local SSD")
    return ok("disk sync", found)


def preallocation(data: Path) -> Check:
    """Room can be reserved ahead, so that a sync need not write the file's length too."""
    if not hasattr(os, "posix_fallocate"):
        return warn("preallocation", "this system has none", "nothing to do: syncs are slower, nothing else changes")
    with tempfile.TemporaryFile(dir=nearest(data)) as probe:
        try:
            os.posix_fallocate(probe.fileno(), 0, PROBE_BYTES)
        except OSError as error:
            if error.errno not in {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}:
                raise
            return warn("preallocation", "this filesystem has none", "ext4, XFS and btrfs have it; without it syncs are slower")
    return ok("preallocation", "the filesystem reserves room ahead")


def space(data: Path) -> Check:
    """There is room to write, in bytes and in files."""
    place = nearest(data)
    free, files = shutil.disk_usage(place).free, os.statvfs(place)
    found = f"{free / (1 << 30):.1f} GiB free"
    if free < FREE_FAIL:
        return fail("space", found, f"make room: a journal segment alone takes {FREE_FAIL >> 20} MiB")
    if files.f_files and files.f_favail < FILES_MIN:
        return warn("space", f"{found}, but only {files.f_favail} more files", "remove small files from this filesystem")
    if free < FREE_WARN:
        return warn("space", found, "make room soon: when a disk is full, starts and signals are refused until there is some")
    return ok("space", found)


def lock(data: Path) -> Check:
    """Whether a node runs there now."""
    from perdure.cli.stopped import holder_of

    holder = holder_of(data)
    return ok("lock", "nobody holds the data directory" if holder is None else f"process {holder} holds the data directory")


def journal(data: Path) -> Check:
    """Segments follow on one another, and the lines of the newest one are whole. `perdure journal verify` reads all of them."""
    from perdure.cli.stopped import holder_of
    from perdure.store.journal.format import FOLDER, segment_number

    names = sorted(path.name for path in (data / FOLDER).glob("*.jsonl")) if (data / FOLDER).is_dir() else []
    numbers = sorted({number for name in names if (number := segment_number(f"{FOLDER}/{name}")) is not None})
    if not numbers:
        return ok("journal", "there is none yet")
    mend = f"look closer: perdure journal verify {data}"
    if numbers != list(range(numbers[0], numbers[-1] + 1)):
        return fail("journal", f"segments are missing between {numbers[0]} and {numbers[-1]}", mend)
    newest = data / FOLDER / f"{numbers[-1]:08}.jsonl"
    ahead = newest.stat().st_mtime - time.time()
    if ahead > AHEAD_S_MAX:
        return warn(
            "journal", f"{newest.name} was written {ahead:.0f} s from now: the clock was set back", "set the clock right"
        )
    if holder_of(data) is not None:
        return ok("journal", f"{len(numbers)} segments; the newest is being written to and was not read")
    lines, bad = _lines(newest, numbers[-1])
    if bad:
        return fail("journal", f"{newest.name}, line {lines + 1}: {bad}", mend)
    return ok("journal", f"{len(numbers)} segments, {lines} whole lines in the newest")


def _lines(path: Path, segment: int) -> tuple[int, str]:
    """How many whole lines there are, and what is wrong with a later one that more whole lines follow; a torn end is no damage."""
    from perdure.store.journal.format import BadLine, fault_of_chain, is_whole, link_of, parse

    count, link, wrong = 0, None, ""
    for text in _texts(path):
        if wrong:
            if is_whole(text):
                return count, wrong
            continue
        try:
            line = parse(text)
            wrong = (fault_of_chain(line, link, segment) or "") if link is not None else ""
        except BadLine as error:
            wrong = str(error)
            continue
        link, count = link_of(line), count + (not wrong)
    return count, ""


def _texts(path: Path) -> Iterator[bytes]:
    """The lines of at most the first `TAIL_BYTES_MAX` bytes, up to the preallocated zeros."""
    with path.open("rb") as file:
        read = 0
        for text in file:
            read += len(text)
            if read > TAIL_BYTES_MAX or text.startswith(b"\0"):
                return
            yield text.rstrip(b"\n")


def port(host: str, number: int, data: Path) -> Check:
    """The port is free, or taken by the node that holds the data directory."""
    from perdure.cli.stopped import holder_of

    try:
        address = socket.getaddrinfo(host, number, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        return fail("port", f"{host} is no address of this machine: {error}", "name another: --host 127.0.0.1")
    with socket.socket(address[0], socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address[4])
        except OSError as error:
            if error.errno == errno.EADDRINUSE and holder_of(data) is not None:
                return ok("port", f"{host}:{number} is taken, and so is the data directory: a node seems to run")
            return fail(
                "port", f"{host}:{number} cannot be used: {error.strerror}", "stop who uses it, or name another: --port N"
            )
    return ok("port", f"{host}:{number} is free")
