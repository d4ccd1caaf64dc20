"""Parts of reports, held until their report comes: in order, bounded, and never half a report."""

import pytest
from msgspec import json

from perdure.core import commands as cm
from perdure.core.errors import LimitExceeded, Unavailable
from perdure.core.limits import Limits
from perdure.core.requests import Commands, Report, ReportPart
from perdure.engine import parts as parts_module
from perdure.engine.parts import ReportParts


def steps(*delays: int) -> tuple[Commands, ...]:
    return (Commands(commands=tuple(cm.StartTimer(at=1, delay=delay) for delay in delays)),)


def part(number: int, *delays: int, nonce: str = "n") -> ReportPart:
    return ReportPart(workflow_id="w", run_id="r", nonce=nonce, part=number, steps=steps(*delays))


def report(parts: int, *delays: int, nonce: str = "n") -> Report:
    return Report(
        workflow_id="w",
        run_id="r",
        worker="k",
        build_id="b",
        based_on=1,
        decided=0,
        nonce=nonce,
        parts=parts,
        steps=steps(*delays),
    )


def test_a_report_becomes_whole() -> None:
    """Steps of the parts stand before its own, and nothing is held any more."""
    held = ReportParts(Limits())
    held.take(part(1, 1, 2))
    held.take(part(2, 3))
    assert held.whole(report(2, 4)).steps == steps(1, 2, 3, 4)
    assert len(held) == 0


def test_a_part_twice_counts_once() -> None:
    """A part that is sent again, because its answer was lost, adds nothing."""
    held = ReportParts(Limits())
    assert not held.take(part(1, 1)).duplicate
    assert held.take(part(1, 1)).duplicate
    assert held.whole(report(1, 2)).steps == steps(1, 2)


def test_a_missing_part_refuses_the_report() -> None:
    """Half a decision is never taken: the worker is told to send again, and nothing stays behind."""
    held = ReportParts(Limits())
    with pytest.raises(Unavailable, match="came after part 0"):
        held.take(part(2, 3))
    with pytest.raises(Unavailable, match="of 1 parts of a report 0 are here"):
        held.whole(report(1, 1))
    held.take(part(1, 1))
    with pytest.raises(Unavailable, match="of 2 parts of a report 1 are here"):
        held.whole(report(2, 1))
    assert len(held) == 0


def test_a_part_over_the_limit_is_refused() -> None:
    """The limit is that of messages, named with its value and its setting."""
    held = ReportParts(Limits(message_commands_max=2))
    held.take(part(1, 1, 2))
    with pytest.raises(LimitExceeded, match=r"3 commands; the limit \(message_commands_max\) is 2"):
        held.take(part(2, 1, 2, 3))


def test_no_more_is_held_than_shows_that_it_is_too_much() -> None:
    """Beyond the limit of a decision the run fails: what comes after is counted as received and dropped."""
    held = ReportParts(Limits(decision_commands_max=3))
    for number in range(1, 6):
        held.take(part(number, 1, 2))
    whole = held.whole(report(5, 9))
    assert isinstance(whole.steps[0], Commands)
    assert len(whole.steps[0].commands) == 5


def test_forgotten_reports_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of workers that died are dropped, those that waited longest first."""
    monkeypatch.setattr(parts_module, "REPORTS_MAX", 2)
    held = ReportParts(Limits())
    for nonce in "abc":
        held.take(part(1, 1, nonce=nonce))
    assert len(held) == 2
    with pytest.raises(Unavailable):
        held.whole(report(1, 1, nonce="a"))
    held.whole(report(1, 1, nonce="c"))


def test_large_parts_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is held is bounded in bytes too: the report that waited longest goes first, one that is too large alone goes itself."""
    monkeypatch.setattr(parts_module, "BYTES_MAX", 2 * len(json.encode(steps(1))))
    held = ReportParts(Limits())
    for nonce in "abc":
        held.take(part(1, 1, nonce=nonce))
    assert len(held) == 2
    with pytest.raises(Unavailable):
        held.whole(report(1, 1, nonce="a"))
    held.whole(report(1, 1, nonce="c"))
    held.take(part(1, *range(100), nonce="d"))
    assert len(held) == 0
    held.take(part(1, 1, nonce="e"))
    assert held.whole(report(1, 2, nonce="e")).steps == steps(1, 2)
