"""What the numbers were measured on: hardware, filesystem, Python. Reads what the system says; a fact it does not tell is empty or 0."""

import gc
import os
import platform
import re
import sys
from pathlib import Path
from typing import Final

from msgspec import Struct

_PROC: Final = Path("/proc")
_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")


class Machine(Struct, frozen=True, kw_only=True):
    """Facts of one machine and process."""

    cpu: str
    cores: int
    """Cores this process may use."""
    memory_bytes: int
    filesystem: str
    """Type and device of the filesystem the data lay on."""
    system: str
    load: float
    """Processes that wanted to run in the minute before the measurement."""
    python: str
    perdure: str
    loop: str
    gc_thresholds: tuple[int, int, int]
    gc_frozen: int
    """Objects the collector passes over since start-up."""


def machine_at(data: Path, loop: str) -> Machine:
    """The facts as they are now; `data` is the directory that will be written to."""
    from perdure import __version__

    return Machine(
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        filesystem=" on ".join(filter(None, mount_of(data))),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        load=os.getloadavg()[0],
        python=f"{platform.python_implementation()} {platform.python_version()}",
        perdure=__version__,
        loop=loop,
        gc_thresholds=gc.get_threshold(),
        gc_frozen=gc.get_freeze_count(),
    )


def is_in_memory(data: Path) -> bool:
    """True when nothing written there reaches a disk, so that a sync costs (and keeps) nothing."""
    return mount_of(data)[0] in _IN_MEMORY


def mount_of(path: Path) -> tuple[str, str]:
    """Type and device of the filesystem that holds `path`; empty where the system does not tell."""
    found, longest = ("", ""), -1
    resolved = path.resolve()
    for line in _lines(_PROC / "self/mountinfo"):
        front, _, back = line.partition(" - ")
        point = _ESCAPE.sub(lambda code: chr(int(code[1], 8)), front.split()[4])
        if len(point) >= longest and resolved.is_relative_to(point):
            kind, device = back.split()[:2]
            found, longest = (kind, device), len(point)
    return found


def resident_bytes(pid: int | None = None) -> int:
    """Memory of a process (this one) that lies in RAM; of this one the highest it ever was where the system tells no more, of another 0."""
    for line in _lines(_PROC / f"{pid or 'self'}/statm"):
        return int(line.split()[1]) * os.sysconf("SC_PAGE_SIZE")
    if pid is not None:
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _cpu() -> str:
    for line in _lines(_PROC / "cpuinfo"):
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
