"""What can be wrong with a store itself. Errors about a request are in `core.errors`; a full disk is `ports.DiskFull`."""

from typing import ClassVar

from perdure.core.errors import PerdureError, Unavailable


class StoreFailed(Unavailable):
    """A write ended in a way that leaves open what is on disk, or the store is closed: this object takes no writes any more.

    Opening the store again (a new process, as a rule) finds out what was kept.
    """


class JournalCorrupt(PerdureError):  # noqa: N818  named like the errors of core
    """The journal holds bytes that nothing but damage explains; nothing was changed.

    `segment` is the file, `offset` the byte at which the bad line begins, `seq` the number that line should have (0: not known).
    """

    code: ClassVar[str] = "JOURNAL_CORRUPT"

    def __init__(self, message: str = "", *, segment: str = "", offset: int = 0, seq: int = 0) -> None:
        super().__init__(message)
        self.segment: str = segment
        self.offset: int = offset
        self.seq: int = seq


class JournalMismatch(PerdureError):  # noqa: N818  named like the errors of core
    """The journal is whole but not for this perdure: a newer format, or another shard count."""

    code: ClassVar[str] = "JOURNAL_MISMATCH"
