"""Which functions are workflow code: those decorated with `@workflow`, and every plain function they use, in this file and beyond.

A function counts as used where its name is read: it may be called, given to a task, or mapped over a list. Activities are where it ends.
"""

import ast
from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct

from perdure.lint.library import Library
from perdure.lint.source import ACTIVITY, WORKFLOW, Definition, Function, Source, aliases, dotted

REEXPORTS_MAX = 10
"""So many times a name may be handed on from one file to the next."""

Body: TypeAlias = list[ast.stmt]


class Reached(Struct, frozen=True, eq=False):
    """A function of workflow code: where it stands, the class it is a method of if any, and the workflow that led to it."""

    source: Source
    function: Function
    workflow: str
    owner: ast.ClassDef | None = None

    @property
    def qualname(self) -> str:
        return f"{self.owner.name}.{self.function.name}" if self.owner is not None else self.function.name


class Scope:
    """What names mean inside one function: its own hide the file's."""

    def __init__(self, reached: Reached) -> None:
        self.source = reached.source
        self.imports: dict[str, str] = {}
        self.own: set[str] = set()
        for node in ast.walk(reached.function):
            match node:
                case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                    self.own.add(name)
                case ast.ExceptHandler(name=str(name)):
                    self.own.add(name)
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    self.own.add(name)
                case ast.Import() | ast.ImportFrom():
                    self.imports |= aliases([node], self.source.package)
                case _:
                    pass
        self.own -= {name for node in ast.walk(reached.function) if isinstance(node, ast.Global) for name in node.names}

    def meaning(self, node: ast.expr) -> str:
        """The full dotted name of `node`; empty for what is no dotted name or begins with a local value."""
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name) or (root.id in self.own and root.id not in self.imports):
            return ""
        name = dotted(node, self.source.names | self.imports if self.imports else self.source.names)
        is_ours = root.id in self.source.definitions or root.id in self.source.assigned
        return f"{self.source.name}.{name}" if is_ours and root.id not in self.imports else name

    def is_of_module(self, name: str) -> bool:
        """True when `name` is a value or class that the file defines, as seen from here."""
        return (
            name not in self.own
            and name not in self.imports
            and (name in self.source.assigned or isinstance(self.source.definitions.get(name), ast.ClassDef))
        )


class Found(Struct, frozen=True, eq=False):
    """A definition a name led to."""

    source: Source
    definition: Definition
    owner: ast.ClassDef | None = None

    @property
    def kind(self) -> str:
        return self.source.kind(self.definition)


def definition_of(name: str, source: Source, library: Library, handed_on: int = 0) -> Found | None:
    """What the dotted `name`, as `source` means it, is defined by; None for what is not of this project."""
    if name in WORKFLOW or name in ACTIVITY or not name or handed_on > REEXPORTS_MAX:
        return None
    rest = name.removeprefix(f"{source.name}.")
    if rest != name and (own := _inside(source, rest)) is not None:
        return own
    located = library.imported(source, name)
    if located is None:
        return None
    target, rest = located
    first, _, after = rest.partition(".")
    if first in target.definitions:
        return _inside(target, rest)
    if first in target.names:
        handed = f"{target.names[first]}.{after}" if after else target.names[first]
        return definition_of(handed, target, library, handed_on + 1)
    return None


def _inside(source: Source, rest: str) -> Found | None:
    first, _, after = rest.partition(".")
    definition = source.definitions.get(first)
    if definition is None or not after:
        return Found(source, definition) if definition is not None else None
    if isinstance(definition, ast.ClassDef):
        method = next((m for m in methods(definition) if m.name == after), None)
        return Found(source, method, definition) if method is not None else None
    # An attribute of a function: `charge.options`, `charge.fn`. Whoever asks wants the function.
    return Found(source, definition)


def methods(definition: ast.ClassDef) -> Iterator[Function]:
    yield from (node for node in definition.body if isinstance(node, Function))


def workflow_code(source: Source, library: Library) -> Iterator[Reached]:
    """Every function that workflows of `source` run, each once, in the order in which it is met."""
    met: set[int] = set()
    waiting = list(_roots(source, library))
    for reached in waiting:  # grows while it is walked
        if id(reached.function) in met:
            continue
        met.add(id(reached.function))
        yield reached
        waiting += _used(reached, library)


def _roots(source: Source, library: Library) -> Iterator[Reached]:
    for node in ast.walk(source.tree):
        if isinstance(node, Definition) and source.kind(node) == "workflow":
            if isinstance(node, ast.ClassDef):
                yield from _whole_class(source, node, node.name, library, 0)
            else:
                yield Reached(source, node, node.name)


def _whole_class(source: Source, node: ast.ClassDef, workflow: str, library: Library, depth: int) -> Iterator[Reached]:
    """All methods but activities, and those of the base classes of this project."""
    yield from (Reached(source, method, workflow, node) for method in methods(node) if source.kind(method) != "activity")
    for base in node.bases if depth < REEXPORTS_MAX else []:
        name = dotted(base, source.names)
        found = definition_of(name if "." in name else f"{source.name}.{name}", source, library)
        if found is not None and isinstance(found.definition, ast.ClassDef) and found.definition is not node:
            yield from _whole_class(found.source, found.definition, workflow, library, depth + 1)


def _used(reached: Reached, library: Library) -> Iterator[Reached]:
    scope = Scope(reached)
    for node in ast.walk(reached.function):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}:
            owner = reached.owner
            if owner is not None:
                yield from (Reached(reached.source, m, reached.workflow, owner) for m in methods(owner) if m.name == node.attr)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            found = definition_of(scope.meaning(node), reached.source, library)
            if found is not None and not found.kind:
                yield from _entered(found, reached.workflow)


def _entered(found: Found, workflow: str) -> Iterator[Reached]:
    if isinstance(found.definition, ast.ClassDef):
        begun = (m for m in methods(found.definition) if m.name in {"__init__", "__post_init__"})
        yield from (Reached(found.source, method, workflow, found.definition) for method in begun)
    else:
        yield Reached(found.source, found.definition, workflow, found.owner)
