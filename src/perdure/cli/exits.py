"""How a command ends: exit codes, and the one line on standard error that says why.

0 ok · 1 the workflow failed, a replay mismatch, corruption · 2 usage · 3 not found · 4 conflict · 5 refused · 6 unavailable ·
124 timeout · 130 interrupted
"""

import re
import sys
from typing import Final

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
CONFLICT: Final = 4
REFUSED: Final = 5
UNAVAILABLE: Final = 6
TIMEOUT: Final = 124
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def is_expected(error: BaseException) -> bool:
    """True for what can happen to a command without anything being wrong with its code."""
    from perdure.core.errors import PerdureError

    return isinstance(error, (PerdureError, TimeoutError, OSError))


def code_of(error: BaseException) -> int:
    """The exit code an error stands for."""
    from perdure.core import errors

    codes: tuple[tuple[type[BaseException], int], ...] = (
        (errors.InvalidArgument, USAGE),
        (errors.NotFound, NOT_FOUND),
        (errors.WorkflowAlreadyStarted, CONFLICT),
        (errors.AlreadyExists, CONFLICT),
        (errors.WorkflowClosed, CONFLICT),
        (errors.ResourceExhausted, REFUSED),
        (errors.LimitExceeded, REFUSED),
        (errors.PermissionDenied, REFUSED),
        (errors.Unavailable, UNAVAILABLE),
        (TimeoutError, TIMEOUT),
        (OSError, UNAVAILABLE),
    )
    return next((code for kind, code in codes if isinstance(error, kind)), FAILED)


def complain(error: BaseException, *, as_json: bool) -> int:
    """Say on standard error what went wrong, in one line of JSON or in words, and return the exit code."""
    retry_after = getattr(error, "retry_after", None)
    column = getattr(error, "column", 0)
    if as_json:
        from msgspec import json

        about: dict[str, object] = {"code": name_of(error), "message": shown(str(error))}
        if retry_after is not None:
            about["details"] = {"retry_after": retry_after}
        elif column:
            about["details"] = {"column": column}
        say(json.encode({"error": about}).decode())
    else:
        hint = "" if retry_after is None else f"; try again after {retry_after:g} s"
        say(f"perdure: {shown(str(error)) or name_of(error)}{hint}")
    return code_of(error)


def name_of(error: BaseException) -> str:
    """The error's stable code."""
    from perdure.core.errors import PerdureError, Unavailable

    if isinstance(error, PerdureError):
        return error.code
    return "TIMEOUT" if isinstance(error, TimeoutError) else Unavailable.code if isinstance(error, OSError) else "ERROR"


def shown(text: str) -> str:
    """Text from elsewhere for a terminal: what would steer it, or is no text, is written out."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def say(text: str) -> None:
    """Anything that is not the command's data."""
    print(text, file=sys.stderr, flush=True)
