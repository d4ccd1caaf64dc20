"""What is checked of a request of a worker in another process before it reaches an owner: names and numbers that would be written down.

A worker of this package has checked them where its author wrote them; this is for all others. Payloads and free text are passed over.
"""

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import fields as fields_of

from perdure.core.errors import InvalidArgument
from perdure.core.ids import fault_of_id, is_plain
from perdure.core.requests import Commands, Report, Step

WHOLE_MAX: Final = 2**62
"""Numbers in commands and reports, but for seeds. Instants and durations are in microseconds, and a sum of two fits where they are kept."""
_NAMES: Final = frozenset(
    {
        "build_id",
        "change_id",
        "idempotency_key",
        "name",
        "next_run_id",
        "nonce",
        "queue",
        "token",
        "update_id",
        "workflow_id",
        "workflow_type",
    }
)


def check_report(report: Report) -> None:
    """Raise `InvalidArgument` naming what in a report no worker would say."""
    check_fields(report)
    check_steps(report.steps)
    if report.closing is not None:
        check_fields(report.closing)


def check_steps(steps: tuple[Step, ...]) -> None:
    """As `check_report`, of steps alone."""
    for step in steps:
        if type(step) is Commands:
            for command in step.commands:
                check_fields(command)


def check_fields(struct: Struct) -> None:
    """Raise `InvalidArgument` unless its names are names, or empty where they may be left out, and its numbers of a sensible size."""
    kind = type(struct)
    names, numbers = _fields_of(kind)
    for field, may_be_empty, read in names:
        value = read(struct)
        if not (is_plain(value) or (may_be_empty and not value)) and (fault := fault_of_id(value)):
            raise InvalidArgument(f"{kind.__name__}.{field} {fault}")
    for field, read in numbers:
        if not -WHOLE_MAX <= read(struct) <= WHOLE_MAX:
            raise InvalidArgument(f"{kind.__name__}.{field} is no number a worker would send")


Read = Callable[[Any], Any]


@cache
def _fields_of(kind: type[Struct]) -> tuple[tuple[tuple[str, bool, Read], ...], tuple[tuple[str, Read], ...]]:
    """Names and numbers of a struct, each with what reads it."""
    fields = fields_of(kind)
    names = tuple(
        (each.name, each.default == "" or each.name == "build_id", attrgetter(each.name))
        for each in fields
        if each.name in _NAMES
    )
    return names, tuple((each.name, attrgetter(each.name)) for each in fields if each.type is int and each.name != "next_seed")


def check_name(what: str, value: str) -> None:
    """Raise `InvalidArgument` for what can be no name."""
    if not is_plain(value) and (fault := fault_of_id(value)):
        raise InvalidArgument(f"{what} {fault}")
