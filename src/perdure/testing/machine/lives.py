"""Lives: one seed, one workflow id, three workers that race, die, lag and are redeployed, against the real machine.

`live(seed)` plays one and raises with the seed in the first line when a history does not replay, a signal vanishes or is taken twice, a
cancel is lost, a close is refused too often, a path lacks its marker or a law of the machine is broken.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from msgspec.structs import replace

from perdure.core import commands as cm
from perdure.core import events as ev
from perdure.core.limits import LIMITS
from perdure.core.replies import ActivityClaim, ActivityClaimed, Rejection, Reported, WorkflowClaimed
from perdure.core.requests import (
    ActivityDue,
    ActivitySucceeded,
    ClaimActivity,
    ClaimWorkflow,
    Commands,
    ReleaseWorkflow,
    Report,
    RequestCancel,
    SignalBody,
    SignalWorkflow,
    StartWorkflow,
    Step,
)
from perdure.core.state import is_closing
from perdure.core.tasks import Task
from perdure.testing.machine.sole_owner import SoleOwner, text
from perdure.testing.machine.toy import LifeRunner, MakeRunner, MismatchError, OldBuildError, Plan, StaleError, ToyRunner

CLAIM_LIVES = 12
"""Microseconds a claim lives without a sign of life; a step of a life takes about two."""


class LifeError(AssertionError):
    """What went wrong in a life; the seed comes first."""


class Worker:
    """`letter`: its report that is not answered yet. `token`: the workflow claim it holds and must report under."""

    def __init__(self, number: int) -> None:
        self.name = f"worker{number}"
        self.build = 1
        self.run_id = ""
        self.runner: LifeRunner | None = None
        self.token = ""
        self.letter: Letter | None = None
        self.claims: dict[tuple[str, int], ActivityClaim] = {}

    def drop(self) -> None:
        if self.runner is not None:
            self.runner.close()
        self.runner, self.token = None, ""


class Letter:
    """A report under way. It may arrive late, twice, or never matter."""

    __slots__ = ("report", "worker")

    def __init__(self, worker: Worker, report: Report) -> None:
        self.worker = worker
        self.report = report


class Life:
    """One seed's life. `steps` random steps, then a calm end in which everything is delivered and the run is led to its close."""

    def __init__(
        self, seed: int, make_runner: MakeRunner = ToyRunner, *, deploys: bool | None = None, checked: bool | None = None
    ) -> None:
        self.random = random = Random(seed)
        self.seed = seed
        self.make_runner = make_runner
        self.deploys = random.random() < 0.7 if deploys is None else deploys
        self.plan = Plan(
            limit=random.randint(2, 6),
            activities=random.randint(1, 4),
            fan=random.randint(1, 2),
            continues=random.random() < 0.5,
            receives=random.random() < 0.5,
        )
        self.owner = SoleOwner(checked=seed % 8 == 0 if checked is None else checked)
        self.workers = [Worker(number) for number in range(3)]
        self.letters: list[Letter] = []
        self.signals: list[str] = []
        self.cancelled = 0
        self.refusals: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.serial = 0

    # ----------------------------------------------------------------------------------------------------------- playing

    def play(self, steps: int = 40) -> Counter[str]:
        """Play and judge; what happened how often."""
        try:
            self.ask(StartWorkflow(workflow_id="w", workflow_type="toy", run_id="run1", seed=1, request_id="start"))
            for _ in range(steps):
                self.step()
            self.finish()
            self.judge()
        except Exception as error:
            raise LifeError(f"seed {self.seed}: {type(error).__name__}: {error}\n{self.tale()}") from error
        finally:
            for worker in self.workers:
                worker.drop()
        return self.counts

    def tale(self) -> str:
        lines = [str(self.plan)]
        for run_id, history in self.owner.histories.items():
            lines.append(run_id)
            lines += [f"  {event}" for event in history]
        return "\n".join(lines)

    def fresh(self, prefix: str) -> str:
        self.serial += 1
        return f"{prefix}{self.serial}"

    def ask(self, request: Any) -> Any:
        decided = self.owner.bring(request)
        return decided if isinstance(decided, Rejection) else decided.reply

    @property
    def is_over(self) -> bool:
        return not self.owner.run.is_open

    def step(self) -> None:
        if self.is_over:
            return
        action = self.random.choice(_ACTIONS)
        worker = self.random.choice(self.workers)
        action(self, worker)

    # ------------------------------------------------------------------------------------------------ the world's actions

    def tick(self, _worker: Worker) -> None:
        self.owner.now += self.random.randint(1, 4)

    def fire(self, _worker: Worker) -> None:
        self.owner.fire()

    def send(self, name: str) -> None:
        again = self.signals and self.random.random() < 0.15
        signal_id = self.random.choice(self.signals) if again else self.fresh("s")
        self.owner.now += 1
        reply = self.ask(
            SignalWorkflow(workflow_id="w", signal=SignalBody(name=name, signal_id=signal_id, input=(text(signal_id),)))
        )
        if isinstance(reply, Rejection):
            assert self.is_over, reply
            return
        assert reply.duplicate == bool(again), f"signal {signal_id}: {reply}"
        if not again:
            self.signals.append(signal_id)

    def signal(self, _worker: Worker) -> None:
        self.send("sig")

    def raw(self, _worker: Worker) -> None:
        self.send("raw")

    def cancel(self, _worker: Worker) -> None:
        if not self.cancelled and self.random.random() < 0.15:
            reply = self.ask(RequestCancel(workflow_id="w", request_id="cancel"))
            self.cancelled += not isinstance(reply, Rejection)

    def kill(self, worker: Worker) -> None:
        """The process is gone; its reports may still be on their way."""
        worker.drop()
        worker.letter = None
        if self.random.random() < 0.7:
            worker.claims = {}
        worker.name = self.fresh("worker")

    def deploy(self, worker: Worker) -> None:
        if self.deploys:
            worker.build = 2
            self.kill(worker)

    def crash(self, _worker: Worker) -> None:
        """The owner starts again from what is written. Claims are presented again by whoever lives, or are lost."""
        self.owner.crash()
        self.refusals.clear()
        for worker in self.workers:
            worker.token = ""
        run = self.owner.run
        for command, activity in list(run.activities.items()):
            claim = activity.claim
            if claim is None:
                continue
            holders = [w for w in self.workers if (held := w.claims.get((run.run_id, command))) and held.token == claim.token]
            if holders and self.random.random() < 0.5:
                reply = self.claim_activity(holders[0], command, activity.attempt, claim.token)
                assert isinstance(reply, ActivityClaimed), reply
            else:
                self.ask(
                    ActivityDue(
                        workflow_id="w",
                        run_id=run.run_id,
                        command=command,
                        attempt=activity.attempt,
                        kind="lost",
                        token=claim.token,
                    )
                )

    # ---------------------------------------------------------------------------------------------- the workers' actions

    def claim_activity(self, worker: Worker, command: int, attempt: int, token: str) -> Any:
        return self.ask(
            ClaimActivity(
                workflow_id="w",
                run_id=self.owner.run.run_id,
                command=command,
                attempt=attempt,
                worker=worker.name,
                token=token,
                lives_for=self.random.choice([CLAIM_LIVES, 3 * CLAIM_LIVES]),
            )
        )

    def take_activity(self, worker: Worker) -> None:
        """Claim what the broker delivers, stale or not."""
        tasks = [task for task in self.owner.published.values() if task.command]
        if tasks:
            self.claim_task(worker, self.random.choice(tasks))

    def claim_task(self, worker: Worker, task: Task) -> None:
        reply = self.claim_activity(worker, task.command, task.attempt, self.fresh("a"))
        if isinstance(reply, ActivityClaimed):
            worker.claims[task.run_id, task.command] = reply.claim

    def work(self, worker: Worker) -> None:
        """Claim the workflow task (or go on under a claim), feed everything, and send a decision off."""
        if worker.letter is not None:
            return
        if not worker.token and not self.claim_workflow(worker):
            return
        runner = worker.runner
        assert runner is not None
        steps: list[Step] = [Commands(commands=runner.take())]
        if self.random.random() < 0.2:
            self.add_facts(worker, steps)
        self.post(worker, steps)

    def claim_workflow(self, worker: Worker) -> bool:
        run = self.owner.run
        held = worker.runner.length if worker.runner is not None and worker.run_id == run.run_id else 0
        if not held:
            worker.drop()
        request = ClaimWorkflow(
            workflow_id="w",
            run_id=run.run_id,
            worker=worker.name,
            token=self.fresh("t"),
            build_id=f"build{worker.build}",
            held=held,
            lives_for=CLAIM_LIVES,
        )
        reply = self.ask(request)
        if not isinstance(reply, WorkflowClaimed):
            return False
        assert f"build{worker.build}" not in run.refused_builds, "offered to a build that is too old"
        worker.token = reply.token
        try:
            if worker.runner is not None:
                self.catch_up(worker, reply.events, reply.covered)
            if worker.runner is None:
                worker.token = reply.token
                worker.run_id = run.run_id
                worker.runner = self.make_runner(worker.build, self.plan, run.started)
                worker.runner.advance(self.owner.history, reply.covered)
        except OldBuildError as old:
            self.refuse(worker, reply.token, old.change_id)
            return False
        return True

    def catch_up(self, worker: Worker, events: Sequence[Any], covered: int) -> None:
        assert worker.runner is not None
        try:
            worker.runner.advance(events, covered)
        except StaleError:
            self.counts["stale"] += 1
            worker.drop()

    def refuse(self, worker: Worker, token: str, change_id: str = "") -> None:
        self.counts["old build"] += 1
        self.ask(
            ReleaseWorkflow(
                workflow_id="w",
                run_id=self.owner.run.run_id,
                token=token,
                build_id=f"build{worker.build}",
                why="old_build",
                change_id=change_id,
            )
        )
        worker.drop()

    def fuse(self, worker: Worker) -> None:
        """Feed itself results it holds, by right of their claims alone, from a history that may have grown meanwhile."""
        runner = worker.runner
        if worker.letter is not None or runner is None or not self.ready(worker):
            return
        steps: list[Step] = [Commands(commands=runner.take())]
        self.add_facts(worker, steps)
        self.post(worker, steps)

    def ready(self, worker: Worker) -> list[ActivityClaim]:
        """Results the worker could feed: of its run, and of activities its runner has seen scheduled."""
        runner = worker.runner
        if runner is None:
            return []
        return [c for (run_id, n), c in worker.claims.items() if run_id == worker.run_id and n <= runner.length]

    def add_facts(self, worker: Worker, steps: list[Step]) -> None:
        runner = worker.runner
        assert runner is not None
        number = runner.length + sum(len(step.commands) for step in steps if isinstance(step, Commands))
        for claim in self.ready(worker)[: self.random.randint(1, 2)]:
            result = text(f"result of {claim.scheduled.id}")
            fact = ActivitySucceeded(command=claim.scheduled.id, attempt=claim.attempt, token=claim.token, result=result)
            if isinstance(runner.ending, cm.ContinueAsNew) or self.random.random() < 0.1:
                steps.append(fact)
                return
            number += 1
            fed_at = max(runner.time, self.owner.now + self.random.choice([-1, 0, 0, 1, 2]))
            runner.feed_fact(
                ev.ActivityCompleted(id=number, time=fed_at, command=claim.scheduled.id, result=result, attempt=claim.attempt)
            )
            commands = runner.take()
            number += len(commands)
            steps += [replace(fact, fed_at=fed_at), Commands(commands=commands)]

    def tell(self, worker: Worker) -> None:
        """Report a result alone, warm or not: what a zombie can still do."""
        if worker.letter is not None or not worker.claims or worker.token:
            return
        run_id, command = self.random.choice(list(worker.claims))
        claim = worker.claims[run_id, command]
        if run_id != worker.run_id:
            worker.drop()
        worker.run_id = run_id
        self.post(worker, [ActivitySucceeded(command=command, attempt=claim.attempt, token=claim.token, result=text("alone"))])

    def post(self, worker: Worker, steps: list[Step]) -> None:
        runner, random = worker.runner, self.random
        ending = runner.ending if runner is not None and isinstance(steps[0], Commands) else None
        untaken = runner.untaken() if runner is not None and ending is not None else ()
        report = Report(
            workflow_id="w",
            run_id=worker.run_id,
            worker=worker.name,
            build_id=f"build{worker.build}",
            based_on=runner.length if runner is not None else 0,
            decided=runner.decided if runner is not None else 0,
            nonce=self.fresh("n"),
            token=worker.token,
            steps=tuple(steps),
            closing=ending,
            untaken=len(untaken),
            carried=untaken,
            next_run_id=self.fresh("run"),
            next_seed=1,
            room=random.choice([0, 1, 2]),
            queues=("default",),
            lives_for=CLAIM_LIVES,
        )
        worker.letter = Letter(worker, report)
        self.letters.append(worker.letter)

    def deliver(self, _worker: Worker) -> None:
        if not self.letters:
            return
        place = self.random.randrange(len(self.letters))
        letter = self.letters[place]
        if self.random.random() >= 0.1:
            del self.letters[place]
        self.hand_over(letter)

    def hand_over(self, letter: Letter) -> None:
        before = self.owner.run.length
        reply = self.ask(letter.report)
        assert isinstance(reply, Reported), reply
        self.count(letter.report, reply, before)
        worker = letter.worker
        if worker.letter is letter:
            self.answer(worker, letter.report, reply)

    def count(self, report: Report, reply: Reported, before: int) -> None:
        facts = sum(1 for step in report.steps if isinstance(step, ActivitySucceeded) and step.fed_at)
        if facts:
            self.counts["fused" if reply.accepted else "cut"] += 1
        if reply.close_refused:
            self.refusals[report.run_id] += 1
            self.counts["close refused"] += 1
            assert self.refusals[report.run_id] <= LIMITS.close_refusals_max, "a close was refused too often"
        if not reply.accepted and not facts and not reply.closed:
            dropped = all(isinstance(step, Commands) for step in report.steps)
            assert not dropped or self.owner.run.length == before, "a dropped decision has changed the history"
            self.counts["dropped"] += 1

    def answer(self, worker: Worker, report: Report, reply: Reported) -> None:
        worker.letter = None
        for step in report.steps:
            if isinstance(step, ActivitySucceeded):
                worker.claims.pop((report.run_id, step.command), None)
        for claim in reply.activities:
            worker.claims[claim.run_id, claim.scheduled.id] = claim
        if not reply.accepted or reply.closed:
            worker.drop()
            return
        if worker.runner is None:
            return
        worker.token = reply.token
        try:
            self.catch_up(worker, reply.events, reply.covered)
        except OldBuildError as old:
            if reply.token:
                self.refuse(worker, reply.token, old.change_id)
            worker.drop()

    # ------------------------------------------------------------------------------------------------------- the calm end

    def finish(self) -> None:
        """Deliver what is under way and lead the run to its end: nothing may be left that would wait for ever."""
        for worker in self.workers:
            if self.deploys:
                self.deploy(worker)
        for _ in range(40):
            if self.is_over:
                return
            self.settle()
            if not self.is_over:
                self.rest()
                self.send("sig")
        raise AssertionError("the run does not come to an end")

    def settle(self) -> None:
        """Work until there is nothing more to do."""
        for _ in range(200):
            if self.is_over:
                return
            busy = bool(self.letters)
            while self.letters:
                self.hand_over(self.letters.pop(0))
            self.owner.now += CLAIM_LIVES
            busy = bool(self.owner.fire()) or busy
            for worker in self.workers:
                for task in list(self.owner.published.values()):
                    if task.command:
                        self.claim_task(worker, task)
                self.work(worker)
                self.tell(worker)
                busy = busy or worker.letter is not None
            if not busy and not self.owner.wakes:
                return
        raise AssertionError("work without end")

    def rest(self) -> None:
        run = self.owner.run
        assert not run.wants_decision, "inputs no decision has seen, and nobody is at it"
        assert not run.activities, f"activities nobody ends: {run.activities}"
        assert not run.timers, f"timers that never fire: {run.timers}"

    # ---------------------------------------------------------------------------------------------------------- judging

    def judge(self) -> None:
        """Replay every history with every build that may meet it, and count what became of every message."""
        fates: Counter[str] = Counter()
        cancels = 0
        for history in self.owner.histories.values():
            runner = self.replay(history, 2)
            runner.close()
            if not self.deploys:
                self.replay(history, 1).close()
            fates.update(self.fates(history, runner))
            cancels += runner.cancels
        for signal_id in self.signals:
            assert fates[signal_id] == 1, f"signal {signal_id} was taken or counted {fates[signal_id]} times"
        self.counts["runs"] += len(self.owner.histories)
        last = self.owner.history[-1]
        if self.cancelled and not (is_closing(last) and not isinstance(last, ev.Cancelled) and self.late_cancel(last)):
            assert cancels == 1, f"a cancel was seen {cancels} times"

    def late_cancel(self, closing: Any) -> bool:
        """The cancel came when main had ended already."""
        return any(isinstance(e, ev.CancelRequested) and e.id > closing.at for e in self.owner.history)

    def replay(self, history: Sequence[Any], build: int) -> LifeRunner:
        closing = history[-1]
        assert isinstance(closing, ev.ClosingEvent), closing
        runner = self.make_runner(build, self.plan, history[0])
        body = [e for e in history[:-1] if isinstance(e, ev.CommandEvent) or e.id <= closing.based_on]
        runner.advance(body, len(history))
        new = runner.take()
        assert not new, f"replay of a closed run asks for more: {new}"
        ending = runner.ending
        assert ending is not None, f"closed with {closing}, replay goes on"
        assert ending.at == closing.at, f"closed with {closing}, replayed {ending}"
        if isinstance(ending, cm.CompleteWorkflow) and isinstance(closing, ev.Completed):
            assert bytes(ending.result) == bytes(closing.result), "another result"
        marked = {e.change_id for e in history if isinstance(e, ev.VersionMarked)}
        taken = {change_id for change_id, new_path in runner.paths.items() if new_path}
        assert taken == marked, f"paths {taken} and markers {marked}"
        return runner

    def fates(self, history: Sequence[Any], runner: LifeRunner) -> list[str]:
        """Ids of the signals this run took or was closed with."""
        closing = history[-1]
        if isinstance(closing, ev.ContinuedAsNew):
            return list(runner.handled)
        unseen = [e.signal_id for e in history if isinstance(e, ev.SignalReceived) and e.id > closing.based_on]
        left = [signal.signal_id for signal in runner.untaken()]
        assert closing.unseen_signals == len(unseen) + len(left), f"{closing} counts wrongly: {unseen} {left}"
        return [*runner.handled, *unseen, *left]


_ACTIONS: list[Callable[[Life, Worker], None]] = [
    *[Life.tick] * 2,
    Life.fire,
    *[Life.signal] * 2,
    Life.raw,
    *[Life.work] * 4,
    *[Life.deliver] * 5,
    *[Life.fuse] * 4,
    *[Life.take_activity] * 3,
    Life.tell,
    Life.kill,
    Life.crash,
    Life.deploy,
    Life.cancel,
]


def live(seed: int, make_runner: MakeRunner = ToyRunner, **fields: Any) -> Counter[str]:
    """Play the life of `seed`. Raises `LifeError`."""
    return Life(seed, make_runner, **fields).play()


__all__ = ["Life", "LifeError", "MismatchError", "live"]
