"""`perdure bench parked`, at a size that takes some seconds: it waits for what it says, and measures what it names."""

import json

import pytest
from msgspec.structs import replace

from perdure.bench import parked
from perdure.core.errors import InvalidArgument
from perdure.core.limits import LIMITS
from perdure.engine import parking


@pytest.fixture
def few_kept(monkeypatch) -> None:
    """So that parking is not a matter of thousands of runs."""
    limits = replace(LIMITS, idle_runs_kept=20)
    monkeypatch.setattr(parked, "LIMITS", limits)
    monkeypatch.setattr(parking, "PERIOD_US", 50_000)
    real = parked.embedded
    monkeypatch.setattr(parked, "embedded", lambda place: real(place, limits=limits))


@pytest.mark.usefixtures("few_kept")
def test_the_report_tells_what_is_in_memory(capsys, tmp_path) -> None:
    """No more than is kept stays, a restart loads nothing, parked runs go on, and nothing is left on the disk."""
    assert parked.main(runs=200, data=tmp_path, output="json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["in_memory"] <= 20
    assert report["restart_in_memory"] == 0
    assert report["latencies"]["signal, and its result"]["samples"] == parked.SAMPLES
    assert not list(tmp_path.iterdir())


def test_too_few_runs_are_refused(tmp_path) -> None:
    """A handful says nothing."""
    with pytest.raises(InvalidArgument):
        parked.main(runs=1, data=tmp_path)
