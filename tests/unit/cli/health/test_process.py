"""Each check of the process says ok here, and names the mend where something is wrong."""

import resource
from importlib import metadata

import pytest

from perdure.cli.health import process


def test_all_is_well_here() -> None:
    """The interpreter that runs these tests can run perdure."""
    checks = [process.python(), process.open_files(), process.clock()]
    assert [check.status for check in checks] == ["ok"] * 3


def test_dependencies_as_they_are_installed() -> None:
    """All are there, in versions that are taken."""
    try:
        metadata.version("perdure")
    except metadata.PackageNotFoundError:
        pytest.skip("this source tree was never installed")
    assert process.dependencies().status == "ok"


def test_missing_and_old_dependencies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are named; extras and what only the demo uses are not asked for."""
    versions = {"msgspec": "0.20.0", "rich": "9.1"}
    monkeypatch.setattr(
        metadata,
        "requires",
        lambda _name: ["msgspec>=0.20", "rich>=14", "nothing>=1", "uvicorn>=0.40", 'zstd>=1; extra == "zstd"'],
    )

    def version(name: str) -> str:
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(metadata, "version", version)
    check = process.dependencies()
    assert (check.status, check.found) == ("fail", "nothing is missing, rich 9.1 < 14")


def test_a_source_tree_that_was_never_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs, but nobody can say what is missing."""

    def requires(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    assert process.dependencies().status == "warn"


def test_importing_is_measured() -> None:
    """Time and number of modules of a fresh interpreter."""
    check = process.import_time()
    assert check.found.startswith("import perdure: ")
    assert 5 < int(check.found.split()[4]) < 60


def test_few_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mend is a command."""
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (256, 4096))
    assert process.open_files().mend == "raise it: ulimit -n 1024 (the system allows 4096)"
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert process.open_files().status == "ok"


def test_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was never set is a failure, one that steps a warning."""
    steps = iter([1_800_000_000.0, 1_800_003_600.0])
    monkeypatch.setattr(process.time, "time", lambda: next(steps))
    assert process.clock().status == "warn"
    monkeypatch.undo()
    monkeypatch.setattr(process, "YEAR_MIN", 9999)
    assert process.clock().status == "fail"
