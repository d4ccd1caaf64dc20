"""Functions another process can find: by their module and their name in it."""

import sys
from types import MethodType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.core.errors import InvalidArgument

if TYPE_CHECKING:
    from perdure.sdk.activity import Activity


class Place(NamedTuple):
    """`file` is the module's source, empty when it has none: a module imported by path has a name no import statement finds."""

    module: str
    qualname: str
    file: str


def place_of(activity: "Activity[..., Any]") -> Place:
    """Where a child process finds the activity's function. Raises `InvalidArgument` that says why it cannot."""
    fn: Any = activity.fn
    module, qualname = str(fn.__module__), str(fn.__qualname__)
    if isinstance(fn, MethodType):
        raise _refusal(activity, "it is a method, and its object cannot travel: make it a function")
    if module == "__main__":
        raise _refusal(
            activity, "it is defined in __main__, which a child process cannot import: put it in a module of its own"
        )
    home = sys.modules.get(module)
    found = found_in(home, qualname)
    if "<" in qualname or home is None or found is None:
        raise _refusal(activity, f"{module}.{qualname} cannot be imported: define it at the top of a module")
    if fn is not found and fn is not getattr(found, "fn", None):
        raise _refusal(activity, f"{module}.{qualname} is something else: keep the name it was defined under")
    return Place(module, qualname, str(getattr(home, "__file__", None) or ""))


def found_in(module: ModuleType | None, qualname: str) -> Any:
    """What stands under that dotted name in a module, or None."""
    found: Any = module
    for name in qualname.split("."):
        found = getattr(found, name, None)
    return found


def _refusal(activity: "Activity[..., Any]", why: str) -> InvalidArgument:
    return InvalidArgument(f"activity {activity.name!r} cannot run in a process of its own: {why}")
