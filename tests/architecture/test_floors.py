"""The building's floors: imports point down only, and time, chance and disk enter through `perdure.runtime` alone.

The tests read the source without running it. Every rule is also shown to bite, by reading a made-up file that breaks it.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"

THIRD_PARTY = {"core": {"msgspec"}}
"""Third-party packages a unit may import; units not named here may import any dependency."""

ALLOWED: dict[str, set[str]] = {
    "core": {"core"},
    "errors": {"core"},
    "codecs": {"sdk"},
    "interceptors": {"sdk"},
    "ports": {"core"},
    "runtime": {"core", "ports", "runtime"},
    "wire": {"core", "errors", "ports", "runtime", "wire"},
    "store": {"core", "ports", "runtime", "store"},
    "broker": {"core", "ports", "runtime", "broker"},
    "lint": {"core", "lint"},  # it reads text; nothing it reads is imported, so it needs nothing that runs
    "proof": {"core", "proof"},  # reads tests and results, runs none
    "sdk": {"core", "errors", "ports", "sdk"},  # ports for the client alone: it speaks to a Frontend
    "replay": {"core", "errors", "sdk", "replay"},
    "engine": {"core", "errors", "ports", "runtime", "engine"},
    "worker": {"core", "errors", "ports", "runtime", "sdk", "replay", "worker"},
    "gateway": {"core", "errors", "ports", "runtime", "sdk", "gateway"},
    "server": {"core", "errors", "ports", "runtime", "sdk", "engine", "worker", "gateway", "wire", "server"},
}
"""What a unit (package or top module under `perdure`) may import from perdure; what is not named may import anything below it."""

TOP = {
    "remote": {
        "node",
        "engine",
        "store",
        "broker",
        "server",
        "testing",
        "chaos",
        "bench",
        "demo",
        "cli",
    },  # a client's process is light
    "standalone": {
        "node",
        "engine",
        "store",
        "broker",
        "server",
        "testing",
        "chaos",
        "bench",
        "demo",
        "cli",
    },  # and so is a worker's
    "node": {"testing", "chaos", "bench", "demo", "cli"},
    "testing": {"chaos", "bench", "demo", "cli"},
    "chaos": {"cli"},
    "bench": {"cli"},
    "demo": {"cli"},
}
"""For the units of the upper floors it is shorter to say what they may *not* import: whatever stands above them."""

ADAPTERS = {"memory", "journal", "postgres", "inprocess", "rabbitmq"}
ADAPTER_NAMERS = {
    "node": "the composition root",
    "testing": "puts a node together with stand-ins for clock, files and broker",
    "store": "adapters share parts among themselves",
    "broker": "as store",
    "cli": "`perdure journal` works on the files of a stopped node",
    "demo": "audits the journal after the kill",
    "chaos": "as demo",
    "bench": "measures adapters by themselves",
}

BANNED_NAMES = {"utils", "common", "helpers", "models", "types", "manager", "misc", "base"}

DOORS = {
    "asyncio.create_task": "every task has an owner",
    "asyncio.ensure_future": "every task has an owner",
    "datetime.datetime.now": "time",
    "datetime.datetime.utcnow": "time",
    "open": "disk",
    "os.fdatasync": "disk",
    "os.fsync": "disk",
    "os.open": "disk",
    "os.urandom": "chance",
    "time.monotonic": "time",
    "time.monotonic_ns": "time",
    "time.time": "time",
    "time.time_ns": "time",
    "uuid.uuid1": "chance",
    "uuid.uuid4": "chance",
    "uuid_utils.uuid4": "chance",
    "uuid_utils.uuid7": "chance and time",
}
DOOR_PREFIXES = {"random.": "chance", "secrets.": "chance"}

DOOR_KEEPERS = {
    "runtime": "it is the door",
    "sdk": "gives workflow code deterministic stand-ins and, outside a workflow, the real thing",
    "replay": "patches these calls in order to refuse or replace them",
    "testing": "virtual time and seeded chance",
    "cli": "talks to people: files they name, seeds they want, clocks they see",
    "demo": "plays the outside world",
    "chaos": "plays the outside world",
    "bench": "measures with the real clock",
}

SERVER_LIBRARIES = {"starlette", "uvicorn", "cyclopts", "rich"}
HEAVY_PARTS = {
    "lint",
    "proof",
    "engine",
    "worker",
    "store",
    "broker",
    "node",
    "server",
    "gateway",
    "testing",
    "cli",
    "demo",
    "chaos",
    "bench",
}


@dataclass(frozen=True)
class Module:
    """One source file, parsed. `unit` is the package or top module below `perdure`; empty for `perdure` itself."""

    name: str
    tree: ast.Module

    @property
    def unit(self) -> str:
        return self.name.split(".")[1] if "." in self.name else ""


def read(path: Path) -> Module:
    parts = path.relative_to(SRC).with_suffix("").parts
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return Module(".".join(parts), ast.parse(path.read_text(encoding="utf-8"), str(path)))


MODULES = [read(path) for path in sorted((SRC / "perdure").rglob("*.py"))]


def imports(module: Module) -> Iterator[str]:
    """Dotted names of everything imported anywhere in the file, also inside functions and under TYPE_CHECKING."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module.name}:{node.lineno}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_imports(module: Module) -> Iterator[tuple[str, str]]:
    """(unit, full name) for each import from perdure; `from perdure import x` counts as unit `x`."""
    for name in imports(module):
        first, _, rest = name.partition(".")
        if first == "perdure" and rest:
            yield rest.split(".")[0], name


def floor_breaches(modules: Sequence[Module]) -> list[str]:
    found = []
    for module in modules:
        if module.unit in {"", "__main__"}:
            continue
        for unit, name in own_imports(module):
            allowed = ALLOWED.get(module.unit)
            if unit not in allowed if allowed is not None else unit in TOP.get(module.unit, set()):
                found.append(f"{module.name} imports {name}")
    return found


def third_party_breaches(modules: Sequence[Module]) -> list[str]:
    found = []
    for module in modules:
        allowed = THIRD_PARTY.get(module.unit)
        if allowed is None:
            continue
        for name in imports(module):
            top = name.split(".")[0]
            if top != "perdure" and top not in sys.stdlib_module_names and top not in allowed:
                found.append(f"{module.name} imports {name}")
    return found


def adapter_breaches(modules: Sequence[Module]) -> list[str]:
    found = []
    for module in modules:
        if module.unit in ADAPTER_NAMERS:
            continue
        for unit, name in own_imports(module):
            if unit in {"store", "broker"} and any(part in ADAPTERS for part in name.split(".")[2:]):
                found.append(f"{module.name} names the adapter {name}")
    return found


def aliases(tree: ast.Module) -> dict[str, str]:
    """Local name → full dotted name, for every import of the file."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {a.asname or a.name.split(".")[0]: a.name if a.asname else a.name.split(".")[0] for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    return names


def dotted(node: ast.expr, names: dict[str, str]) -> str:
    """`t.time` → `time.time` when `t` is `time`; empty when the expression is no plain dotted name."""
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        left = dotted(node.value, names)
        return f"{left}.{node.attr}" if left else ""
    return ""


def door_breaches(modules: Sequence[Module]) -> list[str]:
    """Uses (calls and references alike) of clocks, chance and disk outside the units that may."""
    found = []
    for module in modules:
        if module.unit in DOOR_KEEPERS:
            continue
        names = aliases(module.tree)
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.Name | ast.Attribute):
                continue
            name = dotted(node, names)
            # `open` as a bare name is the built-in; a method or a local of that name is not.
            wanted = name in DOORS if name != "open" else isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
            if wanted or any(name.startswith(prefix) for prefix in DOOR_PREFIXES):
                found.append(f"{module.name}:{node.lineno} uses {name}")
    return found


def made_up(name: str, source: str) -> list[Module]:
    return [Module(name, ast.parse(source))]


def test_there_is_source_to_judge() -> None:
    """Guards the other tests of this file against passing over nothing."""
    assert {"core", "sdk"} <= {module.unit for module in MODULES}


def test_imports_point_down() -> None:
    """No unit imports from a floor above it, nor a sibling of engine, worker and gateway another."""
    assert floor_breaches(MODULES) == []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("perdure.core.x", "from perdure.sdk import context"),
        ("perdure.engine.x", "from perdure import worker"),
        ("perdure.worker.x", "def f():\n    import perdure.engine.owner"),
        ("perdure.gateway.x", "from perdure.engine import owner"),
        ("perdure.replay.x", "from perdure.ports import Clock"),
        ("perdure.ports", "from perdure.runtime import clock"),
        ("perdure.testing.x", "from perdure.cli import main"),
    ],
)
def test_an_import_that_points_up_is_found(name: str, source: str) -> None:
    """The rule above bites."""
    assert len(floor_breaches(made_up(name, source))) == 1


def test_core_needs_only_the_standard_library_and_msgspec() -> None:
    """The pure heart has no other dependency."""
    assert third_party_breaches(MODULES) == []
    assert third_party_breaches(made_up("perdure.core.x", "import starlette.requests")) != []


def test_only_the_composition_root_names_adapters() -> None:
    """Engine, worker and the rest know stores and brokers by their Protocols alone."""
    assert adapter_breaches(MODULES) == []
    assert adapter_breaches(made_up("perdure.engine.x", "from perdure.store.journal import JournalStore")) != []


def test_every_unit_has_its_floor() -> None:
    """A new package or top module must be given its place in the tables of this file."""
    known = {"", "__main__", "cli", *ALLOWED, *TOP}
    assert {module.unit for module in MODULES} - known == set()


def test_time_chance_and_disk_enter_through_doors() -> None:
    """Outside `runtime` and the units named with a reason nobody reads a clock, draws a number or touches a file."""
    assert door_breaches(MODULES) == []


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.time()",
        "from time import monotonic as m\nm()",
        "import random as r\nr.random()",
        "from uuid import uuid4\nfield = uuid4",
        "open('x')",
        "import os\nos.fsync(1)",
        "from datetime import datetime\ndatetime.now()",
    ],
)
def test_a_way_around_the_doors_is_found(source: str) -> None:
    """The rule above sees through aliases and references."""
    assert len(door_breaches(made_up("perdure.engine.x", source))) == 1


def test_no_module_is_named_after_nothing() -> None:
    """A file is one noun; these names are none."""
    bad = [module.name for module in MODULES if BANNED_NAMES & set(module.name.split("."))]
    assert bad == []


def test_every_module_says_what_it_is_for() -> None:
    """Packages and modules alike begin with a docstring."""
    assert [module.name for module in MODULES if not ast.get_docstring(module.tree)] == []


def test_import_perdure_is_light() -> None:
    """`import perdure` loads neither server libraries nor any part that only a running node needs."""
    program = "import sys, perdure; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    loaded = set(done.stdout.split())
    assert "perdure" in loaded
    assert loaded & SERVER_LIBRARIES == set()
    assert loaded & {f"perdure.{part}" for part in HEAVY_PARTS} == set()


IMPORTED_MAX = 40
"""Modules that `import perdure` loads on top of a bare interpreter: 29 on 3.11, most of them `typing`, `re` and what these need. Counted,
because a clock says as much about the machine as about the import; `perdure doctor` measures the time."""
AUTHORS_MAX = 260
"""The same for `from perdure import activity, workflow`, with asyncio and msgspec: what every author's module pays."""


@pytest.mark.parametrize(
    ("statement", "most"),
    [("import perdure", IMPORTED_MAX), ("from perdure import activity, workflow, Retry, errors", AUTHORS_MAX)],
)
def test_importing_perdure_loads_few_modules(statement: str, most: int) -> None:
    """The cost of an import is the number of modules it loads, and that number is bounded."""
    program = f"import sys; before = set(sys.modules)\n{statement}\nprint(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    loaded = done.stdout.split()
    assert "perdure" in loaded
    assert len(loaded) <= most, sorted(loaded)
