"""`--help` and `version` answer at once: what they import is counted, so that no clock has to be trusted."""

import subprocess
import sys

import pytest

HEAVY = {"perdure.core", "perdure.engine", "perdure.node", "perdure.sdk", "perdure.store", "perdure.worker", "sqlite3"}

BESIDE = ("broker", "engine", "node", "server", "store")
"""What a worker needs nothing of."""


def imported_by(*tokens: str) -> set[str]:
    """Every module a command imports."""
    command = [sys.executable, "-X", "importtime", "-m", "perdure", *tokens]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}


@pytest.mark.parametrize("tokens", [("--help",), ("workflow", "--help"), ("journal", "--help"), ("bench", "--help")])
def test_help_imports_no_engine(tokens: tuple[str, ...]) -> None:
    """Nor anything else that only a command that runs needs."""
    loaded = imported_by(*tokens)
    assert "perdure.cli.app" in loaded
    assert {name for name in loaded if any(name == part or name.startswith(f"{part}.") for part in HEAVY)} == set()


@pytest.mark.parametrize("token", ["version", "--version"])
def test_the_version_imports_no_command_line(token: str) -> None:
    """It does not even load the parser."""
    loaded = imported_by(token)
    assert "perdure.cli.version" in loaded
    assert {"cyclopts", "rich", "msgspec", "asyncio"} & loaded == set()


@pytest.mark.parametrize("module", ["perdure.cli.workers.child", "perdure.standalone"])
def test_a_process_that_only_works_loads_no_engine(module: str) -> None:
    """Nor a store, a server or a node: it has a hundred of its kind beside it."""
    program = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    loaded = set(done.stdout.split())
    assert "perdure.wire.remote_frontend" in loaded
    assert {name for name in loaded if name.split(".")[:2] in [["perdure", part] for part in BESIDE]} == set()


def test_the_process_above_workers_is_light() -> None:
    """It holds no connection and runs no code of users, so it needs neither the wire nor replay."""
    program = "import sys, perdure.cli.worker, perdure.cli.workers.supervisor; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert {"perdure.wire", "perdure.replay", "perdure.worker", "perdure.sdk"} & set(done.stdout.split()) == set()
