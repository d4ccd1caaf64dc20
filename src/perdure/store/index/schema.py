"""The tables, and how a connection to them is opened. A change of any of this raises `FORMAT`; an index of another format is made anew."""

import sqlite3
from pathlib import Path
from typing import Final

FORMAT: Final = 1
"""Kept as SQLite's `user_version`."""

INDEX_FILE: Final = "index.sqlite"
"""Its name, beside the journal's folder."""

WRITER_CACHE_KIB: Final = 8 * 1024
READER_CACHE_KIB: Final = 1024
WAL_PAGES: Final = 4_000
"""So many pages (16 MiB) are written before they are moved to the file itself, which costs syncs on the disk the journal is on too."""

TABLES: Final = """
CREATE TABLE state (id INTEGER PRIMARY KEY CHECK (id = 1), position BLOB NOT NULL, newest INTEGER NOT NULL, batch INTEGER NOT NULL);

CREATE TABLE workflows (
    id INTEGER PRIMARY KEY, namespace TEXT NOT NULL, workflow_id TEXT NOT NULL,
    transitions INTEGER NOT NULL, last_run INTEGER NOT NULL, is_open INTEGER NOT NULL, wake_at INTEGER, owed BLOB
);
CREATE UNIQUE INDEX workflows_by_id ON workflows (namespace, workflow_id);

CREATE TABLE runs (
    id INTEGER PRIMARY KEY, workflow INTEGER NOT NULL, namespace TEXT NOT NULL, workflow_id TEXT NOT NULL, run_id TEXT NOT NULL,
    started_at INTEGER NOT NULL, type TEXT NOT NULL, queue TEXT NOT NULL, parent TEXT NOT NULL, first INTEGER NOT NULL,
    status TEXT NOT NULL, closed_at INTEGER NOT NULL, length INTEGER NOT NULL, build_id TEXT NOT NULL,
    paused INTEGER NOT NULL, quarantined INTEGER NOT NULL, attributes BLOB, last INTEGER NOT NULL
);
CREATE INDEX runs_by_workflow ON runs (workflow, run_id);

CREATE TABLE places (
    workflow INTEGER NOT NULL, number INTEGER NOT NULL, segment INTEGER NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL,
    PRIMARY KEY (workflow, number)
) WITHOUT ROWID;

CREATE TABLE attributes (run INTEGER NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL, value);
CREATE INDEX attributes_by_run ON attributes (run);
"""

INDEXES: Final = """
CREATE INDEX IF NOT EXISTS workflows_open ON workflows (wake_at) WHERE is_open;
CREATE INDEX IF NOT EXISTS runs_in_order ON runs (namespace, started_at, run_id, workflow_id);
CREATE INDEX IF NOT EXISTS runs_by_status ON runs (namespace, status, started_at, run_id, workflow_id);
CREATE INDEX IF NOT EXISTS runs_by_type ON runs (namespace, type, started_at, run_id, workflow_id);
CREATE INDEX IF NOT EXISTS runs_by_id ON runs (namespace, workflow_id, started_at, run_id);
CREATE INDEX IF NOT EXISTS attributes_by_value ON attributes (name, kind, value, run);
"""
"""Only asked of listings; made last where everything is written at once."""


def connect(path: Path | None, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode, usable from any one thread at a time; without a path the database is in memory.

    Raises `sqlite3.Error`.
    """
    if path is None:
        return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    mode = "ro" if read_only else "rwc"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False
    )
    connection.execute(f"PRAGMA cache_size = -{READER_CACHE_KIB if read_only else WRITER_CACHE_KIB}")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("PRAGMA busy_timeout = 5000")
    return connection


def write_behind(connection: sqlite3.Connection) -> None:
    """Write so that a crash leaves the index as it was after some earlier step, at the cost of few syncs."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")


def write_once(connection: sqlite3.Connection) -> None:
    """Write as fast as can be; after a crash the file is worth nothing."""
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")


def create(connection: sqlite3.Connection) -> None:
    """Make the tables that are written to; `INDEXES` follow."""
    connection.executescript(TABLES)
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def check_tables(connection: sqlite3.Connection) -> None:
    """Raises `sqlite3.Error` when the tables and their indexes are not those of this format."""
    model = sqlite3.connect(":memory:")
    try:
        model.executescript(TABLES + INDEXES)
        if not _made(model) <= _made(connection):
            raise sqlite3.DatabaseError("its tables are not those of this format")
    finally:
        model.close()


def _made(connection: sqlite3.Connection) -> set[tuple[str, str | None]]:
    return set(connection.execute("SELECT name, sql FROM sqlite_master"))


def files_of(path: Path) -> tuple[Path, ...]:
    """The index's file and those SQLite keeps beside it."""
    return path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")
