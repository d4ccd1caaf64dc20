"""Law `total`: whatever a run's status, every request there is gets an outcome or a typed rejection, and the laws hold."""

from typing import TYPE_CHECKING, Any, get_args

import pytest

from perdure.core import commands as cm
from perdure.core import requests as rq
from perdure.core.errors import BY_CODE
from perdure.core.events import UpdateBody
from perdure.core.failure import Failure
from perdure.core.machine import Outcome
from perdure.core.payload import NULL
from perdure.core.replies import RunResult
from perdure.core.retry import RetryPolicy
from perdure.testing.machine.story import Story, text

if TYPE_CHECKING:
    from collections.abc import Callable

STATUSES = [
    "none",
    "fresh",
    "claimed",
    "busy",
    "retrying",
    "cancelling",
    "outside",
    "quarantined",
    "paused",
    "delayed",
    "failed_once",
    "completed",
    "failed",
    "cancelled",
    "terminated",
    "timed_out",
    "continued",
]


def made(status: str) -> Story:
    """A workflow id in that status; activity 2 and timer 3 where there can be some, tokens `t` and `a`."""
    story = Story()
    if status == "none":
        return story
    later: dict[str, Any] = {"delayed": {"start_delay": 100}, "failed_once": {"retry": RetryPolicy()}}
    story.start("s", run_id="r", timeout=10**9, **later.get(status, {}))
    if status in {"fresh", "delayed"}:
        return story
    story.report(
        story.claim(token="t"), rq.Commands(commands=(cm.ScheduleActivity(at=1, name="charge"), cm.StartTimer(at=1, delay=5)))
    )
    story.signal("go", "x")
    if status in {"busy", "retrying", "cancelling", "outside"}:
        claim = story.take(2, token="a")
        if status == "outside":
            story.ask(rq.CompleteLater(**ATTEMPT))
        if status == "retrying":
            story.fail(claim)
        if status == "cancelling":
            story.report(story.claim(token="t"), rq.Commands(commands=(cm.CancelActivity(at=4, target=2),)))
            story.signal("go", "y")
    endings: dict[str, Callable[[], Any]] = {
        "completed": lambda: story.decide(closing=cm.CompleteWorkflow(at=4)),
        "failed": lambda: story.decide(closing=cm.FailWorkflow(at=4, failure=Failure(type="Boom"))),
        "failed_once": lambda: story.decide(closing=cm.FailWorkflow(at=4, failure=Failure(type="Boom")), next_run_id="next"),
        "cancelled": lambda: story.decide(closing=cm.CancelWorkflow(at=4)),
        "continued": lambda: story.decide(closing=cm.ContinueAsNew(at=4), next_run_id="next"),
        "terminated": lambda: story.terminate("k"),
        "timed_out": lambda: story.sleep(10**9),
    }
    if status in endings:
        endings[status]()
    else:
        story.claim(token="t")
    if status == "quarantined":
        story.ask(rq.ReleaseWorkflow(workflow_id="w", run_id="r", token="t", build_id="b1", why="nondeterminism"))
    if status == "paused":
        story.ask(rq.PauseWorkflow(workflow_id="w"))
    return story


RUN = {"workflow_id": "w", "run_id": "r"}
ATTEMPT = {**RUN, "command": 2, "attempt": 1, "token": "a"}
REPORT = {**RUN, "worker": "ann", "build_id": "b1", "nonce": "n", "decided": 1, "based_on": 4, "token": "t"}
FACT = rq.ActivitySucceeded(command=2, attempt=1, token="a", result=NULL, fed_at=10)
ERRED = rq.ActivityErred(command=2, attempt=1, token="a", failure=Failure(type="Boom"))
ASKED = rq.Commands(commands=(cm.CancelActivity(at=4, target=2), cm.CancelTimer(at=4, target=3), cm.StartTimer(at=4, delay=1)))
UPDATED = rq.Commands(
    commands=(
        cm.AcceptUpdate(at=4, name="up", update_id="u", fed_at=1),
        cm.CompleteUpdate(at=4, update_id="u", target=-1),
        cm.FailUpdate(at=4, update_id="u", target=5, failure=Failure(type="Boom")),
    )
)
START = {"workflow_id": "w", "workflow_type": "toy", "run_id": "r9", "seed": 9}

REQUESTS: list[rq.AnyRequest] = [
    rq.StartWorkflow(**START, request_id="s"),
    rq.StartWorkflow(**START, request_id="z", on_conflict="attach", signal=rq.SignalBody(name="go", signal_id="n")),
    rq.StartWorkflow(**START, request_id="z", on_conflict="terminate", reuse="never"),
    rq.StartWorkflow(**START, request_id="z", reuse="failed"),
    rq.SignalWorkflow(workflow_id="w", signal=rq.SignalBody(name="go", signal_id="x")),
    rq.SignalWorkflow(**RUN, signal=rq.SignalBody(name="go", input=(text("v"),), signal_id="new")),
    rq.RequestCancel(workflow_id="w", request_id="c"),
    rq.TerminateWorkflow(workflow_id="w", request_id="k"),
    rq.ResumeWorkflow(workflow_id="w"),
    rq.PauseWorkflow(workflow_id="w"),
    rq.UpdateWorkflow(workflow_id="w", update_id="u", name="up"),
    rq.ResetWorkflow(workflow_id="w", event_id=1, new_run_id="r9", seed=9),
    rq.ClaimWorkflow(**RUN, worker="bob", token="t9", build_id="b1", lives_for=5),
    rq.ClaimWorkflow(**RUN, worker="ann", token="t", build_id="b1", held=1),
    rq.ClaimActivity(**ATTEMPT, worker="ann", lives_for=5),
    rq.ClaimActivity(**{**ATTEMPT, "attempt": 2, "token": "a9"}, worker="bob"),
    rq.ClaimWorkflow(**RUN, worker="bob", token="t9", build_id="b1", waiting=(UpdateBody(update_id="u", name="up"),)),
    rq.Report(**REPORT, steps=(rq.Commands(),)),
    rq.Report(**REPORT, steps=(UPDATED, FACT), waiting=(UpdateBody(update_id="u", name="up"),)),
    rq.Report(**REPORT, refused=(rq.RefusedUpdate(update_id="u", failure=Failure(type="Boom")),), steps=(ASKED,)),
    rq.Report(**REPORT, steps=(ASKED, FACT, ASKED), closing=cm.CompleteWorkflow(at=4), room=3, queues=("default",)),
    rq.Report(**REPORT, steps=(ERRED, ASKED), closing=cm.FailWorkflow(at=4, failure=Failure(type="Boom"))),
    rq.Report(**REPORT, steps=(FACT, FACT, ERRED), notes=(rq.SetAside(command=4, message="no"),)),
    rq.Report(**REPORT, steps=(ASKED, FACT), closing=cm.ContinueAsNew(at=1), next_run_id="next9"),
    rq.ReportPart(**RUN, nonce="n", part=1, steps=(ASKED,)),
    rq.Report(**{**REPORT, "based_on": 99, "decided": 98}, steps=(ASKED,)),
    *[
        rq.ReleaseWorkflow(**RUN, token="t", build_id="b1", why=why)
        for why in ("nondeterminism", "old_build", "unknown_type", "draining")
    ],
    rq.ReleaseActivity(**ATTEMPT),
    rq.CompleteLater(**ATTEMPT),
    rq.FinishActivity(**ATTEMPT, result=text("done")),
    rq.FinishActivity(**ATTEMPT, failure=Failure(type="Boom"), cancelled=True),
    rq.HeartbeatActivity(**ATTEMPT),
    rq.HeartbeatActivity(**ATTEMPT, details=text("half")),
    rq.HeartbeatActivity(**ATTEMPT, worker="ann", claimed_at=1, lives_for=10),
    rq.HeartbeatWorkflow(**RUN, token="t"),
    rq.TimerDue(**RUN, command=3),
    rq.TimerDue(**RUN, command=77),
    *[
        rq.ActivityDue(**RUN, command=2, attempt=1, kind=kind, token="a")
        for kind in ("start_to_close", "schedule_to_start", "schedule_to_close", "heartbeat", "lost")
    ],
    rq.WorkflowClaimDue(**RUN, token="t"),
    rq.StartDue(**RUN),
    rq.RunDue(**RUN),
    rq.WriteDown(**RUN),
    rq.QuarantineRun(**RUN, reason="cannot be written", build_id="b1"),
    *[
        rq.ChildStands(workflow_id="w", command=command, request_id=f"r/{command}", child_id="kid", run_id="k", outcome=outcome)
        for command in (2, 9)
        for outcome in (None, RunResult(run_id="k", status="completed", result=text("v")))
    ],
    rq.ChildRefused(workflow_id="w", command=2, request_id="r/2", failure=Failure(type="Boom")),
    rq.ExternalAnswered(workflow_id="w", command=2, request_id="r/2"),
    rq.ExternalAnswered(workflow_id="w", command=2, request_id="r/2", failure=Failure(type="Boom")),
    rq.MessagesDelivered(workflow_id="w", request_ids=("r/2", "r/3:end")),
]


def test_every_kind_of_request_is_here() -> None:
    """A request added to the vocabulary must be added to this table."""
    assert {type(request) for request in REQUESTS} == set(get_args(rq.AnyRequest))


@pytest.mark.parametrize("status", STATUSES)
def test_every_request_has_an_answer(status: str) -> None:
    """Each request at each status, now and much later, alone and twice: an outcome, or a rejection whose code is an error's."""
    for request in REQUESTS:
        for wait in (0, 20, 10**10):
            story = made(status)
            story.now += wait
            for _ in range(2):
                decided = story.bring(request)
                assert isinstance(decided, Outcome) or decided.code in BY_CODE, (request, decided)
            story.crash()
            story.sleep(10**10)
