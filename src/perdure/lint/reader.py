"""Reads one function of workflow code and says what breaks which rule."""

import ast
from collections.abc import Iterator
from typing import Any, Final

from perdure.lint.calls import (
    EARLY,
    FILE_METHODS,
    LOG_METHODS,
    LOGGERS,
    NEVER_ALONE,
    PATH_METHODS,
    PATHS,
    THREAD_METHODS,
    rule_of,
)
from perdure.lint.library import Library
from perdure.lint.reach import Found, Reached, Scope, definition_of
from perdure.lint.rules import RULES
from perdure.lint.sets import ORDER_FREE, ORDER_MATTERS, SetNames

_MUTATORS: Final = frozenset(
    {
        "append", "extend", "insert", "remove", "pop", "popitem", "clear", "update", "setdefault", "add", "discard", "sort",
        "reverse", "appendleft", "extendleft", "popleft",
    }
)  # fmt: skip
_REPLAYING: Final = ("perdure.workflow.is_replaying", "perdure.sdk.workflow.workflow.is_replaying")
_SIDE_EFFECT: Final = ("perdure.workflow.side_effect", "perdure.sdk.workflow.workflow.side_effect")
_DATETIME_FIELDS: Final = 8
"""Positional arguments of `datetime(…)` up to and with its time zone."""


class Reader(ast.NodeVisitor):
    """Collects `(rule, node, message)` in `found`."""

    def __init__(self, reached: Reached, library: Library) -> None:
        self.found: list[tuple[str, ast.AST, str]] = []
        self._source = reached.source
        self._library = library
        self._scope = Scope(reached)
        self._sets = SetNames(reached.function)
        self._paths: set[str] = set()
        self._paths = {name for name, value in _assigned(reached.function) if self._is_path(value)}
        self._loggers: set[str] = set()
        self._loggers = {name for name, value in _assigned(reached.function) if self._is_logger(value)}
        self._recorded = 0
        self._order_free: set[int] = set()
        for statement in reached.function.body:
            self.visit(statement)

    def _report(self, rule: str, node: ast.AST, message: str) -> None:
        if not (self._recorded and RULES[rule].pure_once):
            self.found.append((rule, node, message))

    def _definition(self, node: ast.expr) -> Found | None:
        return definition_of(self._scope.meaning(node), self._source, self._library)

    # -------------------------------------------------------------------------------------------------------------- calls

    def visit_Call(self, node: ast.Call) -> None:
        name = self._scope.meaning(node.func)
        self._judge_call(node, name)
        self._judge_order(node, name)
        side_effect = name in _SIDE_EFFECT
        self._recorded += side_effect
        self.generic_visit(node)
        self._recorded -= side_effect

    def _judge_call(self, node: ast.Call, name: str) -> None:
        rule = rule_of(name) if name else ""
        if rule:
            self._report(rule, node, f"{name}()")
        elif isinstance(node.func, ast.Name) and name in EARLY and node.func.id not in self._scope.imports:
            self._report("early-name", node, f"{node.func.id}() is {name}, imported by name")
        elif name.startswith("datetime.datetime"):
            self._judge_datetime(node, name)
        elif name == "contextlib.suppress" and any(self._scope.meaning(a) == "BaseException" for a in node.args):
            self._report("swallowed-cancel", node, "suppress(BaseException)")
        elif isinstance(node.func, ast.Attribute):
            self._judge_method(node, node.func)

    def _judge_datetime(self, node: ast.Call, name: str) -> None:
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        zone = keywords.get("tzinfo", keywords.get("tz"))
        given = None in keywords or (zone is not None and not (isinstance(zone, ast.Constant) and zone.value is None))
        starred = any(isinstance(argument, ast.Starred) for argument in node.args)
        needed = {"datetime.datetime": _DATETIME_FIELDS, "datetime.datetime.fromtimestamp": 2}.get(name)
        if name == "datetime.datetime.utcfromtimestamp" or (
            needed is not None and len(node.args) < needed and not given and not starred
        ):
            self._report("naive-datetime", node, f"{name}() without a time zone")

    def _judge_method(self, node: ast.Call, method: ast.Attribute) -> None:
        root = method.value
        if method.attr in FILE_METHODS or (method.attr in PATH_METHODS and self._is_path(root)):
            self._report("io", node, f".{method.attr}()")
        elif method.attr in THREAD_METHODS:
            self._report("thread", node, f".{method.attr}()")
        elif method.attr in LOG_METHODS and self._is_logger(root):
            self._report("logging", node, f"{ast.unparse(node.func)}()")
        elif method.attr == "astimezone" and not node.args and not node.keywords:
            self._report("naive-datetime", node, "astimezone() takes the machine's own time zone")
        elif method.attr == "fn" and (found := self._definition(root)) is not None and found.kind == "activity":
            self._report("activity-body", node, f"{ast.unparse(node.func)}()")
        elif method.attr == "pop" and not node.args and self._sets.holds(root):
            self._report("set-order", node, f"{ast.unparse(root)}.pop() takes any element")
        elif method.attr in _MUTATORS:
            self._judge_target(node, root, f"{ast.unparse(node.func)}()")

    def _is_path(self, node: ast.expr) -> bool:
        match node:
            case ast.Call(func=func):
                return self._scope.meaning(func) in PATHS
            case ast.BinOp(left=left, op=ast.Div()):
                return self._is_path(left)
            case ast.Name(id=name):
                return name in self._paths
            case _:
                return False

    def _is_logger(self, node: ast.expr) -> bool:
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr="getChild")):
                return self._is_logger(value)
            case ast.Call(func=func):
                return self._scope.meaning(func) in LOGGERS
            case ast.Name(id=name) if name in self._loggers:
                return True
            case _:
                name = self._scope.meaning(node)
                return bool(name) and self._library.is_logger(self._source, name)

    # -------------------------------------------------------------------------------------------------------- order of sets

    def _judge_order(self, node: ast.Call, name: str) -> None:
        if name in ORDER_FREE:
            self._order_free |= {id(a) for a in node.args if isinstance(a, ast.GeneratorExp | ast.ListComp | ast.SetComp)}
        elif name in ORDER_MATTERS or (isinstance(node.func, ast.Attribute) and node.func.attr == "join"):
            for argument in node.args:
                self._judge_iterated(argument.value if isinstance(argument, ast.Starred) else argument)

    def _judge_iterated(self, node: ast.expr) -> None:
        if self._sets.holds(node):
            self._report("set-order", node, f"{ast.unparse(node)[:60]} is iterated")

    def visit_For(self, node: ast.For) -> None:
        self._judge_iterated(node.iter)
        self.generic_visit(node)

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self.generic_visit(node)

    def _visit_ordered(self, node: ast.ListComp | ast.GeneratorExp | ast.DictComp) -> None:
        if id(node) not in self._order_free:
            for generator in node.generators:
                self._judge_iterated(generator.iter)
        self.generic_visit(node)

    visit_ListComp = visit_GeneratorExp = visit_DictComp = _visit_ordered  # noqa: N815 – names of ast

    # --------------------------------------------------------------------------------------------------------- module state

    def visit_Global(self, node: ast.Global) -> None:
        self._report("module-state", node, f"global {', '.join(node.names)}")

    def _visit_assignment(self, node: ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete) -> None:
        targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]
        for target in targets:
            for part in ast.walk(target):
                if isinstance(part, ast.Subscript | ast.Attribute) and isinstance(part.ctx, ast.Store | ast.Del):
                    self._judge_target(node, part.value, f"{ast.unparse(part)} is changed")
        if not isinstance(node, ast.AnnAssign):
            self.generic_visit(node)
        elif node.value is not None:
            self.visit(node.value)

    visit_Assign = visit_AugAssign = visit_AnnAssign = visit_Delete = _visit_assignment  # noqa: N815 – names of ast

    def _judge_target(self, node: ast.AST, root: ast.expr, message: str) -> None:
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        if isinstance(root, ast.Name) and self._scope.is_of_module(root.id):
            self._report("module-state", node, message)

    # ------------------------------------------------------------------------------------------------------------ statements

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if self._scope.meaning(node) == "os.environ":
            self._report("environment", node, "os.environ")
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load) and self._scope.meaning(node) == "os.environ":
            self._report("environment", node, "os.environ")

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._judge_dropped(node.value)
        self.generic_visit(node)

    def _judge_dropped(self, call: ast.Call) -> None:
        """`charge(order)` or `charge.options(…)(order)` as a statement of its own."""
        func = call.func
        if isinstance(func, ast.Call) and isinstance(func.func, ast.Attribute) and func.func.attr == "options":
            func = func.func.value
        elif isinstance(func, ast.Attribute) and func.attr in {"options", "fn"}:
            return
        found = self._definition(func)
        is_call = found is not None and (found.kind == "activity" or (found.kind == "workflow" and found.owner is None))
        if is_call or self._scope.meaning(func) in NEVER_ALONE:
            self._report("not-awaited", call, f"{ast.unparse(func)}() is not awaited")

    def _visit_branch(self, node: ast.If | ast.While | ast.IfExp) -> None:
        for part in ast.walk(node.test):
            if isinstance(part, ast.Call) and self._scope.meaning(part.func) in _REPLAYING:
                self._report("replaying-branch", part, "is_replaying() decides what the code does")
        self.generic_visit(node)

    visit_If = visit_While = visit_IfExp = _visit_branch  # noqa: N815 – names of ast

    def _visit_try(self, node: Any) -> None:
        if any(_may_be_cancelled(statement) for statement in node.body):
            for handler in node.handlers:
                if self._catches_all(handler.type) and not any(isinstance(part, ast.Raise) for part in ast.walk(handler)):
                    caught = "except:" if handler.type is None else f"except {ast.unparse(handler.type)}:"
                    self._report("swallowed-cancel", handler, caught)
        self.generic_visit(node)

    visit_Try = visit_TryStar = _visit_try  # noqa: N815 – names of ast

    def _catches_all(self, kind: ast.expr | None) -> bool:
        if isinstance(kind, ast.Tuple):
            return any(self._catches_all(part) for part in kind.elts)
        return kind is None or self._scope.meaning(kind) == "BaseException"


def _assigned(function: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Local names and what is assigned to them."""
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.NamedExpr(target=ast.Name(id=name), value=value):
                yield name, value
            case _:
                pass


def _may_be_cancelled(statement: ast.stmt) -> bool:
    """Cancellation arrives at an await; continuing as new leaves by an exception of its own."""
    return any(
        isinstance(part, ast.Await | ast.AsyncFor | ast.AsyncWith)
        or (isinstance(part, ast.Attribute) and part.attr == "continue_as_new")
        for part in ast.walk(statement)
    )
