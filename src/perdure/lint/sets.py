"""Which expressions are sets whose order differs from process to process.

Sets of whole numbers do not, nor do sets of tasks and futures: on a workflow's loop these hash by their place in the run.
"""

import ast
from typing import Final

_STABLE_ELEMENTS: Final = ("int", "bool", "Task", "Future", "Call")
_TASK_MAKERS: Final = frozenset({"create_task", "ensure_future", "Task"})
_SET_METHODS: Final = frozenset({"union", "intersection", "difference", "symmetric_difference", "copy"})
_SET_OPERATORS: Final = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)

ORDER_MATTERS: Final = frozenset(
    {"list", "tuple", "enumerate", "iter", "zip", "map", "filter", "dict.fromkeys", "asyncio.gather"}
)
"""Calls that keep the order of what they are given."""

ORDER_FREE: Final = frozenset({"sorted", "set", "frozenset", "sum", "min", "max", "any", "all", "len", "asyncio.wait"})
"""Calls whose result does not depend on the order of what they are given."""


class SetNames:
    """The names of one function that hold such sets, by what is assigned to them and how they are annotated."""

    def __init__(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.names: set[str] = set()
        stable: set[str] = set()
        for node in ast.walk(function):
            match node:
                case (
                    ast.arg(arg=name, annotation=ast.expr() as hint) | ast.AnnAssign(target=ast.Name(id=name), annotation=hint)
                ):
                    if _is_set_hint(hint):
                        (stable if _is_stable_hint(hint) else self.names).add(name)
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if self.holds(value):
                    self.names.add(name)
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="add"), args=[value]) if _is_stable(value):
                    stable.add(name)
                case _:
                    pass
        self.names -= stable

    def holds(self, node: ast.expr) -> bool:
        """True when `node` is a set whose order may differ."""
        match node:
            case ast.Set(elts=elements):
                return not all(_is_stable(element) for element in elements)
            case ast.SetComp(elt=element):
                return not _is_stable(element)
            case ast.Call(func=ast.Name(id="set" | "frozenset"), args=arguments):
                return not (arguments and _is_stable_iterable(arguments[0]))
            case ast.Call(func=ast.Attribute(value=value, attr=attr)):
                return attr in _SET_METHODS and self.holds(value)
            case ast.BinOp(left=left, op=op, right=right):
                return isinstance(op, _SET_OPERATORS) and (self.holds(left) or self.holds(right))
            case ast.Name(id=name):
                return name in self.names
            case _:
                return False


def _is_stable(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int) or value is None
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name in _TASK_MAKERS
        case _:
            return False


def _is_stable_iterable(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="range")):
            return True
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return all(_is_stable(element) for element in elements)
        case ast.GeneratorExp(elt=element) | ast.ListComp(elt=element):
            return _is_stable(element)
        case _:
            return False


def _is_set_hint(hint: ast.expr) -> bool:
    named = hint.value if isinstance(hint, ast.Subscript) else hint
    return isinstance(named, ast.Name) and named.id in {"set", "frozenset"}


def _is_stable_hint(hint: ast.expr) -> bool:
    """`set[int]`, `set[asyncio.Task[str]]`."""
    if not isinstance(hint, ast.Subscript):
        return False
    element = ast.unparse(hint.slice).partition("[")[0]
    return element.rpartition(".")[2].strip("\"'") in _STABLE_ELEMENTS
