"""Parts of reports too long for one message: kept in memory until the report they belong to comes, which then is one again.

Losing parts costs a replay, never a step: the report is refused, its worker throws its runner away, and the run is offered again.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from perdure.core.errors import LimitExceeded, Unavailable
from perdure.core.limits import Limits
from perdure.core.parts import append, count_commands
from perdure.core.replies import Taken
from perdure.core.requests import Report, ReportPart, Step

REPORTS_MAX: Final = 1_000
"""Reports whose parts are held at once; the one whose last part came longest ago goes first."""


class _Held(Struct):
    steps: list[Step]
    parts: int = 0
    commands: int = 0


class ReportParts:
    """Collects parts by run and nonce."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._held: dict[tuple[str, str], _Held] = {}

    def __len__(self) -> int:
        return len(self._held)

    def take(self, part: ReportPart) -> Taken:
        """Keep a part. Raises `Unavailable` for one that does not follow the last, `LimitExceeded` for one too long."""
        size = count_commands(part.steps)
        if size > self._limits.message_commands_max:
            raise LimitExceeded(too_long(size, self._limits))
        key = (part.run_id, part.nonce)
        held = self._held.pop(key, None) or _Held([])
        if part.part > held.parts + 1:
            raise Unavailable(f"part {part.part} of a report came after part {held.parts}: send the report again")
        self._held[key] = held
        if len(self._held) > REPORTS_MAX:
            del self._held[next(iter(self._held))]
        if part.part <= held.parts:
            return Taken(run_id=part.run_id, duplicate=True)
        held.parts = part.part
        if (
            held.commands <= self._limits.decision_commands_max
        ):  # beyond it the run fails for it: no need to hold more than that shows
            append(held.steps, part.steps)
            held.commands += size
        return Taken(run_id=part.run_id)

    def whole(self, report: Report) -> Report:
        """The report with all its parts. Raises `Unavailable` when one is missing."""
        held = self._held.pop((report.run_id, report.nonce), None)
        if held is None or held.parts != report.parts:
            raise Unavailable(
                f"of {report.parts} parts of a report {held.parts if held else 0} are here: send the report again"
            )
        append(held.steps, report.steps)
        return replace(report, steps=tuple(held.steps))


def too_long(commands: int, limits: Limits) -> str:
    """Why a message is refused."""
    return f"one message holds {commands} commands; the limit (message_commands_max) is {limits.message_commands_max}"
