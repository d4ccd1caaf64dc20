"""How marked tests ended when they last ran: read, and carried on from one test session to the next. Never runs or imports a test."""

import ast
from collections.abc import Iterable
from pathlib import Path

import msgspec

from perdure.core.errors import InvalidArgument

Results = dict[str, dict[str, dict[str, str]]]
"""Kind of mark → number → test → `passed`, `skipped` or `failed`."""


def read_results(path: Path) -> Results:
    """What test sessions left. Raises `InvalidArgument` for what is no such file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Results)
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}; a run of pytest leaves it") from error
    except msgspec.DecodeError as error:
        raise InvalidArgument(f"{path} is no file of results: {error}") from error


def merged(old: Results, new: Results, root: Path, *, whole: bool) -> Results:
    """The old results with a session's own in their place, without tests that are no longer under `root`.

    `whole`: each test that ran did so with all its parameters, so that others of it are gone. Marks a test that ran has lost are gone too.
    """
    ran = {test for found in new.values() for outcomes in found.values() for test in outcomes}
    functions = {test.partition("[")[0] for test in ran} if whole else set[str]()
    known = _existing(
        {test.partition("[")[0] for found in old.values() for outcomes in found.values() for test in outcomes}, root
    )
    results: Results = {}
    for kind in sorted({*old, *new}):
        before, now = old.get(kind, {}), new.get(kind, {})
        for number in sorted({*before, *now}):
            kept = {
                test: outcome
                for test, outcome in before.get(number, {}).items()
                if test not in ran and (function := test.partition("[")[0]) in known and function not in functions
            }
            if outcomes := kept | now.get(number, {}):
                results.setdefault(kind, {})[number] = outcomes
    return results


def _existing(functions: Iterable[str], root: Path) -> set[str]:
    """Those of the functions (`tests/test_x.py::TestGroup::test_a`) that their files still define."""
    files = {name.partition("::")[0] for name in functions}
    defined = {f"{name}::{inner}" for name in files for inner in _defined(root / name)}
    return defined.intersection(functions)


def _defined(path: Path) -> set[str]:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return set()
    return set(_names(tree.body, ""))


def _names(body: list[ast.stmt], outer: str) -> Iterable[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield outer + node.name
        elif isinstance(node, ast.ClassDef):
            yield from _names(node.body, f"{outer}{node.name}::")
