"""The machine's laws under whatever anyone may send: `fold`, `total`, `same`, `once`, `final`, `woken`, and the shape of histories.

`fold`, `same`, `final`, `woken` and the shape are checked by `SoleOwner` at every step; `total` is that no step raises.
"""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from msgspec.structs import replace

from perdure.core import commands as cm
from perdure.core import requests as rq
from perdure.core.events import RunLimits, UpdateBody, is_input
from perdure.core.failure import Failure
from perdure.core.limits import Limits
from perdure.core.machine import Outcome
from perdure.core.machine.updates import standing
from perdure.core.replies import ActivityClaimed, Rejection, Reported, RunStarted, Taken, UpdateResult, WorkflowClaimed
from perdure.core.retry import RetryPolicy
from perdure.testing.machine import sole_owner
from perdure.testing.machine.laws import durable
from perdure.testing.machine.sole_owner import SoleOwner, text

WORKERS = st.sampled_from(["ann", "bob"])
BUILDS = st.sampled_from(["b1", "b2"])
BOUNDS = st.sampled_from([0, 0, 5, 40])
LIVES = st.sampled_from([0, 7, 30])
OLD_RUN = st.booleans()
UPDATES = st.sampled_from(["u1", "u2", "u3", "u4"])

POLICIES = st.sampled_from(
    [
        RetryPolicy(),
        RetryPolicy(max_attempts=1),
        RetryPolicy(max_attempts=3, initial=0.00001),
        RetryPolicy(initial=0.0, non_retryable=("Boom",)),
    ]
)
FAILURES = st.sampled_from(
    [
        Failure(type="Boom"),
        Failure(type="Bang", non_retryable=True),
        Failure(type="Later", next_retry_delay=20),
        Failure(type="Sub", bases=("Boom",), cause=Failure(type="Root", non_retryable=True)),
    ]
)


KINDS = [
    "activity",
    "activity",
    "activity",
    "timer",
    "stop timer",
    "stop activity",
    "stop activity",
    "version",
    "effect",
    "update",
    "update end",
    "child",
]


@st.composite
def commands(draw: Any, length: int, *, sound: bool = False) -> Any:
    """One command a worker holding `length` events might send; `sound`: one it may send."""
    at = draw(st.integers(1, length if sound else length + 1))
    target = draw(st.integers(2 if sound else -3, length + 1))
    kind = draw(st.sampled_from(KINDS[:-1] if sound else KINDS))
    match kind:
        case "activity":
            return cm.ScheduleActivity(
                at=at,
                name=draw(st.sampled_from(["charge", "ship"])),
                retry=draw(POLICIES),
                start_to_close=draw(BOUNDS),
                schedule_to_close=draw(BOUNDS),
                schedule_to_start=draw(BOUNDS),
                heartbeat=draw(BOUNDS),
                queue=draw(st.sampled_from(["", "other"])),
                on_cancel=draw(st.sampled_from(["try", "wait", "abandon"])),
            )
        case "timer":
            return cm.StartTimer(at=at, delay=draw(st.integers(1, 50)))
        case "stop timer":
            return cm.CancelTimer(at=at, target=target)
        case "stop activity":
            return cm.CancelActivity(at=at, target=target)
        case "version":
            return cm.MarkVersion(at=at, change_id="c", version=1)
        case "effect":
            return cm.RecordSideEffect(at=at, result=text("x"))
        case "update":
            return cm.AcceptUpdate(at=at, name="up", update_id=draw(UPDATES), fed_at=draw(BOUNDS))
        case "update end":
            if draw(st.booleans()):
                return cm.CompleteUpdate(at=at, update_id=draw(UPDATES), target=target)
            return cm.FailUpdate(at=at, update_id=draw(UPDATES), target=target, failure=draw(FAILURES))
        case _:
            return cm.RequestChild(at=at, workflow_type="toy")


def closings(at: int) -> Any:
    return st.sampled_from(
        [
            None,
            None,
            None,
            cm.CompleteWorkflow(at=at),
            cm.FailWorkflow(at=at, failure=Failure(type="Boom")),
            cm.CancelWorkflow(at=at),
            cm.ContinueAsNew(at=at),
            cm.ContinueAsNew(at=at, untaken=(at,)),
        ]
    )


class Laws(RuleBasedStateMachine):
    """Several workers, clients and clocks, none of them careful: claims outlive their workers, reports come late, twice and made up."""

    def __init__(self) -> None:
        super().__init__()
        self.owner = SoleOwner()
        self.sent: list[Any] = []
        self.claims: list[Any] = []
        """Workflow claims ever granted, and what they knew."""
        self.holds: list[Any] = []
        """Activity claims ever granted."""
        self.serial = 0

    def fresh(self, prefix: str) -> str:
        self.serial += 1
        return f"{prefix}{self.serial}"

    def bring(self, request: Any) -> Any:
        before = [len(history) for history in self.owner.histories.values()]
        decided = self.owner.bring(request)
        assert isinstance(decided, (Outcome, Rejection))
        self.sent = [*self.sent[-30:], request]
        if isinstance(decided, Rejection):
            assert before == [len(history) for history in self.owner.histories.values()]
            return decided
        reply = decided.reply
        if isinstance(reply, ActivityClaimed):
            self.holds.append(reply.claim)
        elif isinstance(reply, Reported):
            self.holds += reply.activities
            if reply.accepted and reply.token:
                self.claims.append((request.run_id, reply, request.worker, request.build_id))
        elif isinstance(reply, WorkflowClaimed):
            self.claims.append((request.run_id, reply, request.worker, request.build_id))
        return reply

    def run_id(self, old: bool) -> str:
        runs = list(self.owner.histories)
        return (runs[0] if old else runs[-1]) if runs else "none"

    @initialize()
    def begin(self) -> None:
        self.bring(rq.StartWorkflow(workflow_id="w", workflow_type="toy", run_id="run0", seed=1, request_id="s0"))

    @property
    def is_open(self) -> bool:
        return self.owner.run.is_open

    # -------------------------------------------------------------------------------------------------------- clients

    @precondition(lambda self: not self.is_open or len(self.sent) > 29)
    @rule(
        request_id=st.sampled_from(["s1", "s2", "s3"]),
        on_conflict=st.sampled_from(["fail", "attach", "terminate"]),
        reuse=st.sampled_from(["always", "failed", "never"]),
        timeout=st.sampled_from([0, 0, 60]),
        signal=st.sampled_from([None, None, "x1", "x2"]),
    )
    def start(self, request_id: str, on_conflict: Any, reuse: Any, timeout: int, signal: str | None) -> None:
        self.bring(
            rq.StartWorkflow(
                workflow_id="w",
                workflow_type="toy",
                run_id=self.fresh("run"),
                seed=1,
                request_id=request_id,
                on_conflict=on_conflict,
                reuse=reuse,
                timeout=timeout,
                signal=None if signal is None else rq.SignalBody(name="go", signal_id=signal),
            )
        )

    @rule(signal_id=st.sampled_from(["x1", "x2", "x3", ""]), old=OLD_RUN)
    def signal(self, signal_id: str, old: bool) -> None:
        body = rq.SignalBody(name="go", signal_id=signal_id or self.fresh("x"))
        self.bring(rq.SignalWorkflow(workflow_id="w", signal=body, run_id=self.run_id(True) if old else ""))

    @rule(update_id=UPDATES, old=OLD_RUN)
    def update(self, update_id: str, old: bool) -> None:
        """One that is remembered stands in a run that has accepted it, open or ended; a new one waits, or the run is closed."""
        reply = self.bring(
            rq.UpdateWorkflow(workflow_id="w", update_id=update_id, name="up", run_id=self.run_id(True) if old else "")
        )
        run = self.owner.state.run
        owed = run is not None and update_id in (run.owed or ())  # a reset cut it off: it waits to be taken again
        assert isinstance(reply, UpdateResult) == (update_id in self.owner.state.update_ids and not owed)
        if isinstance(reply, UpdateResult):
            found = standing(reply.run_id, update_id, self.owner.histories[reply.run_id])
            assert found is not None
            assert found.command == reply.command
            assert found.status != "accepted" or self.owner.run.updates

    @precondition(lambda self: self.is_open)
    @rule(data=st.data(), lives_for=LIVES, split=st.booleans())
    def careful_update(self, data: Any, lives_for: int, split: bool) -> None:
        """A worker takes one that waits, for its sake alone if need be, and ends it at once or leaves it open; another is ended."""
        run = self.owner.run
        update_id = data.draw(UPDATES)
        waiting = (UpdateBody(update_id=update_id, name="up"),)
        self.claims_with(waiting, lives_for)
        if run.claim is None or run.claim.build_id != "b1":
            return
        at = run.last_input
        asked: list[Any] = [
            cm.CompleteUpdate(at=at, update_id=known, target=number) for number, known in list((run.updates or {}).items())[:1]
        ]
        if update_id not in self.owner.state.update_ids:
            asked.append(cm.AcceptUpdate(at=at, name="up", update_id=update_id, fed_at=self.owner.now))
            if not split:
                asked.append(cm.FailUpdate(at=at, update_id=update_id, target=-len(asked), failure=data.draw(FAILURES)))
        refused = () if len(asked) > 1 else (rq.RefusedUpdate(update_id=update_id, failure=data.draw(FAILURES)),)
        reply = self.bring(
            rq.Report(
                workflow_id="w",
                run_id=run.run_id,
                worker=run.claim.worker,
                build_id="b1",
                based_on=run.length,
                decided=run.decided,
                nonce=self.fresh("n"),
                token=run.claim.token,
                steps=(rq.Commands(commands=tuple(asked)),),
                refused=refused,
                waiting=waiting,
            )
        )
        assert reply.accepted
        assert not reply.updates

    def claims_with(self, waiting: tuple[UpdateBody, ...], lives_for: int) -> None:
        self.bring(
            rq.ClaimWorkflow(
                workflow_id="w",
                run_id=self.run_id(False),
                worker="ann",
                token=self.fresh("t"),
                build_id="b1",
                lives_for=lives_for,
                waiting=waiting,
            )
        )

    @rule(request_id=st.sampled_from(["c1", "c2", ""]))
    def cancel(self, request_id: str) -> None:
        self.bring(rq.RequestCancel(workflow_id="w", request_id=request_id))

    @precondition(lambda self: len(self.sent) > 29)
    @rule(request_id=st.sampled_from(["k1", "k2", ""]))
    def terminate(self, request_id: str) -> None:
        self.bring(rq.TerminateWorkflow(workflow_id="w", request_id=request_id))

    @rule()
    def resume(self) -> None:
        self.bring(rq.ResumeWorkflow(workflow_id="w"))

    @precondition(lambda self: len(self.sent) % 6 == 5)
    @rule(data=st.data())
    def reset(self, data: Any) -> None:
        point = data.draw(st.integers(1, self.owner.run.length))
        new = {"new_run_id": self.fresh("run"), "request_id": self.fresh("z")}
        self.bring(rq.ResetWorkflow(workflow_id="w", event_id=point, seed=1, **new))

    @precondition(lambda self: len(self.sent) % 4 == 3)
    @rule()
    def pause(self) -> None:
        self.bring(rq.PauseWorkflow(workflow_id="w"))

    # ----------------------------------------------------------------------------------------------- workflow claims

    @rule(worker=WORKERS, build=BUILDS, lives_for=LIVES, old=OLD_RUN)
    def claim(self, worker: str, build: str, lives_for: int, old: bool) -> None:
        self.bring(
            rq.ClaimWorkflow(
                workflow_id="w",
                run_id=self.run_id(old),
                worker=worker,
                token=self.fresh("t"),
                build_id=build,
                lives_for=lives_for,
            )
        )

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), why=st.sampled_from(["nondeterminism", "old_build", "unknown_type", "draining"]))
    def release(self, data: Any, why: Any) -> None:
        run_id, reply, _, build = data.draw(st.sampled_from(self.claims))
        self.bring(rq.ReleaseWorkflow(workflow_id="w", run_id=run_id, token=reply.token, build_id=build, why=why))

    @precondition(lambda self: self.is_open)
    @rule(data=st.data(), build=BUILDS, lives_for=LIVES)
    def careful_decision(self, data: Any, build: str, lives_for: int) -> None:
        """A worker sees everything and asks for something new, with something to see made up for it where there is nothing."""
        run = self.owner.run
        if not run.wants_decision:
            self.signal("", old=False)
        self.claim("ann", build, lives_for, old=False)
        if run.claim is None or run.claim.build_id != build:
            return
        length = self.owner.run.length
        asked = tuple(data.draw(st.lists(commands(length, sound=True), min_size=1, max_size=3)))
        self.bring(
            rq.Report(
                workflow_id="w",
                run_id=run.run_id,
                worker=run.claim.worker,
                build_id=build,
                based_on=length,
                decided=run.decided,
                nonce=self.fresh("n"),
                token=run.claim.token,
                steps=(rq.Commands(commands=asked),),
                closing=data.draw(closings(length)) if data.draw(st.integers(0, 6)) == 6 else None,
                next_run_id=self.fresh("run"),
                room=data.draw(st.integers(0, 2)),
                queues=("default",),
                lives_for=lives_for,
            )
        )

    @precondition(lambda self: self.is_open and any(hold.run_id == self.owner.run.run_id for hold in self.holds))
    @rule(data=st.data(), late=st.sampled_from([0, 0, 3, -3]))
    def careful_fusion(self, data: Any, late: int) -> None:
        """A worker holding everything feeds itself a result."""
        run = self.owner.run
        hold = data.draw(st.sampled_from([hold for hold in self.holds if hold.run_id == run.run_id]))
        fact = rq.ActivitySucceeded(
            command=hold.scheduled.id,
            attempt=hold.attempt,
            token=hold.token,
            fed_at=max(run.last_time, self.owner.now) + late,
        )
        asked = tuple(data.draw(st.lists(commands(run.length + 1, sound=True), max_size=3)))
        self.bring(
            rq.Report(
                workflow_id="w",
                run_id=run.run_id,
                worker="ann",
                build_id="b1",
                based_on=run.length,
                decided=run.decided,
                nonce=self.fresh("n"),
                steps=(rq.Commands(), fact, rq.Commands(commands=asked)),
                closing=data.draw(closings(run.length + 1)) if data.draw(st.integers(0, 3)) == 0 else None,
                next_run_id=self.fresh("run"),
                room=1,
                queues=("default",),
            )
        )

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def report(self, data: Any) -> None:
        """A decision on a claim that may be long gone, with facts that may be stale, fused at any time."""
        draw = data.draw
        run_id, reply, worker, build = draw(st.sampled_from(self.claims[-4:]))
        based_on = draw(st.sampled_from([reply.length] * 4 + [0, 1, reply.length + 1]))
        steps: list[Any] = []
        sound = draw(st.booleans())
        for _ in range(draw(st.integers(0, 3))):
            if draw(st.booleans()) or not self.holds:
                steps.append(
                    rq.Commands(commands=tuple(draw(st.lists(commands(max(1, reply.length), sound=sound), max_size=3))))
                )
            else:
                steps.append(self.fact(draw))
        closing = draw(closings(max(1, based_on)))
        self.bring(
            rq.Report(
                workflow_id="w",
                run_id=run_id,
                worker=worker,
                build_id=build,
                based_on=based_on,
                decided=reply.decided,
                nonce=self.fresh("n"),
                token=draw(st.sampled_from([reply.token, reply.token, ""])),
                steps=tuple(steps),
                closing=closing,
                next_run_id=self.fresh("run"),
                room=draw(st.integers(0, 2)),
                queues=("default",),
                lives_for=draw(LIVES),
            )
        )

    def fact(self, draw: Any) -> Any:
        hold = draw(st.sampled_from(self.holds[-4:]))
        head = {"command": hold.scheduled.id, "attempt": hold.attempt, "token": hold.token}
        if draw(st.booleans()):
            near = draw(st.sampled_from([0, self.owner.now, self.owner.now + 5, self.owner.now - 50, self.owner.now + 10**7]))
            return rq.ActivitySucceeded(**head, fed_at=near)
        return rq.ActivityErred(**head, failure=draw(FAILURES), cancelled=draw(st.booleans()))

    # ------------------------------------------------------------------------------------------------------ activities

    @precondition(lambda self: self.owner.run.activities)
    @rule(data=st.data(), worker=WORKERS, lives_for=LIVES, stale=st.sampled_from([0, 0, 0, 1]))
    def claim_activity(self, data: Any, worker: str, lives_for: int, stale: int) -> None:
        activities = self.owner.run.activities
        command = data.draw(st.sampled_from(list(activities)))
        attempt = activities[command].attempt + stale
        self.bring(
            rq.ClaimActivity(
                workflow_id="w",
                run_id=self.run_id(False),
                command=command,
                attempt=attempt,
                worker=worker,
                token=self.fresh("a"),
                lives_for=lives_for,
            )
        )

    @precondition(lambda self: self.holds)
    @rule(data=st.data(), what=st.sampled_from(["fact", "fact", "release", "beat", "beat", "claim again"]))
    def use_claim(self, data: Any, what: str) -> None:
        hold = data.draw(st.sampled_from(self.holds[-4:]))
        head = {
            "workflow_id": "w",
            "run_id": hold.run_id,
            "command": hold.scheduled.id,
            "attempt": hold.attempt,
            "token": hold.token,
        }
        match what:
            case "release":
                self.bring(rq.ReleaseActivity(**head))
            case "beat":
                details = data.draw(st.sampled_from([{}, {"details": text("half")}]))
                self.bring(rq.HeartbeatActivity(**head, **details))
            case "claim again":
                self.bring(rq.ClaimActivity(**head, worker="ann", lives_for=data.draw(LIVES)))
            case _:
                report = {"worker": "ann", "build_id": "b1", "based_on": 0, "decided": 0, "nonce": self.fresh("n")}
                self.bring(rq.Report(workflow_id="w", run_id=hold.run_id, steps=(self.fact(data.draw),), **report))

    @rule(
        data=st.data(), kind=st.sampled_from(["start_to_close", "schedule_to_start", "schedule_to_close", "heartbeat", "lost"])
    )
    def early_or_stale_bound(self, data: Any, kind: Any) -> None:
        token = data.draw(st.sampled_from([hold.token for hold in self.holds[-3:]] or ["?"]))
        command, attempt = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 2))
        head = {"workflow_id": "w", "run_id": self.run_id(False), "command": command}
        self.bring(rq.ActivityDue(**head, attempt=attempt, kind=kind, token=token if kind == "lost" else ""))
        self.bring(rq.TimerDue(**head))
        self.bring(rq.RunDue(workflow_id="w", run_id=self.run_id(False)))

    # ------------------------------------------------------------------------------------------------------ time, repeats

    @rule(step=st.sampled_from([1, 3, 10, 100, 7_000_000, -20]))
    def jump(self, step: int) -> None:
        """Time passes, and wakes come late, after others; on another node it may also be a little earlier."""
        self.owner.now += step
        self.owner.fire()

    @rule()
    def crash(self) -> None:
        before = durable(self.owner.state)
        self.owner.crash()
        assert durable(self.owner.state) == before

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def again(self, data: Any) -> None:
        """Law `once`: the same request a second time adds nothing where it has an id, and never raises."""
        request = data.draw(st.sampled_from(self.sent))
        if isinstance(request, rq.StartWorkflow):  # its door makes up another run id each time
            request = replace(request, run_id=self.fresh("run"))
        first = self.bring(request)
        before = len(self.owner.transitions)
        if isinstance(request, rq.StartWorkflow):
            request = replace(request, run_id=self.fresh("run"))
        second = self.bring(request)
        named = getattr(request, "request_id", "") or isinstance(request, rq.SignalWorkflow)
        if named:
            assert len(self.owner.transitions) == before
        if isinstance(first, RunStarted):
            assert second.run_id == first.run_id
        elif isinstance(first, Taken) and named:
            assert second == Taken(run_id=first.run_id, duplicate=True)


Laws.TestCase.settings = settings(stateful_step_count=60)


@pytest.mark.scenario(26)
class TestLaws(Laws.TestCase):  # type: ignore[misc]
    """Whatever is sent in whatever order, every law holds after every step."""


@pytest.mark.scenario(26)
class TestLawsNearTheLimit(Laws.TestCase):  # type: ignore[misc]
    """The same for runs whose history may hold no more than a few events."""

    @pytest.fixture(autouse=True)
    def short_histories(self, monkeypatch: pytest.MonkeyPatch) -> None:
        limits = Limits(history_events_max=9, signals_unread_max=3, decision_commands_max=4)
        monkeypatch.setattr(sole_owner, "LIMITS", limits)
        assert RunLimits().history_max > 9


def test_inputs_are_what_code_is_fed() -> None:
    """`last_input` of the state is the last event of the history that is an input."""
    owner = SoleOwner()
    owner.bring(rq.StartWorkflow(workflow_id="w", workflow_type="toy", run_id="r", seed=1, request_id="s"))
    owner.bring(rq.SignalWorkflow(workflow_id="w", signal=rq.SignalBody(name="go", signal_id="x")))
    assert owner.run.last_input == max(event.id for event in owner.history if is_input(event)) == 2
