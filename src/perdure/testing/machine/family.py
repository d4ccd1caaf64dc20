"""Families: one seed, a handful of workflow ids whose runs start, cancel and signal one another over messages that are delivered late and
twice, while clients stop them and the node dies at any point.

The code of the runs is chance: what a machine may be asked for is what matters here, not that it replays (`lives` sees to that). `raise_family(seed)`
plays one and raises with the seed in the first line when a law of the machine is broken or a message had another effect than its one.
"""

from collections import Counter
from random import Random
from typing import Any

from msgspec.structs import replace

from perdure.core import commands as cm
from perdure.core import events as ev
from perdure.core.description import result_of
from perdure.core.failure import Failure
from perdure.core.machine.messages import heard, is_wanted
from perdure.core.replies import Rejection, RunStarted, WorkflowClaimed
from perdure.core.requests import (
    ClaimWorkflow,
    Commands,
    Report,
    RequestCancel,
    ResetWorkflow,
    StartWorkflow,
    TerminateWorkflow,
)
from perdure.testing.machine.family_verdict import judge, judge_at_rest
from perdure.testing.machine.sole_owner import SoleOwner, text

IDS_MAX = 9
"""So many workflow ids a family has at most; then nobody asks for children any more."""
NAMED = ("kid1", "kid2")
"""Ids that several parents want."""


class FamilyError(AssertionError):
    """What went wrong in a family; the seed comes first."""


class Family:
    """`answers` are on their way back to whoever asked; a crash loses them. `checked`: the laws are held against every step (by default
    in every fourth family)."""

    def __init__(self, seed: int, *, checked: bool | None = None) -> None:
        self.random = Random(seed)
        self.seed = seed
        self.checked = seed % 4 == 0 if checked is None else checked
        self.owners: dict[str, SoleOwner] = {}
        self.answers: list[tuple[Any, Any]] = []
        """What the source is told, and the key of the delivery it answers."""
        self.refused: set[str] = set()
        """Keys of messages that were refused at least once. A crash may forget the refusal: then they are brought again, out of order."""
        self.counts: Counter[str] = Counter()
        self.growing = True
        self.serial = 0

    # ------------------------------------------------------------------------------------------------------------- playing

    def play(self, steps: int = 70) -> Counter[str]:
        """Play, calm down, judge; what happened how often."""
        try:
            self.start_one("root")
            for _ in range(steps):
                self.random.choice(_ACTIONS)(self)
            self.growing = False
            self.settle()
            judge_at_rest(self.owners)
            self.close_all()
            judge(self.owners, self.refused, self.counts)
        except Exception as error:
            raise FamilyError(f"seed {self.seed}: {type(error).__name__}: {error}\n{self.tale()}") from error
        return self.counts

    def tale(self) -> str:
        lines: list[str] = []
        for workflow_id, owner in self.owners.items():
            for run_id, history in owner.histories.items():
                lines += [f"{workflow_id} {run_id}", *(f"  {event}" for event in history)]
                lines += [f"  {note}" for note in owner.notes[run_id]]
        return "\n".join(lines)

    def fresh(self, prefix: str) -> str:
        self.serial += 1
        return f"{prefix}{self.serial}"

    def owner(self, workflow_id: str) -> SoleOwner:
        found = self.owners.get(workflow_id)
        if found is None:
            found = self.owners[workflow_id] = SoleOwner(workflow_id, checked=self.checked)
        return found

    def bring(self, request: Any) -> Any:
        owner = self.owner(request.workflow_id)
        owner.now += 1
        decided = owner.bring(request)
        return decided if isinstance(decided, Rejection) else decided.reply

    # ------------------------------------------------------------------------------------------------------------- clients

    def start_one(self, workflow_id: str) -> None:
        self.bring(
            StartWorkflow(
                workflow_id=workflow_id,
                workflow_type="toy",
                run_id=self.fresh("run"),
                seed=1,
                request_id=self.fresh("s"),
                on_conflict=self.random.choice(["fail", "fail", "terminate"]),
            )
        )

    def client(self) -> None:
        """Somebody stops a run, or begins another under an id that may be a child's."""
        known = list(self.owners)
        chosen, what = self.random.choice(known), self.random.random()
        if what < 0.4:
            self.bring(RequestCancel(workflow_id=chosen, request_id=self.fresh("c")))
        elif what < 0.6:
            self.bring(TerminateWorkflow(workflow_id=chosen, request_id=self.fresh("k")))
        elif len(known) < IDS_MAX or what < 0.8:
            self.start_one(self.random.choice([chosen, *NAMED]))

    def reset(self) -> None:
        """A run of a workflow id, mostly its last one, begins once more from somewhere."""
        owners = [owner for owner in self.owners.values() if owner.state.run is not None]
        owner = self.random.choice(owners)
        run_id = owner.run.run_id if self.random.random() < 0.8 else self.random.choice(list(owner.histories))
        history = owner.histories[run_id]
        reply = self.bring(
            ResetWorkflow(
                workflow_id=owner.state.workflow_id,
                run_id=run_id,
                event_id=self.random.randint(1, len(history)),
                new_run_id=self.fresh("run"),
                seed=1,
                request_id=self.fresh("r"),
                events=tuple(history),
            )
        )
        self.counts["resets"] += not isinstance(reply, Rejection)

    # ---------------------------------------------------------------------------------------------------------------- code

    def decide(self) -> None:
        """A run's code asks for something, and perhaps ends."""
        wanting = [o for o in self.owners.values() if o.state.run is not None and o.run.wants_decision]
        if not wanting:
            return
        owner = self.random.choice(wanting)
        claimed = self.claim(owner)
        if claimed is None:
            return
        commands = tuple(self.asks(owner, claimed.length) for _ in range(self.random.choice([0, 1, 1, 2, 3])))
        self.report(owner, claimed, commands, self.ends(claimed.length) if self.random.random() < 0.3 else None)

    def claim(self, owner: SoleOwner) -> WorkflowClaimed | None:
        request = ClaimWorkflow(
            workflow_id=owner.state.workflow_id, run_id=owner.run.run_id, worker="ann", token=self.fresh("t"), build_id="b"
        )
        reply = self.bring(request)
        return reply if isinstance(reply, WorkflowClaimed) else None

    def report(self, owner: SoleOwner, claimed: WorkflowClaimed, commands: tuple[Any, ...], closing: Any) -> None:
        self.bring(
            Report(
                workflow_id=owner.state.workflow_id,
                run_id=owner.run.run_id,
                worker="ann",
                build_id="b",
                token=claimed.token,
                based_on=claimed.length,
                decided=claimed.decided,
                nonce=self.fresh("n"),
                steps=(Commands(commands=commands),),
                closing=closing,
                next_run_id=self.fresh("run") if isinstance(closing, cm.ContinueAsNew) else "",
            )
        )

    def asks(self, owner: SoleOwner, at: int) -> Any:
        random, asked = self.random, [e for e in owner.history if isinstance(e, ev.ChildRequested)]
        what = random.random()
        if what < 0.45 and self.growing and len(self.owners) < IDS_MAX:
            return cm.RequestChild(
                at=at,
                workflow_type="toy",
                workflow_id=random.choice(["", "", *NAMED]),
                on_parent_close=random.choice(["terminate", "terminate", "cancel", "abandon"]),
            )
        if what < 0.6 and asked:
            return cm.CancelChild(at=at, target=random.choice(asked).id)
        if what < 0.7 and asked:
            child = random.choice(asked)
            return cm.SignalExternal(at=at, workflow_id=child.workflow_id, name="go", child=child.id)
        if what < 0.9:
            return cm.SignalExternal(at=at, workflow_id=random.choice([*self.owners, "nobody"]), name="go")
        if what < 0.95:
            return cm.CancelExternal(at=at, workflow_id=random.choice([*self.owners, "nobody"]))
        return cm.RecordSideEffect(at=at, result=text("x"))

    def ends(self, at: int) -> Any:
        return self.random.choice(
            [
                cm.CompleteWorkflow(at=at, result=text("done")),
                cm.FailWorkflow(at=at, failure=Failure(type="Boom")),
                cm.CancelWorkflow(at=at),
                cm.ContinueAsNew(at=at),
            ]
        )

    # ------------------------------------------------------------------------------------------------------------- messages

    def deliver(self) -> None:
        """Bring a message to its target, in order for each pair of source and target."""
        sources = [owner for owner in self.owners.values() if owner.deliveries]
        if not sources:
            return
        source = self.random.choice(sources)
        heads: dict[str, Any] = {}
        for key, delivery in source.deliveries.items():
            heads.setdefault(delivery.request.workflow_id, key)
        key = self.random.choice(list(heads.values()))
        self.hand_over(source, key, again=self.random.random() < 0.15)

    def hand_over(self, source: SoleOwner, key: Any, *, again: bool = False) -> None:
        """`again`: its answer is lost, and it will be brought once more."""
        delivery = source.deliveries[key]
        source.answered.add(key)  # under way until its answer is there, though nobody brings it again
        if not again:
            del source.deliveries[key]
        if not is_wanted(source.state, delivery):
            source.deliveries.pop(key, None)
            source.answered.discard(key)
            return
        request = delivery.request
        if isinstance(request, StartWorkflow):
            request = replace(request, run_id=self.fresh("run"), seed=1)
        reply = self.bring(request)
        refused = isinstance(reply, Rejection)
        if refused:
            self.refused.add(delivery.key)
        if isinstance(reply, RunStarted) and reply.superseded:
            reply.outcome = self.look_up(request.workflow_id, reply.run_id)
            self.counts["superseded"] += 1
        told = heard(delivery, None if refused else reply, Failure(type=reply.code) if refused else None)
        if told is not None and not again:
            self.answers.append((told, key))
        else:
            source.answered.discard(key)
        self.counts["refused" if refused else "delivered"] += 1

    def look_up(self, workflow_id: str, run_id: str) -> Any:
        histories = self.owners[workflow_id].histories
        request_id = histories[run_id][0].request_id  # type: ignore[union-attr]
        while (following := getattr(histories[run_id][-1], "next_run_id", "")) and (
            histories[following][0].request_id == request_id  # type: ignore[union-attr]
        ):
            run_id = following
        return result_of(run_id, histories[run_id][-1])

    def answer(self) -> None:
        """An answer arrives; those to one source in order."""
        if self.answers:
            told, _ = self.random.choice(self.answers)
            at, (first, key) = next(
                (at, answer) for at, answer in enumerate(self.answers) if answer[0].workflow_id == told.workflow_id
            )
            del self.answers[at]
            self.bring(first)
            if all(other != key or told.workflow_id != first.workflow_id for told, other in self.answers):
                self.owners[first.workflow_id].answered.discard(key)

    def crash(self) -> None:
        """The node dies: what was not written, every message and every answer on its way is gone."""
        self.answers = []
        for owner in self.owners.values():
            owner.answered.clear()
            owner.crash()
        self.counts["crashes"] += 1

    # -------------------------------------------------------------------------------------------------------------- the end

    def settle(self) -> None:
        """Deliver until nothing is on its way."""
        for _ in range(2_000):
            if not self.answers and not any(owner.deliveries for owner in self.owners.values()):
                return
            self.deliver()
            self.answer()
        raise AssertionError("messages without end")

    def close_all(self) -> None:
        """Lead every run that is still open to its end."""
        for _ in range(200):
            self.settle()
            waiting = [o for o in self.owners.values() if o.state.run is not None and o.run.is_open]
            if not waiting:
                return
            owner = waiting[0]
            self.bring(TerminateWorkflow(workflow_id=owner.state.workflow_id, request_id=self.fresh("k")))
        raise AssertionError("runs without end")


_ACTIONS = [
    *[Family.decide] * 5,
    *[Family.deliver] * 5,
    *[Family.answer] * 4,
    Family.client,
    Family.crash,
    Family.reset,
]


def raise_family(seed: int, **fields: Any) -> Counter[str]:
    """Play the family of `seed`. Raises `FamilyError`."""
    return Family(seed, **fields).play()
