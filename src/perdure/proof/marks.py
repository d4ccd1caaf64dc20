"""Which tests say they prove something: `@pytest.mark.rule(…)` and `@pytest.mark.scenario(…)`, found by reading test files."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

KINDS: Final = ("rule", "scenario")


def marked_tests(tests: Path, root: Path) -> dict[tuple[str, str], set[str]]:
    """(kind, number) → tests, named as pytest names them from `root`, without parameters. A file that cannot be read has none."""
    found: dict[tuple[str, str], set[str]] = {}
    for path in sorted(tests.rglob("*.py")):
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if any(f"mark.{kind}(" in text for kind in KINDS):
            name = path.resolve().relative_to(root.resolve()).as_posix()
            for key, test in _of_file(text, name):
                found.setdefault(key, set()).add(test)
    return found


def _of_file(text: str, name: str) -> Iterator[tuple[tuple[str, str], str]]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    yield from _of_body(tree.body, name, frozenset())


def _of_body(body: list[ast.stmt], name: str, outer: frozenset[tuple[str, str]]) -> Iterator[tuple[tuple[str, str], str]]:
    """Tests of a module or class; marks of `pytestmark` and of the class hold for all of them."""
    for node in body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "pytestmark" for t in node.targets):
            outer |= frozenset(_marks(node.value))
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            mine = outer.union(*(_marks(decorator) for decorator in node.decorator_list))
            if isinstance(node, ast.ClassDef):
                yield from _of_body(node.body, f"{name}::{node.name}", mine)
            elif node.name.startswith("test"):
                yield from ((key, f"{name}::{node.name}") for key in mine)


def _marks(node: ast.expr) -> Iterator[tuple[str, str]]:
    """Also those of single parameters: `pytest.param(…, marks=pytest.mark.rule("F8"))`."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in KINDS:
            kind = part.func.attr
            yield from ((kind, str(a.value)) for a in part.args if isinstance(a, ast.Constant))
