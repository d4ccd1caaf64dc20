"""What a worker in another process may write down: names that are names, numbers that can be kept."""

from typing import Any

import pytest

from perdure.core import commands as cm
from perdure.core.errors import InvalidArgument
from perdure.core.requests import Commands, Report
from perdure.server.wire.report_door import WHOLE_MAX, check_report


def report(*commands: cm.AnyCommand, **more: Any) -> Report:
    fields = {"workflow_id": "w", "run_id": "r", "worker": "k", "build_id": "b", "based_on": 1, "decided": 0, "nonce": "n"}
    return Report(**{**fields, "steps": (Commands(commands=commands),), **more})


def test_a_workers_report_passes() -> None:
    """What workers say: names of any kind, empty where they may be left out, numbers up to a hundred years of microseconds."""
    check_report(
        report(
            cm.ScheduleActivity(at=1, name="größe 😀", start_to_close=3_155_760_000_000_000),
            cm.StartTimer(at=1, delay=-1),
            cm.RequestChild(at=1, workflow_type="t"),
            cm.SetDetails(at=1, details="many\nlines\x00"),
            closing=cm.ContinueAsNew(at=1),
            next_run_id="next",
            next_seed=2**64 - 1,
        )
    )


@pytest.mark.parametrize(
    "said",
    [
        report(cm.StartTimer(at=1, delay=WHOLE_MAX + 1)),
        report(cm.CancelTimer(at=1, target=-(2**70))),
        report(cm.ScheduleActivity(at=1, name="")),
        report(cm.ScheduleActivity(at=1, name="a", queue="two\nlines")),
        report(cm.RequestChild(at=1, workflow_type="t", workflow_id="x" * 256)),
        report(cm.MarkVersion(at=1, change_id="\x00", version=1)),
        report(closing=cm.ContinueAsNew(at=1, workflow_type="é" * 128), next_run_id="next"),
        report(closing=cm.ContinueAsNew(at=1), next_run_id="x" * 70_000),
        report(nonce=""),
        report(room=WHOLE_MAX + 1),
    ],
)
def test_what_no_worker_says(said: Report) -> None:
    """A name that is none or a number beyond all use is refused."""
    with pytest.raises(InvalidArgument):
        check_report(said)
