"""The outcome of one check."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

Status = Literal["ok", "warn", "fail"]


class Check(Struct, frozen=True, kw_only=True):
    """`found` says what is the case, `mend` what to do about it; only what is not ok has one."""

    name: str
    status: Status
    found: str
    mend: str = ""


def ok(name: str, found: str) -> Check:
    return Check(name=name, status="ok", found=found)


def warn(name: str, found: str, mend: str) -> Check:
    """A node will run, but worse than it could."""
    return Check(name=name, status="warn", found=found, mend=mend)


def fail(name: str, found: str, mend: str) -> Check:
    """A node will not run here, or would lose data."""
    return Check(name=name, status="fail", found=found, mend=mend)


def tried(name: str, check: Callable[[], Check]) -> Check:
    """The check's outcome; one that cannot be carried out has failed."""
    try:
        return check()
    except OSError as error:
        return fail(name, f"could not be looked at: {error}", "see what the system says of the path or permission named")
