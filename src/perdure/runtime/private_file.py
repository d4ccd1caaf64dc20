"""Small files that only this user may read, written whole: whoever reads one sees all of it or the one before."""

import contextlib
import os
from pathlib import Path
from typing import Final

_SUFFIX: Final = ".new"


def write_private(path: Path, content: bytes) -> None:
    """Put a file of mode 0600 at `path`, in place of one that is there. Not synced: it is of no use after a crash. Raises OSError."""
    fresh = path.with_name(path.name + _SUFFIX)
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        fresh.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise


def read_small(path: Path, bytes_max: int) -> bytes | None:
    """What a file holds; None when there is none, or one this user may not read, or one that is longer than `bytes_max`."""
    try:
        with path.open("rb") as file:
            content = file.read(bytes_max + 1)
    except OSError:
        return None
    return content if len(content) <= bytes_max else None


def remove(path: Path) -> None:
    """Take a file away. Idempotent; one that cannot be removed stays."""
    with contextlib.suppress(OSError):
        path.unlink()
