"""A worker of a life: claims, replays, decides, feeds itself results, and reports, by the protocol and with no more care than it must."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from perdure.core import commands as cm
from perdure.core import events as ev
from perdure.core.replies import ActivityClaim, ActivityClaimed, Reported, WorkflowClaimed
from perdure.core.requests import (
    ActivitySucceeded,
    ClaimActivity,
    ClaimWorkflow,
    Commands,
    HeartbeatActivity,
    HeartbeatWorkflow,
    RefusedUpdate,
    ReleaseWorkflow,
    Report,
    Step,
)
from perdure.core.tasks import Task
from perdure.testing.machine.life_world import World
from perdure.testing.machine.sole_owner import text
from perdure.testing.machine.toy import LifeRunner, OldBuildError, StaleError

CLAIM_LIVES = 12
"""Microseconds a claim lives without a sign of life; a step of a life takes about two."""


class Worker:
    """`letter`: its report that is not answered yet. `token`: the workflow claim it holds and must report under."""

    def __init__(self, life: World, number: int) -> None:
        self.life = life
        self.name = f"worker{number}"
        self.build = 2 if life.newest else 1
        self.run_id = ""
        self.runner: LifeRunner | None = None
        self.token = ""
        self.letter: Letter | None = None
        self.claims: dict[tuple[str, int], ActivityClaim] = {}
        self.refused: list[RefusedUpdate] = []

    def drop(self) -> None:
        if self.runner is not None:
            self.runner.close()
        self.runner, self.token, self.refused = None, "", []

    def claim_activity(self, command: int, attempt: int, token: str) -> Any:
        return self.life.ask(
            ClaimActivity(
                workflow_id="w",
                run_id=self.life.owner.run.run_id,
                command=command,
                attempt=attempt,
                worker=self.name,
                token=token,
                lives_for=self.life.random.choice([CLAIM_LIVES, 3 * CLAIM_LIVES]),
            )
        )

    def beat(self) -> None:
        """Signs of life for all it has in hand, and for what it only believes it has: then it is a zombie, and often does not mind."""
        life, random = self.life, self.life.random
        if self.token and self.run_id:
            life.ask(HeartbeatWorkflow(workflow_id="w", run_id=self.run_id, token=self.token))
        for (run_id, command), claim in list(self.claims.items()):
            known = life.owner.run.activities.get(command)
            is_new = known is not None and known.claim is None
            beat = HeartbeatActivity(
                workflow_id="w",
                run_id=run_id,
                command=command,
                attempt=claim.attempt,
                token=claim.token,
                worker=self.name,
                claimed_at=claim.claimed_at,
                lives_for=CLAIM_LIVES,
            )
            wanted = life.ask(beat).wanted
            life.counts["adopted" if wanted and is_new else "beat" if wanted else "unwanted"] += 1
            if not wanted and random.random() < 0.5:
                del self.claims[run_id, command]

    def take_activity(self) -> None:
        """Claim what the broker delivers, stale or not."""
        tasks = [task for task in self.life.owner.published.values() if task.command]
        if tasks:
            self.claim_task(self.life.random.choice(tasks))

    def claim_task(self, task: Task) -> None:
        reply = self.claim_activity(task.command, task.attempt, self.life.fresh("a"))
        if isinstance(reply, ActivityClaimed):
            self.claims[task.run_id, task.command] = reply.claim

    def work(self) -> None:
        """Claim the workflow task (or go on under a claim), feed everything, and send a decision off."""
        if self.letter is not None:
            return
        if not self.token and not self.claim_workflow():
            return
        runner = self.runner
        assert runner is not None
        steps: list[Step] = [Commands(commands=runner.take())]
        if self.life.random.random() < 0.2:
            self.add_facts(steps)
        self.post(steps)

    def claim_workflow(self) -> bool:
        run = self.life.owner.run
        held = self.runner.length if self.runner is not None and self.run_id == run.run_id else 0
        if not held or self.life.cold:
            self.drop()
            held = 0
        request = ClaimWorkflow(
            workflow_id="w",
            run_id=run.run_id,
            worker=self.name,
            token=self.life.fresh("t"),
            build_id=f"build{self.build}",
            held=held,
            lives_for=CLAIM_LIVES,
        )
        reply = self.life.ask(request)
        if not isinstance(reply, WorkflowClaimed):
            return False
        assert f"build{self.build}" not in run.refused_builds, "offered to a build that is too old"
        self.token = reply.token
        try:
            if self.runner is not None:
                self.catch_up(reply.events, reply.covered)
            if self.runner is None:
                self.token = reply.token
                self.run_id = run.run_id
                self.runner = self.life.make_runner(self.build, self.life.plan, run.started)
                self.runner.advance(self.life.owner.history, reply.covered)
        except OldBuildError as old:
            self.refuse(reply.token, old.change_id)
            return False
        self.take_updates(reply.updates)
        return True

    def take_updates(self, updates: Sequence[ev.UpdateBody]) -> None:
        """Offer the code what came with the claim; it takes some, refuses others, and leaves the rest when it has ended."""
        runner = self.runner
        for update in updates:
            if runner is None or runner.ending is not None:
                return
            now = self.life.owner.now + self.life.random.choice([-1, 0, 0, 1, 2])
            failure = runner.offer(update, now)
            if failure is not None:
                self.refused.append(RefusedUpdate(update_id=update.update_id, failure=failure))

    def catch_up(self, events: Sequence[Any], covered: int) -> None:
        assert self.runner is not None
        try:
            self.runner.advance(events, covered)
        except StaleError:
            self.life.counts["stale"] += 1
            self.drop()

    def refuse(self, token: str, change_id: str = "") -> None:
        self.life.counts["old build"] += 1
        self.life.ask(
            ReleaseWorkflow(
                workflow_id="w",
                run_id=self.life.owner.run.run_id,
                token=token,
                build_id=f"build{self.build}",
                why="old_build",
                change_id=change_id,
            )
        )
        self.drop()

    def fuse(self) -> None:
        """Feed itself results it holds, by right of their claims alone, from a history that may have grown meanwhile."""
        runner = self.runner
        if self.letter is not None or runner is None or not self.ready():
            return
        steps: list[Step] = [Commands(commands=runner.take())]
        self.add_facts(steps)
        self.post(steps)

    def ready(self) -> list[ActivityClaim]:
        """Results the worker could feed: of its run, and of activities its runner has seen scheduled."""
        runner = self.runner
        if runner is None:
            return []
        return [c for (run_id, n), c in self.claims.items() if run_id == self.run_id and n <= runner.length]

    def add_facts(self, steps: list[Step]) -> None:
        runner = self.runner
        assert runner is not None
        number = runner.length + sum(len(step.commands) for step in steps if isinstance(step, Commands))
        for claim in self.ready()[: self.life.random.randint(1, 2)]:
            result = text(f"result of {claim.scheduled.id}")
            fact = ActivitySucceeded(command=claim.scheduled.id, attempt=claim.attempt, token=claim.token, result=result)
            if not self.life.fuses or isinstance(runner.ending, cm.ContinueAsNew) or self.life.random.random() < 0.1:
                steps.append(fact)
                return
            number += 1
            fed_at = max(runner.time, self.life.owner.now + self.life.random.choice([-1, 0, 0, 1, 2]))
            runner.feed_fact(
                ev.ActivityCompleted(id=number, time=fed_at, command=claim.scheduled.id, result=result, attempt=claim.attempt)
            )
            commands = runner.take()
            number += len(commands)
            steps += [replace(fact, fed_at=fed_at), Commands(commands=commands)]

    def tell(self) -> None:
        """Report a result alone, warm or not: what a zombie can still do."""
        if self.letter is not None or not self.claims or self.token:
            return
        run_id, command = self.life.random.choice(list(self.claims))
        claim = self.claims[run_id, command]
        if run_id != self.run_id:
            self.drop()
        self.run_id = run_id
        self.post([ActivitySucceeded(command=command, attempt=claim.attempt, token=claim.token, result=text("alone"))])

    def post(self, steps: list[Step]) -> None:
        runner, random = self.runner, self.life.random
        ending = runner.ending if runner is not None and isinstance(steps[0], Commands) else None
        untaken = runner.untaken() if runner is not None and ending is not None else ()
        report = Report(
            workflow_id="w",
            run_id=self.run_id,
            worker=self.name,
            build_id=f"build{self.build}",
            based_on=runner.length if runner is not None else 0,
            decided=runner.decided if runner is not None else 0,
            nonce=self.life.fresh("n"),
            token=self.token,
            steps=tuple(steps),
            closing=ending,
            untaken=len(untaken),
            carried=untaken,
            next_run_id=self.life.fresh("run"),
            next_seed=1,
            room=random.choice([0, 1, 2]),
            queues=("default",),
            lives_for=CLAIM_LIVES,
            refused=tuple(self.refused),
        )
        self.refused = []
        self.letter = Letter(self, report)
        self.life.letters.append(self.letter)

    def answer(self, report: Report, reply: Reported) -> None:
        self.letter = None
        for step in report.steps:
            if isinstance(step, ActivitySucceeded):
                self.claims.pop((report.run_id, step.command), None)
        for claim in reply.activities:
            self.claims[claim.run_id, claim.scheduled.id] = claim
        if not reply.accepted or reply.closed:
            self.drop()
            return
        if self.runner is None:
            return
        self.token = reply.token
        try:
            self.catch_up(reply.events, reply.covered)
        except OldBuildError as old:
            if reply.token:
                self.refuse(reply.token, old.change_id)
            self.drop()
            return
        self.take_updates(reply.updates)


class Letter:
    """A report under way. It may arrive late, twice, or never matter."""

    __slots__ = ("report", "worker")

    def __init__(self, worker: Worker, report: Report) -> None:
        self.worker = worker
        self.report = report
