"""The source files an author may change while a node runs, and a wait until one has. For `--reload`."""

import asyncio
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Final

LOOK_S: Final = 0.25
"""How often the files are looked at."""

Mark = tuple[int, int]


class Sources:
    """Files and how they looked when this was made: of every imported module that is neither installed nor perdure's own, and `more`."""

    def __init__(self, more: Iterable[Path] = ()) -> None:
        self._marks: dict[Path, Mark] = {}
        self.add(imported())
        self.add(more)

    def __len__(self) -> int:
        return len(self._marks)

    def add(self, files: Iterable[Path]) -> None:
        """Watch these too, as they look now. Those that are watched already are compared with how they looked then."""
        for path in files:
            if (path := path.resolve()) not in self._marks:
                self._marks[path] = _mark(path)

    async def changed(self) -> Path:
        """Wait for a change, and until it is over: editors write in several steps. Returns a file that has changed.

        From there on all of them are compared with how they look now.
        """
        while (path := self._first_changed()) is None:  # noqa: ASYNC110  files tell nobody that they have changed
            await asyncio.sleep(LOOK_S)
        mark = _mark(path)
        while True:
            await asyncio.sleep(LOOK_S)
            if (later := _mark(path)) == mark and later != (0, 0):
                self._marks = {path: _mark(path) for path in self._marks}
                return path
            mark = later

    def _first_changed(self) -> Path | None:
        return next((path for path, mark in self._marks.items() if _mark(path) != mark), None)


def _mark(path: Path) -> Mark:
    """When and how large; zeros while it is gone."""
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


def imported() -> Iterable[Path]:
    """The files of every imported module that is neither installed nor perdure's own."""
    installed = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is None or name.partition(".")[0] == "perdure":
            continue
        path = Path(file)
        if path.suffix == ".py" and not any(path.is_relative_to(folder) for folder in installed):
            yield path
