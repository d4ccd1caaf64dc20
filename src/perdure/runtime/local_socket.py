"""The socket file by which a node is reached on its own machine: made, found and removed here, never spoken through.

Only the user who runs the node may connect: the file is made private before anybody can reach it.
"""

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from perdure.core.errors import Unavailable

ADDRESS_BYTES_MAX: Final = 100
"""The kernel takes 107 bytes at most; longer paths are reached by way of a descriptor of their directory."""
CONNECT_S_MAX: Final = 5.0

_DESCRIPTORS: Final = Path("/proc/self/fd")


def bind(path: Path) -> socket.socket:
    """A listening socket at `path`, in place of one a dead process left there. Its directory must be this process's own.

    Raises `Unavailable` when something else than a socket lies there or the path is too long for this system; OSError.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        pass
    else:
        if not stat.S_ISSOCK(found.st_mode):
            raise Unavailable(f"{path} is in the way: a node makes a socket of that name, and it is none")
        path.unlink()
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _address(path) as address:
            made.bind(address)
        path.chmod(0o600)  # before `listen`, so nobody has connected yet
        made.listen()
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made


def connect(path: Path) -> socket.socket:
    """A socket connected to the one at `path`. Raises `Unavailable` when nobody listens there."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.settimeout(CONNECT_S_MAX)
        with _address(path) as address:
            made.connect(address)
        made.setblocking(False)
    except OSError as error:
        made.close()
        raise Unavailable(f"nobody answers at {path}: {error.strerror or error}") from error
    except BaseException:
        made.close()
        raise
    return made


def remove(path: Path) -> None:
    """Take a socket file away; its directory must still be this process's own. Idempotent."""
    path.unlink(missing_ok=True)


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """What the kernel takes for `path`, as long as the context lasts."""
    if len(os.fsencode(path)) <= ADDRESS_BYTES_MAX:
        yield str(path)
        return
    if not _DESCRIPTORS.is_dir():
        raise Unavailable(f"{path} is longer than the {ADDRESS_BYTES_MAX} bytes a socket's path may have here")
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield str(_DESCRIPTORS / str(directory) / path.name)
    finally:
        os.close(directory)
