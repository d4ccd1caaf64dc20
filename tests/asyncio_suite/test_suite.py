"""CPython's own asyncio tests pass on workflow loops, but for those `exclusions.toml` names, each with its reason."""

import importlib.util
import json
import os
import pkgutil
import subprocess
import sys
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

import perdure.replay

HERE = Path(__file__).parent
NAMED: dict[str, Any] = tomllib.loads((HERE / "exclusions.toml").read_text(encoding="utf-8"))

RUN: dict[str, tuple[int, int]] = {
    "test_tasks": (800, 42),
    "test_futures": (150, 9),
    "test_futures2": (3, 2),
    "test_taskgroups": (30, 0),
    "test_timeouts": (30, 3),
    "test_waitfor": (15, 0),
    "test_locks": (70, 0),
    "test_queues": (40, 0),
    "test_context": (1, 0),
    "test_pep492": (10, 1),
    "test_eager_task_factory": (35, 0),
    "test_staggered": (5, 0),
}
"""Modules that are run: at least so many tests, at most so many of them excluded."""


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def excluded() -> list[str]:
    """Patterns for this Python."""
    here = sys.version_info[:2]
    entries = [e for e in NAMED["exclusion"] if version(e.get("since", "3.0")) <= here <= version(e.get("until", "3.99"))]
    return [pattern for entry in entries for pattern in entry["tests"]]


def installed() -> set[str]:
    """Modules of CPython's tests of asyncio; skips where they are left out, as many packages of Python do."""
    if importlib.util.find_spec("test") is None or importlib.util.find_spec("test.test_asyncio") is None:
        pytest.skip(f"{sys.executable} was installed without its own tests")
    package = importlib.util.find_spec("test.test_asyncio")
    assert package is not None
    return {m.name for m in pkgutil.iter_modules(package.submodule_search_locations) if m.name.startswith("test_")}


def results(module: str) -> dict[str, Any]:
    """What the tests of `module` say, in a process of their own."""
    env = {**os.environ, "PYTHONPATH": str(Path(perdure.replay.__file__).parents[2])}
    program = [sys.executable, "-W", "ignore", str(HERE / "suite.py"), module]
    done = subprocess.run(program, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)[module]
    return report


def judge(module: str, report: dict[str, Any], patterns: list[str]) -> tuple[dict[str, str], list[str]]:
    """Tests that fail and are not excluded, with their last line, and tests that are excluded and pass."""
    mine = [pattern for pattern in patterns if pattern.startswith(f"{module}.")]
    surprises = {t: why for t, why in report["wrong"].items() if not any(fnmatchcase(t, p) for p in mine)}
    healed = [t for t in report["passed"] if any(fnmatchcase(t, p) for p in mine)]
    return surprises, healed + [p for p in mine if not any(fnmatchcase(t, p) for t in report["wrong"])]


@pytest.mark.parametrize("module", RUN)
def test_the_tests_of_asyncio_pass(module: str) -> None:
    """Every test passes on a `WorkflowLoop`, or fails and is named with its reason."""
    if module not in installed():
        pytest.skip(f"this Python has no {module}")
    least, excluded_max = RUN[module]
    report = results(module)
    surprises, healed = judge(module, report, excluded())
    assert surprises == {}
    assert healed == [], "excluded, but these pass"
    assert report["run"] >= least
    assert len(report["wrong"]) <= excluded_max
    assert report["loops"] >= report["run"] - len(report["skipped"]), "not every test made a workflow loop"


def test_every_module_is_run_or_named() -> None:
    """What a new Python adds to the tests of asyncio is looked at once."""
    assert installed() - RUN.keys() - NAMED["modules"].keys() == set()
    assert RUN.keys() & NAMED["modules"].keys() == set()


def test_every_exclusion_has_a_reason() -> None:
    """A reason is a sentence, not a placeholder."""
    reasons = [entry["reason"] for entry in NAMED["exclusion"]] + list(NAMED["modules"].values())
    assert [reason for reason in reasons if len(reason.split()) < 1 or len(reason) < 7] == []


def test_the_judge_sees_both_kinds_of_lie() -> None:
    """A failure nobody named and an exclusion that passes are both found."""
    report = {"wrong": {"m.A.test_x": "boom"}, "passed": ["m.A.test_y"]}
    assert judge("m", report, ["m.*.test_y"]) == ({"m.A.test_x": "boom"}, ["m.A.test_y", "m.*.test_y"])
    assert judge("m", report, ["m.A.test_x"]) == ({}, [])
