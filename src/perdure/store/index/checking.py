"""Looking through the index's file for what does not fit together, while it is in use.

SQLite keeps no checksums: a row that a disk changed is no error to whoever reads it, and a run could not be found any more. What it can do is
hold every table against every index on it, which takes a second for some 50,000 runs: too long for a start, so a thread does it after one.
"""

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from perdure.store.index.schema import connect

STEPS: Final = 100_000
"""Steps of SQLite's between two looks whether to stop."""


class Checking:
    """One look through a file. Used once, and stopped."""

    def __init__(self, path: Path) -> None:
        """Raises `sqlite3.Error`."""
        self._connection = connect(path, read_only=True)
        self._connection.set_progress_handler(lambda: self._is_stopped, STEPS)
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="perdure-index-check")
        self._is_stopped = False
        self._found = self._executor.submit(self._fault)

    async def fault(self) -> str:
        """The first thing that does not fit; empty when everything does, or when nothing can be said."""
        return await asyncio.wrap_future(self._found)

    def _fault(self) -> str:
        try:
            found: str = self._connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        except sqlite3.OperationalError:  # stopped, say
            return ""
        except sqlite3.Error as error:
            return str(error)
        return "" if found == "ok" else found

    def stop(self) -> None:
        """End it, wherever it is. Idempotent."""
        if self._is_stopped:
            return
        self._is_stopped = True
        self._connection.interrupt()
        self._executor.shutdown()
        self._connection.close()
