"""Checks of the interpreter and its surroundings: nothing here depends on where data lies."""

import platform
import re
import resource
import subprocess
import sys
import time
from importlib import metadata
from typing import Final

from perdure.cli.health.check import Check, fail, ok, warn

NEWEST_TRIED: Final = (3, 14)
OPEN_FILES_MIN: Final = 1_024
IMPORT_MS_MAX: Final = 150.0
"""`import perdure` is to take no longer: authors pay it at every start of their programs."""
CLOCK_DRIFT_S_MAX: Final = 0.05
YEAR_MIN: Final = 2025

FOR_THE_DEMO: Final = frozenset({"starlette", "uvicorn"})
"""What nothing but `perdure demo` imports: a node runs without it."""

_IMPORT: Final = """
import sys, time
before, began = len(sys.modules), time.perf_counter()
import perdure
print((time.perf_counter() - began) * 1e3, len(sys.modules) - before)
"""
_REQUIREMENT: Final = re.compile(r"^([A-Za-z0-9._-]+)\s*(?:>=\s*([0-9.]+))?")


def python() -> Check:
    """An interpreter that is supported, and whose coroutines can be put away without running their `finally` blocks."""
    from perdure.replay.teardown import FORGETS

    found = f"{platform.python_implementation()} {platform.python_version()}"
    if sys.version_info[:2] > NEWEST_TRIED:
        return warn("python", f"{found}, newer than this perdure was tried on", "update perdure, or use Python 3.11 to 3.14")
    if not FORGETS:
        return warn(
            "python", f"{found}: evicted runs may run their finally blocks, on a closed loop", "use a standard build of CPython"
        )
    return ok("python", found)


def dependencies() -> Check:
    """Everything a node needs is installed, in a version it takes."""
    missing, old, found = list[str](), list[str](), list[str]()
    try:
        wanted = metadata.requires("perdure") or []
    except metadata.PackageNotFoundError:
        return warn(
            "dependencies", "this perdure was never installed, so nobody wrote down what it needs", "pip install perdure"
        )
    for text in wanted:
        match = _REQUIREMENT.match(text)
        if match is None or "extra ==" in text or match[1] in FOR_THE_DEMO:
            continue
        try:
            version = metadata.version(match[1])
        except metadata.PackageNotFoundError:
            missing.append(match[1])
            continue
        found.append(f"{match[1]} {version}")
        if match[2] and _numbers(version) < _numbers(match[2]):
            old.append(f"{match[1]} {version} < {match[2]}")
    if missing or old:
        return fail(
            "dependencies", ", ".join([*(f"{name} is missing" for name in missing), *old]), "pip install --upgrade perdure"
        )
    return ok("dependencies", ", ".join(found))


def _numbers(version: str) -> tuple[int, ...]:
    """`1.10.0rc1` → (1, 10, 0): enough to compare with a plain lower bound."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])


def import_time() -> Check:
    """How long a fresh interpreter takes to import perdure, and how many modules that loads."""
    program = [sys.executable, "-c", _IMPORT]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 – our own words
    if done.returncode:
        return fail(
            "import", f"import perdure fails: {done.stderr.strip().splitlines()[-1]}", "pip install --force-reinstall perdure"
        )
    took, modules = done.stdout.split()
    found = f"import perdure: {float(took):.0f} ms, {modules} modules"
    if float(took) > IMPORT_MS_MAX:
        return warn("import", found, f"more than {IMPORT_MS_MAX:g} ms: is the machine busy, or Python's folder on a slow disk?")
    return ok("import", found)


def open_files() -> Check:
    """Sockets, segments and activities need descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < OPEN_FILES_MIN:
        return warn("open files", f"at most {soft}", f"raise it: ulimit -n {OPEN_FILES_MIN} (the system allows {hard})")
    return ok("open files", "unlimited" if soft == resource.RLIM_INFINITY else f"at most {soft}")


def clock() -> Check:
    """The wall clock is set, and does not jump while it is watched."""
    wall, steady = time.time(), time.monotonic()
    time.sleep(0.05)
    drift = abs((time.time() - wall) - (time.monotonic() - steady))
    found = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime())
    if time.gmtime().tm_year < YEAR_MIN:
        return fail("clock", f"{found}: it was never set", "set it, and let a time service (NTP) keep it")
    if drift > CLOCK_DRIFT_S_MAX:
        return warn("clock", f"{found}: it moved by {drift:.2f} s while it was watched", "let the time service slew, not step")
    return ok("clock", found)
