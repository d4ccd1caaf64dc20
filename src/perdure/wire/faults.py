"""Errors on the wire: an error of `core.errors` as data, and back."""

from typing import Any

from msgspec import Struct

from perdure.core.errors import BY_CODE, PerdureError


class Fault(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error as data: the class's code, its message and its keyword fields."""

    code: str
    message: str
    fields: dict[str, str | int | float] = {}


def fault_of(error: BaseException) -> Fault:
    """An error on its way to the asker. What is no error of perdure's is one of the node itself, and carries no fields."""
    if not isinstance(error, PerdureError):
        return Fault(code=PerdureError.code, message=f"the node failed at this: {error!r}")
    fields: dict[str, str | int | float] = {
        name: value for name, value in vars(error).items() if isinstance(value, (str, float, int))
    }
    return Fault(code=error.code, message=error.message, fields=fields)


def error_of(fault: Fault) -> PerdureError:
    """The error again. Of a class not known here, or with other fields, what is known is kept: the message above all."""
    kind: Any = BY_CODE.get(fault.code, PerdureError)
    try:
        error: PerdureError = kind(fault.message, **fault.fields)
    except TypeError:
        error = kind(fault.message)
    return error
