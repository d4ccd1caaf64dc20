"""One file, parsed: what its names mean, which functions and classes it defines, which lines are to be left alone."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Final, TypeAlias

from perdure.core.errors import InvalidArgument
from perdure.lint.calls import LOGGERS
from perdure.lint.rules import RULES, ignored

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Definition: TypeAlias = Function | ast.ClassDef

WORKFLOW: Final = frozenset({"perdure.workflow", "perdure.sdk.workflow.workflow"})
ACTIVITY: Final = frozenset({"perdure.activity", "perdure.sdk.activity.activity"})

_COMMENT: Final = re.compile(r"#\s*perdure:\s*ignore(?:\[([^\]]*)\])?")


class Source:
    """A parsed module. `name` is its dotted name, or the stem of a file outside any package; `shown` is its path as people type it."""

    def __init__(self, path: Path, name: str, text: str, *, shown: str = "") -> None:
        self.path = path
        self.shown = shown or str(path)
        self.name = name
        self.text = text
        self.package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        try:
            self.tree = ast.parse(text, self.shown)
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None)
            place = f":{line}" if line else ""
            raise InvalidArgument(
                f"{self.shown}{place} is no Python that can be read: {getattr(error, 'msg', error)}"
            ) from error
        self.names = aliases(self.tree.body, self.package)
        self.definitions: dict[str, Definition] = {
            node.name: node for node in _statements(self.tree.body) if isinstance(node, Definition)
        }
        self.assigned = frozenset(_assigned(self.tree.body))
        self.loggers = frozenset(_loggers(self.tree.body, self.names))

    @cached_property
    def _ignored(self) -> dict[int, frozenset[str]]:
        """Line → rules not to speak of there."""
        found: dict[int, frozenset[str]] = {}
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type == tokenize.COMMENT and (match := _COMMENT.search(token.string)):
                named = match[1]
                found[token.start[0]] = frozenset(RULES) if named is None else ignored(named.split(","))
        return found

    def is_ignored(self, rule: str, *lines: int) -> bool:
        """True when a comment on one of `lines` says so."""
        return "perdure" in self.text and any(rule in self._ignored.get(line, ()) for line in lines)

    def kind(self, definition: Definition) -> str:
        """`workflow`, `activity`, or empty for what is neither."""
        for decorator in definition.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            name = dotted(called, self.names)
            if name in WORKFLOW:
                return "workflow"
            if name in ACTIVITY:
                return "activity"
        return ""


def aliases(body: list[ast.stmt], package: str) -> dict[str, str]:
    """Local name → full dotted name, for the imports among `body`, also those in `if`, `try` and `with`."""
    names: dict[str, str] = {}
    for node in _statements(body):
        if isinstance(node, ast.Import):
            names |= {
                a.asname or a.name.partition(".")[0]: a.name if a.asname else a.name.partition(".")[0] for a in node.names
            }
        elif isinstance(node, ast.ImportFrom):
            origin = _origin(node, package)
            names |= {a.asname or a.name: f"{origin}.{a.name}" for a in node.names}
    return names


def _origin(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*parts, *([node.module] if node.module else [])])


def dotted(node: ast.expr, names: dict[str, str]) -> str:
    """`t.time` → `time.time` when `t` is `time`; empty when the expression is no plain dotted name."""
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        left = dotted(node.value, names)
        return f"{left}.{node.attr}" if left else ""
    return ""


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of this scope: into `if`, `try`, `with` and loops, not into functions and classes."""
    for node in body:
        yield node
        if not isinstance(node, Definition):
            for part in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(node, part, []))
            for handler in getattr(node, "handlers", []):
                yield from _statements(handler.body)
            for case in getattr(node, "cases", []):
                yield from _statements(case.body)


def _loggers(body: list[ast.stmt], names: dict[str, str]) -> Iterator[str]:
    """Names that statements of this scope bind to a logger of the standard library."""
    for node in _statements(body):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=func))
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Call(func=func))
            ) if dotted(func, names) in LOGGERS:
                yield name
            case _:
                pass


def _assigned(body: list[ast.stmt]) -> Iterator[str]:
    """Names that statements of this scope bind to values."""
    for node in _statements(body):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            if target is not None:
                yield from (part.id for part in ast.walk(target) if isinstance(part, ast.Name))
