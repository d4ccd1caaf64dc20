"""The index's file: opening it as it was left, making it anew, setting it aside when it is damaged."""

import logging
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Final

from perdure.store.index.schema import FORMAT, INDEXES, check_tables, connect, create, files_of, write_behind, write_once
from perdure.store.index.tables import Tables

DAMAGED: Final = ".damaged"
"""Added to the name of an index that SQLite could not read."""
BUILDING: Final = ".building"
"""Added to the name of one that is being made from a whole journal."""

_log: Final = logging.getLogger(__name__)


def reopened(path: Path) -> Tables | None:
    """The index as an earlier process left it; None when there is none of this format. One that is damaged is set aside."""
    if not path.exists():
        return None
    try:
        connection = connect(path)
        try:
            if connection.execute("PRAGMA user_version").fetchone()[0] != FORMAT:
                connection.close()
                remove(path)
                return None
            check_tables(connection)
            write_behind(connection)
            return Tables(connection)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        set_aside(path, error)
        return None


def copied(path: Path) -> Tables | None:
    """A copy in memory of an index that nobody uses, for whoever may change nothing there; None when it was not left in good order."""
    if not path.exists() or any(name.exists() for name in files_of(path)[1:]):
        return None
    try:
        source = sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)
        try:
            if source.execute("PRAGMA user_version").fetchone()[0] != FORMAT:
                return None
            copy = connect(None)
            source.backup(copy)
            check_tables(copy)
            return Tables(copy)
        finally:
            source.close()
    except sqlite3.Error as error:
        _log.warning("the index %s cannot be read: %s", path, error)
        return None


def fresh(path: Path | None) -> Tables:
    """An empty index, for little that is to be written; without a path in memory. Raises `sqlite3.Error`."""
    if path is not None:
        remove(path)
    connection = connect(path)
    if path is not None:
        write_behind(connection)
    create(connection)
    connection.executescript(INDEXES)
    return Tables(connection)


def begun(path: Path) -> Tables:
    """An empty index for everything a journal holds; `finished` puts it in its place. Raises `sqlite3.Error`."""
    building = path.with_name(path.name + BUILDING)
    remove(building)
    connection = connect(building)
    write_once(connection)
    create(connection)
    return Tables(connection)


def finished(building: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    """Put an index that was `begun` and written in its place, whole whatever happens, and open it there. Raises `sqlite3.Error`."""
    building.executescript(INDEXES)
    building.execute("PRAGMA synchronous = FULL")
    building.execute(f"PRAGMA user_version = {FORMAT + 1}")  # a write, so that everything before is synced with it
    building.execute(f"PRAGMA user_version = {FORMAT}")
    building.close()
    remove(path)
    try:
        path.with_name(path.name + BUILDING).replace(path)
    except OSError as error:
        raise sqlite3.OperationalError(f"it cannot be put in its place: {error}") from error
    connection = connect(path)
    write_behind(connection)
    return connection


def in_memory(source: Tables) -> Tables:
    """A copy of what is in an index that cannot be written any more. Raises `sqlite3.Error` when it cannot be read either."""
    connection = connect(None)
    source.connection.backup(connection)
    return Tables(connection)


def set_aside(path: Path, error: BaseException) -> None:
    """Keep what SQLite could not read for people to look at, out of the way."""
    _log.warning("the index %s is damaged and will be made anew from the journal: %s", path, error)
    with suppress(OSError):  # then it is made anew over it
        for name in files_of(path):
            if name.exists():
                name.replace(name.with_name(name.name + DAMAGED))


def remove(path: Path) -> None:
    """Take an index away. It can be made from the journal at any time; whoever changes a journal other than at its end must do this.

    Raises `sqlite3.Error`, as all that goes wrong with an index does.
    """
    try:
        for name in reversed(files_of(path)):
            name.unlink(missing_ok=True)
    except OSError as error:
        raise sqlite3.OperationalError(f"it cannot be removed: {error}") from error
