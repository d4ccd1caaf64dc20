"""The embedded store: append-only segments of CRC-checked JSON lines. `docs/journal-format.md` describes the files."""

from perdure.store.journal.recovery import Recovery
from perdure.store.journal.store import JournalStore

__all__ = ["JournalStore", "Recovery"]
