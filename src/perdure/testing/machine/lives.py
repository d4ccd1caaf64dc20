"""Lives: one seed, one workflow id, three workers that race, die, lag and are redeployed, against the real machine.

`live(seed)` plays one and raises with the seed in the first line when a history does not replay, a signal vanishes or is taken twice, a
cancel is lost, a close is refused too often, a path lacks its marker or a law of the machine is broken.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from perdure.core.events import UpdateBody
from perdure.core.limits import LIMITS
from perdure.core.replies import ActivityClaimed, Rejection, Reported, UpdateResult, UpdateWaits
from perdure.core.requests import (
    ActivityDue,
    ActivitySucceeded,
    Commands,
    PauseWorkflow,
    Report,
    RequestCancel,
    ResetWorkflow,
    ResumeWorkflow,
    SignalBody,
    SignalWorkflow,
    StartWorkflow,
    UpdateWorkflow,
)
from perdure.testing.machine.life_verdict import judge
from perdure.testing.machine.life_worker import CLAIM_LIVES, Letter, Worker
from perdure.testing.machine.life_world import World
from perdure.testing.machine.sole_owner import text
from perdure.testing.machine.toy import MakeRunner, ToyRunner


class LifeError(AssertionError):
    """What went wrong in a life; the seed comes first."""


class Life(World):
    """One seed's life. `steps` random steps, then a calm end in which everything is delivered and the run is led to its close.

    `cold`: no worker keeps a run beyond its claim, so that each claim replays from the first event. `fuses` False: no worker feeds itself
    what it reports.
    """

    def __init__(
        self,
        seed: int,
        make_runner: MakeRunner = ToyRunner,
        *,
        deploys: bool | None = None,
        checked: bool | None = None,
        cold: bool = False,
        fuses: bool = True,
    ) -> None:
        super().__init__(seed, make_runner, deploys=deploys, checked=checked)
        self.cold = cold
        self.fuses = fuses
        self.workers = [Worker(self, number) for number in range(3)]
        self.actions = _ACTIONS + _HOLDING * self.pauses + [Life.reset] * self.resets + _FAR * self.far

    # ----------------------------------------------------------------------------------------------------------- playing

    def play(self, steps: int = 44) -> Counter[str]:
        """Play and judge; what happened how often."""
        try:
            self.ask(StartWorkflow(workflow_id="w", workflow_type="toy", run_id="run1", seed=1, request_id="start"))
            for _ in range(steps):
                self.step()
            self.finish()
            judge(self)
        except Exception as error:
            raise LifeError(f"seed {self.seed}: {type(error).__name__}: {error}\n{self.tale()}") from error
        finally:
            for worker in self.workers:
                worker.drop()
        return self.counts

    def step(self) -> None:
        if self.is_over:
            return
        action = self.random.choice(self.actions)
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
        self.unsure = None
        if not again:
            self.signals.append(signal_id)
            self.unsure = (len(self.owner.transitions), signal_id)

    def signal(self, _worker: Worker) -> None:
        self.send("sig")

    def raw(self, _worker: Worker) -> None:
        self.send("raw")

    def update(self, _worker: Worker) -> None:
        """A client sends an update, or one of before again: what was accepted stands, what is new waits."""
        if self.resets:
            return
        updates = self.updates
        again = bool(updates.sent) and self.random.random() < 0.4
        update_id = self.random.choice(updates.sent) if again else f"u{len(updates.sent) + 1}"
        reply = self.ask(UpdateWorkflow(workflow_id="w", update_id=update_id, name="toy"))
        if isinstance(reply, Rejection):
            assert self.is_over, reply
            return
        if isinstance(reply, UpdateResult):
            assert update_id in updates.accepted, f"{update_id} was never accepted"
            return
        assert isinstance(reply, UpdateWaits), reply
        if update_id not in updates.sent:
            updates.sent.append(update_id)
        updates.waiting.setdefault(update_id, UpdateBody(update_id=update_id, name="toy", input=(text(update_id),)))

    def cancel(self, _worker: Worker) -> None:
        if not self.cancelled and self.random.random() < 0.15:
            reply = self.ask(RequestCancel(workflow_id="w", request_id="cancel"))
            self.cancelled += not isinstance(reply, Rejection)

    def pause(self, _worker: Worker) -> None:
        self.ask(PauseWorkflow(workflow_id="w"))
        self.counts["paused"] += 1

    def resume(self, _worker: Worker) -> None:
        self.ask(ResumeWorkflow(workflow_id="w"))

    def reset(self, _worker: Worker) -> None:
        """From any event; what the open run has not ended with goes on in the new one."""
        if self.random.random() < 0.7:
            return
        point = self.random.randint(1, self.owner.run.length)
        request = ResetWorkflow(
            workflow_id="w", event_id=point, new_run_id=self.fresh("run"), seed=self.serial, request_id=self.fresh("z")
        )
        reply = self.ask(request)
        assert not isinstance(reply, Rejection), reply
        self.counts["reset"] += 1
        if self.random.random() < 0.2:
            assert self.ask(request).duplicate

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
        if self.far:
            self.take_over()
            return
        self.owner.crash()
        self.refusals.clear()
        self.updates.waiting.clear()
        for worker in self.workers:
            worker.token = ""
        run = self.owner.run
        for command, activity in list(run.activities.items()):
            claim = activity.claim
            if claim is None:
                continue
            holders = [w for w in self.workers if (held := w.claims.get((run.run_id, command))) and held.token == claim.token]
            if holders and self.random.random() < 0.5:
                reply = holders[0].claim_activity(command, activity.attempt, claim.token)
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

    def take_over(self) -> None:
        """Another owner, from what is written; workers go on as if nothing had been, under claims it may not know.

        What was not written yet, a worker may have seen: its claim was answered before the commit.
        """
        if self.unsure is not None and self.unsure[0] == len(self.owner.transitions) and self.random.random() < 0.5:
            self.owner.lose_last()
            self.signals.remove(self.unsure[1])
            self.counts["lost unwritten"] += 1
        self.unsure = None
        self.owner.crash(CLAIM_LIVES)
        self.refusals.clear()
        self.updates.waiting.clear()
        self.counts["taken over"] += 1

    def beat(self, worker: Worker) -> None:
        worker.beat()

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
        self.unsure = None  # it leaves only when all that it tells of is written
        self.count(letter.report, reply, before)
        worker = letter.worker
        if worker.letter is letter:
            worker.answer(letter.report, reply)

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

    def work(self, worker: Worker) -> None:
        worker.work()

    def fuse(self, worker: Worker) -> None:
        worker.fuse()

    def take(self, worker: Worker) -> None:
        worker.take_activity()

    def tell(self, worker: Worker) -> None:
        worker.tell()

    # ------------------------------------------------------------------------------------------------------- the calm end

    def finish(self) -> None:
        """Deliver what is under way and lead the run to its end: nothing may be left that would wait for ever."""
        for worker in self.workers:
            if self.deploys:
                self.deploy(worker)
        self.resume(self.workers[0])
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
                        worker.claim_task(task)
                worker.work()
                worker.tell()
                busy = busy or worker.letter is not None
            if not busy and not self.owner.wakes:
                return
        raise AssertionError("work without end")

    def rest(self) -> None:
        run = self.owner.run
        assert not self.updates.waiting, "updates nobody takes or refuses"
        assert not run.wants_decision, "inputs no decision has seen, and nobody is at it"
        assert not run.activities, f"activities nobody ends: {run.activities}"
        assert not run.timers, f"timers that never fire: {run.timers}"


_ACTIONS: list[Callable[[Life, Worker], None]] = [
    *[Life.tick] * 2,
    Life.fire,
    *[Life.signal] * 2,
    Life.update,
    Life.raw,
    *[Life.work] * 4,
    *[Life.deliver] * 5,
    *[Life.fuse] * 4,
    *[Life.take] * 3,
    Life.tell,
    Life.kill,
    Life.crash,
    Life.deploy,
    Life.cancel,
]
_FAR: list[Callable[[Life, Worker], None]] = [*[Life.beat] * 4, Life.crash]
_HOLDING: list[Callable[[Life, Worker], None]] = [Life.pause, *[Life.resume] * 3]
"""Only some lives are paused, and only some are reset: else every life would show less of everything else."""


def live(seed: int, make_runner: MakeRunner = ToyRunner, **fields: Any) -> Counter[str]:
    """Play the life of `seed`. Raises `LifeError`."""
    return Life(seed, make_runner, **fields).play()
