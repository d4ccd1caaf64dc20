"""Parts of reports too long for one message: kept in memory until the report they belong to comes, which then is one again.

Losing parts costs a replay, never a step: the report is refused, its worker throws its runner away, and the run is offered again.
"""

from typing import Final

from msgspec import MsgspecError, Struct
from msgspec.json import Encoder
from msgspec.structs import replace

from perdure.core.errors import LimitExceeded, Unavailable
from perdure.core.limits import Limits
from perdure.core.parts import append, count_commands
from perdure.core.replies import Taken
from perdure.core.requests import Report, ReportPart, Step

REPORTS_MAX: Final = 1_000
"""Reports whose parts are held at once; the one whose last part came longest ago goes first."""
BYTES_MAX: Final = 256 * 1024 * 1024
"""Text of all parts held; past it, too, the report whose last part came longest ago goes first."""

_encode: Final = Encoder().encode


class _Held(Struct):
    steps: list[Step]
    parts: int = 0
    commands: int = 0
    size: int = 0


class ReportParts:
    """Collects parts by run and nonce."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._held: dict[tuple[str, str], _Held] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self._held)

    def take(self, part: ReportPart) -> Taken:
        """Keep a part. Raises `Unavailable` for one that does not follow the last, `LimitExceeded` for one too long."""
        size = count_commands(part.steps)
        if size > self._limits.message_commands_max:
            raise LimitExceeded(too_long(size, self._limits))
        key = (part.run_id, part.nonce)
        held = self._taken(key) or _Held([])
        if part.part > held.parts + 1:
            raise Unavailable(f"part {part.part} of a report came after part {held.parts}: send the report again")
        self._keep(key, held)
        if part.part <= held.parts:
            return Taken(run_id=part.run_id, duplicate=True)
        held.parts = part.part
        if (
            held.commands <= self._limits.decision_commands_max
        ):  # beyond it the run fails for it: no need to hold more than that shows
            append(held.steps, part.steps)
            held.commands += size
            weight = _weight(part.steps)
            held.size += weight
            self._size += weight
            self._make_room()
        return Taken(run_id=part.run_id)

    def _keep(self, key: tuple[str, str], held: _Held) -> None:
        self._held[key] = held
        self._size += held.size
        self._make_room()

    def _taken(self, key: tuple[str, str]) -> _Held | None:
        held = self._held.pop(key, None)
        if held is not None:
            self._size -= held.size
        return held

    def _make_room(self) -> None:
        while len(self._held) > REPORTS_MAX or self._size > BYTES_MAX:
            self._taken(next(iter(self._held)))

    def whole(self, report: Report) -> Report:
        """The report with all its parts. Raises `Unavailable` when one is missing."""
        held = self._taken((report.run_id, report.nonce))
        if held is None or held.parts != report.parts:
            raise Unavailable(
                f"of {report.parts} parts of a report {held.parts if held else 0} are here: send the report again"
            )
        append(held.steps, report.steps)
        return replace(report, steps=tuple(held.steps))


def _weight(steps: tuple[Step, ...]) -> int:
    try:
        return len(_encode(steps))
    except (MsgspecError, ValueError, TypeError, OverflowError):
        return 0  # what cannot be written is refused where it is written


def too_long(commands: int, limits: Limits) -> str:
    """Why a message is refused."""
    return f"one message holds {commands} commands; the limit (message_commands_max) is {limits.message_commands_max}"
