"""The interpreter's audit events: files, sockets, processes, threads and real sleeping, refused inside workflow code.

The hook is called for every such event of the process and can never be removed, so it asks first whether any thread is inside an
activation at all (about 60 ns an event). Imports, logging, warnings and traceback formatting may read and write files; anyone may read the time zone database.
"""

import sys
from functools import cache
from typing import Any, Final

from perdure.replay.activation import ACTIVE, guarded_loop
from perdure.replay.frames import timezone_file, within_trusted
from perdure.replay.loop import WorkflowLoop

_REFUSED_EVENTS: Final = frozenset(
    {
        "open", "time.sleep", "builtins.input", "sqlite3.connect", "urllib.Request", "http.client.connect", "http.client.send",
        "_thread.start_new_thread", "_thread.start_joinable_thread", "signal.pthread_kill", "webbrowser.open", "pathlib.Path.glob",
        "pathlib.Path.rglob", "glob.glob", "glob.glob/2", "pty.spawn", "mmap.__new__",
    }
)  # fmt: skip
_REFUSED_MODULES: Final = frozenset(
    {
        "os", "socket", "subprocess", "shutil", "tempfile", "fcntl", "msvcrt", "winreg", "smtplib", "ftplib", "imaplib", "poplib",
        "nntplib", "telnetlib", "syslog", "resource",
    }
)  # fmt: skip
# They change or read this process only, or are asked by the standard library on its own account.
_ALLOWED: Final = frozenset({"os.add_dll_directory", "socket.gethostname"})

_installed: Final[list[bool]] = []


def install() -> None:
    """Add the hook. Idempotent; an audit hook stays until the process ends."""
    if not _installed:
        _installed.append(True)
        sys.addaudithook(_hook)


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if ACTIVE and (event == "import" or _is_refused(event)):
        loop = guarded_loop()
        if loop is not None:
            _judge(loop, event, args)


@cache
def _is_refused(event: str) -> bool:
    return event not in _ALLOWED and (event in _REFUSED_EVENTS or event.partition(".")[0] in _REFUSED_MODULES)


def _judge(loop: WorkflowLoop, event: str, args: tuple[Any, ...]) -> None:
    if event == "import":
        loop.importing = True
    elif not timezone_file(args) and not within_trusted(sys._getframe(2)):
        raise loop.refuse(f"{event}({_shown(args)})")


def _shown(args: tuple[Any, ...]) -> str:
    """The first argument when it is plain: enough to find the call, and nothing secret that follows it."""
    first = args[0] if args else None
    return repr(first)[:100] if isinstance(first, str | int | float) else ""
