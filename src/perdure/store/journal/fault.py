"""What was found wrong in a journal, and whose history it took. Written into the header of the next segment, so only ever extended."""

from msgspec import Struct


class RunName(Struct, frozen=True, kw_only=True, omit_defaults=True, order=True):
    """A run whose history is damaged. `workflow_id` is empty when nothing whole says under which id it ran."""

    run_id: str
    workflow_id: str = ""
    namespace: str = ""


class Fault(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One damaged stretch: `length` bytes from `offset` on, which held `lines` lines from number `seq` on (0 = none was lost).

    `named` says what told the runs: "chain" (the next line), "index", "continuity" (event numbers that do not go on), "suspicion" (any
    run that might have been meant), "" when there was no run to name. `kept` is the file that the bytes were put aside in.
    """

    segment: int
    offset: int
    length: int = 0
    seq: int = 0
    lines: int = 0
    why: str = ""
    runs: tuple[RunName, ...] = ()
    named: str = ""
    kept: str = ""

    @property
    def place(self) -> str:
        """The damaged bytes, in words."""
        return f"segment {self.segment}, byte {self.offset}"
