"""The fixtures of the pytest plugin, in pytest runs of their own: with pytest-asyncio, with anyio, and with neither."""

import importlib.util
import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import perdure

FLOWS = """
import asyncio
from perdure import activity, workflow

@activity
async def charge(order: str) -> str:
    return f"charged {order}"

@workflow
async def fulfil(order: str) -> str:
    await asyncio.sleep(3 * 86400)
    return await charge(order)
"""

TEST = """
import pytest
from flows import charge, fulfil

{mark}
async def test_three_days(perdure_env):
    perdure_env.register(fulfil, charge)
    start = perdure_env.now()
    assert await perdure_env.client.execute(fulfil("7"), id="order-7") == "charged 7"
    assert (perdure_env.now() - start).days == 3
"""


def outcome(folder: Path, *arguments: str, **files: str) -> tuple[dict[str, int], str]:
    """How a pytest run in `folder` ended: numbers by outcome, and all it printed."""
    for name, text in {"flows": FLOWS, **files}.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    # An installed plugin comes by its entry point; a source tree that was never installed names it.
    named = [] if entry_points(group="pytest11", name="perdure") else ["-p", "perdure.testing.pytest_plugin"]
    source = str(Path(perdure.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), source, os.environ.get("PYTHONPATH", "")])}
    env.pop("PYTEST_ADDOPTS", None)
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-rA", *named, *arguments, str(folder)],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    counted: dict[str, int] = {}
    for line in done.stdout.splitlines():
        if (word := line.split(" ")[0]) in {"PASSED", "FAILED", "ERROR", "SKIPPED"}:
            counted[word] = counted.get(word, 0) + 1
    return counted, done.stdout + done.stderr


NEITHER = ("-p", "no:asyncio", "-p", "no:anyio")


def test_without_any_async_plugin(tmp_path: Path) -> None:
    """A plain `async def` test is run, on virtual time; one that fails, fails."""
    failing = TEST.format(mark="") + "\nasync def test_wrong(perdure_env):\n    assert perdure_env.now() is None\n"
    counted, printed = outcome(tmp_path, *NEITHER, test_it=failing)
    assert counted == {"PASSED": 1, "FAILED": 1}, printed
    assert "assert perdure_env.now() is None" in printed


@pytest.mark.parametrize(
    ("mark", "options"),
    [
        ("@pytest.mark.asyncio", ()),
        ("", ()),
        ("", ("-o", "asyncio_mode=auto")),
        ("@pytest.mark.asyncio(loop_scope='module')", ()),
    ],
    ids=["marked", "unmarked", "auto", "module-loop"],
)
def test_with_pytest_asyncio(mark: str, options: tuple[str, ...], tmp_path: Path) -> None:
    """In strict mode with and without its mark, in auto mode, and on a loop that tests share."""
    if importlib.util.find_spec("pytest_asyncio") is None:
        pytest.skip("pytest-asyncio is not installed")
    options = ("-o", "asyncio_default_fixture_loop_scope=function", *options)  # it warns until somebody has decided
    twice = TEST.format(mark=mark) + TEST.format(mark=mark).replace("test_three_days", "test_again")
    counted, printed = outcome(tmp_path, *options, test_it=twice)
    assert counted == {"PASSED": 2}, printed


def test_with_anyio(tmp_path: Path) -> None:
    """On the runner of anyio, with its mark."""
    if importlib.util.find_spec("anyio") is None:
        pytest.skip("anyio is not installed")
    backend = "\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n"
    counted, printed = outcome(tmp_path, "-p", "no:asyncio", test_it=TEST.format(mark="@pytest.mark.anyio") + backend)
    assert counted == {"PASSED": 1}, printed


def test_options_fixtures_and_classes(tmp_path: Path) -> None:
    """Marks give options, the closest wins; fixtures register before the test begins; methods and parameters work."""
    text = """
import pytest
from datetime import UTC, datetime
from flows import charge, fulfil

pytestmark = pytest.mark.perdure_env(start=datetime(2030, 1, 1, tzinfo=UTC), seed=3)

@pytest.fixture
def shop(perdure_env):
    with pytest.raises(AttributeError, match="begins with the test"):
        perdure_env.now()
    perdure_env.register(fulfil, charge)
    return perdure_env

class TestShop:
    @pytest.mark.parametrize("order", ["1", "2"])
    @pytest.mark.perdure_env(start=datetime(2031, 1, 1, tzinfo=UTC))
    async def test_it(self, order, shop, perdure_env):
        assert perdure_env.now().year == shop.now().year == 2031
        assert await shop.client.execute(fulfil(order), id=order) == f"charged {order}"

async def test_through_a_fixture_alone(shop):
    assert shop.now().year == 2030
    assert await shop.client.execute(fulfil("x"), id="x") == "charged x"
"""
    counted, printed = outcome(tmp_path, *NEITHER, test_it=text)
    assert counted == {"PASSED": 3}, printed


def test_a_sync_test_is_told(tmp_path: Path) -> None:
    """It fails with one line, not with a coroutine nobody awaited."""
    counted, printed = outcome(tmp_path, *NEITHER, test_it="def test_it(perdure_env): pass\n")
    assert counted == {"FAILED": 1}
    assert "test_it uses perdure_env: it must be an `async def` test" in printed


def test_replay_of_an_export(tmp_path: Path) -> None:
    """The same code passes, other code fails with what the history has and what the code asks for; the path counts from the test."""
    text = """
import perdure, pytest, flows
from perdure import workflow

async def test_record(perdure_env, request):
    from perdure.store.export import lines_of
    perdure_env.register(flows)
    await perdure_env.client.execute(flows.fulfil("1"), id="1")
    record = await perdure_env.client.frontend.record("default", "1", "")
    (request.path.parent / "one.jsonl").write_bytes(b"".join(line.rstrip(b"\\n") + b"\\n" for line in lines_of("default", record)))

def test_same(perdure_replay):
    (verdict,) = perdure_replay("one.jsonl", flows)
    assert (verdict["verdict"], verdict["type"]) == ("ok", "fulfil")
    perdure_replay("one.jsonl", flows.fulfil, strict=True)

@workflow(name="fulfil")
async def other(order: str) -> str:
    return await flows.charge(order)

def test_other(perdure_replay):
    perdure_replay("one.jsonl", other)

def test_stranger(perdure_replay):
    perdure_replay("one.jsonl", flows.charge)

def test_nothing(perdure_replay):
    perdure_replay("none.jsonl", flows)
"""
    counted, printed = outcome(tmp_path, *NEITHER, test_it=text)
    assert counted == {"PASSED": 2, "FAILED": 3}, printed
    assert "one.jsonl does not replay:" in printed
    assert re.search(r"the history has .*timer.*\n.*the code asks for .*charge", printed), printed
    assert "unknown   1" in printed
    assert "none.jsonl cannot be read" in printed


def test_it_costs_nothing_where_it_is_not_used(tmp_path: Path) -> None:
    """A run that asks for none of the fixtures imports nothing of perdure but the plugin itself."""
    text = """
import sys

def test_it():
    mine = {name for name in sys.modules if name.startswith("perdure")}
    assert mine == {"perdure", "perdure.testing", "perdure.testing.pytest_plugin"}
    assert "msgspec" not in sys.modules
"""
    counted, printed = outcome(tmp_path, *NEITHER, test_it=text)
    assert counted == {"PASSED": 1}, printed


def test_it_is_declared() -> None:
    """Whoever installs perdure has the plugin."""
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    assert '[project.entry-points.pytest11]\nperdure = "perdure.testing.pytest_plugin"\n' in text
