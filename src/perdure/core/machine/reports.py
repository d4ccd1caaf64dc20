"""Reports: facts and the decisions that followed them, judged so that racing costs a commit but never order.

Facts are judged alone, by their own claim. Commands before the first fact follow the decision fence. Commands after a fact are accepted
only if the fact was, at the time its worker fed it, and nothing but this report's own events came after `based_on`; else they are cut
there. Proven on the models in tests/property; docs/adr/0005 says what goes wrong with wider rules.
"""

from perdure.core.commands import ClosingCommand, ContinueAsNew, FailWorkflow
from perdure.core.events import CLOSING_KINDS, ActivityCompleted, ActivityScheduled, CommandEvent
from perdure.core.machine.activities import attempt_failed, granted, must_be_durable, task_of
from perdure.core.machine.beats import may_be_adopted
from perdure.core.machine.claims import build_fault, hold
from perdure.core.machine.closing import close, may_close
from perdure.core.machine.limiting import fail_if_too_long, fail_run, too_large
from perdure.core.machine.outcome import Decided, Draft, Outcome, only
from perdure.core.machine.recording import Recorder, recordable
from perdure.core.machine.targets import current_run
from perdure.core.machine.updates import UPDATE_COMMANDS, OpenUpdates, still_waiting, wants_code
from perdure.core.notes import ActivityClaimed, DecidedBy, Seen, SignalSetAside
from perdure.core.replies import ActivityClaim, Rejection, Reported
from perdure.core.requests import ActivityErred, ActivitySucceeded, Commands, Report
from perdure.core.state import ActivityState, RunState, WorkflowState
from perdure.core.volatile import Alive, ClaimLife, ClaimUnnoted, CloseRefused, HeldWarm, SeenTo, WorkflowClaimEnded


def report(state: WorkflowState, request: Report, now: int) -> Decided:
    run = current_run(state, request)
    if run is None:
        facts = sum(1 for step in request.steps if type(step) is not Commands)
        return only(Reported(accepted=False, length=0, decided=0, covered=0, closed=True, facts_dropped=facts))
    if (refusal := _malformed(run, request)) is not None:
        return refusal
    return _Judge(state, run, request, now).judge()


def _malformed(run: RunState, request: Report) -> Rejection | None:
    """What the machine will not even look at: kinds without behaviour yet, and reports no worker should make."""
    for step in request.steps:
        if type(step) is Commands:
            for command in step.commands:
                if not recordable(command):
                    return Rejection(code="INVALID_ARGUMENT", message=f"{command.type} cannot stand among other commands")
    if type(request.closing) is FailWorkflow and run.started.retry is not None and not request.next_run_id:
        return Rejection(code="INVALID_ARGUMENT", message="a failure that may be tried again needs a run id for the successor")
    if type(request.closing) is ContinueAsNew:
        if not request.next_run_id:
            return Rejection(code="INVALID_ARGUMENT", message="continue-as-new needs a run id for the successor")
        missing = set(request.closing.untaken) - {s.id for s in request.carried} - {s.id for s in run.unseen_signals}
        if missing:
            return Rejection(code="INVALID_ARGUMENT", message=f"signal {min(missing)} is named as untaken but not carried")
    return None


class _Judge:
    """Goes through one report step by step."""

    __slots__ = (
        "accepted",
        "cut",
        "draft",
        "drifted",
        "dropped",
        "ended",
        "exact",
        "fence",
        "good",
        "has_facts",
        "last",
        "recorder",
        "refused",
        "refused_build",
        "report",
        "right",
        "run",
        "seen",
        "updates",
    )

    def __init__(self, state: WorkflowState, run: RunState, request: Report, now: int) -> None:
        self.run = run
        self.report = request
        self.draft = Draft(state, run, now)
        self.recorder = Recorder(self.draft)
        self.exact = run.length == request.based_on
        self.right = run.claim is not None and bool(request.token) and run.claim.token == request.token
        # Whoever has seen a decision holds what it was based on: a report that says otherwise is no worker's.
        self.fence = run.decided == request.decided and (run.decided or 1) <= request.based_on <= run.length
        if state.limits.strict_based_on and not self.exact:
            self.fence = False
        self.cut = False
        self.drifted = False
        self.has_facts = False
        self.accepted = True
        self.refused = False
        self.last = request.based_on
        self.good = 0
        """Every decision up to this event was accepted."""
        self.seen = 0
        self.dropped = 0
        self.updates: OpenUpdates | None = None
        self.ended: set[int] = set()
        self.refused_build = bool(run.failed_builds or run.refused_builds) and bool(build_fault(run, request.build_id))

    def judge(self) -> Outcome:
        steps = self.report.steps
        if len(steps) > 1 and type(steps[0]) is Commands and type(steps[1]) is ActivitySucceeded:
            self._leave_room(steps[1])
        if self.report.refused and not self._may_decide():
            self.cut = True  # a validator has judged what is not so: these updates are offered again
            self.accepted = False
        for step in steps:
            if isinstance(step, Commands):
                self._commands(step)
            elif isinstance(step, ActivitySucceeded):
                self._succeeded(step)
            else:
                self._erred(step)
        closing = self.report.closing
        closes = closing is not None and self._closes(closing)
        if (
            not closes
            and self.recorder.placed
            and (why := too_large(self.draft.state.limits, len(self.recorder.placed), self.recorder.size))
        ):
            fail_run(self.draft, why)
        fail_if_too_long(self.draft, self.seen)
        return self._outcome()

    def _leave_room(self, fact: ActivitySucceeded) -> None:
        """Commands that stand before a fused fact must not be later than it was fed, or its time could not be kept."""
        if self.run.last_time <= fact.fed_at < self.draft.time:
            self.draft.time = fact.fed_at

    # ------------------------------------------------------------------------------------------------------------ steps

    def _may_decide(self) -> bool:
        """Commands before a fact need the claim and the fence; after one, an exact prefix and the fact as it was fed."""
        if self.cut or not self.fence or self.refused_build:
            return False
        return self.exact and not self.run.paused if self.has_facts else self.right

    def _commands(self, step: Commands) -> None:
        if not self.has_facts and not step.commands and not self.right and not self.report.token:
            return  # it claims no right, and asks for nothing
        if not self._may_decide() or not self._sound(step):
            self.cut = True
            self.accepted = False
            return
        self.good = self.last
        if not step.commands:
            self.seen = self.last
            return
        based_on, before = self.last, self.draft.length
        for command in step.commands:
            self.recorder.record(command, based_on)
        if self.draft.length != before + len(step.commands):
            self.drifted = True  # a cancel was answered at once: facts that follow are not where their worker thinks

    def _sound(self, step: Commands) -> bool:
        """No command was asked at an input its worker had not fed, nor refers to one that is not there."""
        last = self.last
        updates = False
        for command in step.commands:
            if command.at > last:
                return False
            if type(command) in UPDATE_COMMANDS:
                updates = True
        return self.recorder.placeable(step.commands) and (not updates or self._fits_updates(step))

    def _fits_updates(self, step: Commands) -> bool:
        """What the step says of updates fits those that are open, and what this report has said before."""
        if self.updates is None:
            self.updates = OpenUpdates(self.draft.state, self.run)
        place = len(self.recorder.placed)
        for command in step.commands:
            place += 1
            if type(command) in UPDATE_COMMANDS and not self.updates.take(command, place):
                return False
        return True

    def _claimed(self, fact: ActivitySucceeded | ActivityErred) -> ActivityState | None:
        activity = self.run.activities.get(fact.command)
        if activity is not None and fact.command not in self.ended:
            claim = activity.claim
            if claim is not None:
                mine = claim.token == fact.token
            else:  # a cancel of this very report may have answered what nobody seemed to run
                mine = may_be_adopted(activity, fact.attempt, self.draft.now) and not self.draft.answers(fact.command)
            if mine:
                return activity
        self.dropped += 1
        self.cut = True
        return None

    def _succeeded(self, fact: ActivitySucceeded) -> None:
        activity = self._claimed(fact)
        fed_exactly = not self.cut and self.exact and self.fence and not self.drifted
        self.has_facts = True
        if activity is None:
            self.accepted = self.accepted and not fact.fed_at
            return
        draft = self.draft
        last_time = draft.events[-1].time if draft.events else self.run.last_time
        good = (
            fed_exactly
            and bool(fact.fed_at)
            and last_time <= fact.fed_at <= draft.now + int(draft.state.limits.fused_ahead_s * 1_000_000)
        )
        if good:
            draft.time = fact.fed_at
        elif draft.time < draft.now:
            draft.time = draft.now
        draft.add(
            ActivityCompleted(
                id=draft.next_id, time=draft.time, command=fact.command, result=fact.result, attempt=activity.attempt
            )
        )
        if draft.time < draft.now:
            draft.time = draft.now
        self.ended.add(fact.command)
        self.last = draft.length
        if not good:
            self.cut = True
            self.accepted = self.accepted and not fact.fed_at

    def _erred(self, fact: ActivityErred) -> None:
        activity = self._claimed(fact)
        self.has_facts = True
        if activity is None:
            return
        attempt_failed(self.draft, activity, fact.failure, fact.kind, cancelled=fact.cancelled)
        self.ended.add(fact.command)
        self.last = self.draft.length
        self.cut = True

    def _closes(self, closing: ClosingCommand) -> bool:
        """True when the run is closed now, by its code.

        The end is good when everything up to the input at which it came was accepted; what was cut behind that input does not matter.
        Were the end dropped for it, the inputs before would count as seen, and nobody would be asked for the end again.
        """
        if not self.good or closing.at > self.good:
            self.accepted = False
            return False
        if not may_close(self.draft, self.report, self.draft.state.limits.close_refusals_max):
            self.refused = True
            self.draft.volatile.append(CloseRefused())
            return False
        close(self.draft, self.report, self.good)
        return True

    # ----------------------------------------------------------------------------------------------------------- outcome

    def _outcome(self) -> Outcome:
        draft, run, report = self.draft, self.run, self.report
        closed = bool(draft.changes) or (bool(draft.events) and type(draft.events[-1]) in CLOSING_KINDS)
        if report.notes and self.accepted and not draft.changes:
            self._note_set_aside()
        if not closed and (self.seen or report.awaits != run.awaits_now):
            self._see()
        decided = self._decided()
        covered = run.seen_to
        if decided > covered:
            covered = decided
        if self.seen > covered:
            covered = self.seen
        if (decided != run.decided or self.seen) and not draft.changes:
            self._note_build()
        activities: tuple[ActivityClaim, ...] = ()
        length = draft.length
        if closed:
            length = 0
        elif self.recorder.scheduled:
            activities = self._dispatch()
        elif report.room and not self.accepted:
            activities = self._handed_before()
        reply = Reported(
            accepted=self.accepted,
            length=length,
            decided=decided,
            covered=covered,
            close_refused=self.refused and not closed,
            closed=closed,
            history_bytes=run.bytes + self.recorder.size,
            activities=activities,
            facts_dropped=self.dropped,
        )
        if not closed:
            self._settle_claim(reply, covered)
        return draft.outcome(reply)

    def _see(self) -> None:
        """A decision without commands, or one after which the code waits for something else: written with what this report writes anyway,
        else remembered until the run's next transition."""
        draft, run = self.draft, self.run
        awaits = self.report.awaits if self.good and self.accepted and self.report.awaits != run.awaits_now else None
        if (draft.events or draft.notes) and (self.seen > run.covered or awaits is not None):
            awaits = run.awaits_unnoted if awaits is None else awaits
            seen = max(self.seen, self.good)
            draft.note(Seen(id=draft.next_note, time=draft.time, after=draft.length, based_on=seen, awaits=awaits))
        elif self.seen:
            draft.volatile.append(SeenTo(self.seen, awaits))

    def _decided(self) -> int:
        decided = self.run.decided
        for event in self.draft.events:
            if isinstance(event, CommandEvent) and event.based_on > decided:
                decided = event.based_on
        return decided

    def _note_build(self) -> None:
        draft = self.draft
        if self.run.quarantine is not None:
            draft.resume(by_build=self.report.build_id)
        if self.run.build_id != self.report.build_id and (draft.events or draft.notes):
            draft.note(DecidedBy(id=draft.next_note, time=draft.time, after=draft.length, build_id=self.report.build_id))

    def _note_set_aside(self) -> None:
        draft = self.draft
        for aside in self.report.notes:
            draft.note(
                SignalSetAside(
                    id=draft.next_note, time=draft.time, after=draft.length, command=aside.command, message=aside.message
                )
            )

    def _dispatch(self) -> tuple[ActivityClaim, ...]:
        """Hand the reporting worker what it has room for, claims riding in this commit; the rest goes to the broker.

        Claims of local activities are not written with it: a crash then costs no attempt, and most have ended by the next transition.
        """
        draft, report = self.draft, self.report
        claims: list[ActivityClaim] = []
        room = report.room
        for scheduled in self._by_urgency(room):
            queue = scheduled.queue or self.run.started.queue
            if room <= len(claims) or not (queue in report.queues or scheduled.local):
                draft.tasks.append(task_of(draft.state, self.run, scheduled, 1))
                continue
            note = ActivityClaimed(
                id=draft.next_note,
                time=draft.time,
                after=draft.length,
                command=scheduled.id,
                attempt=1,
                worker=report.worker,
                token=f"{report.nonce}.{scheduled.id}",
                incarnation=report.incarnation,
            )
            if scheduled.local and not must_be_durable(scheduled, 1):
                draft.volatile.append(ClaimUnnoted(note, report.lives_for))
            else:
                draft.note(note)
                if report.lives_for:
                    draft.volatile.append(ClaimLife(scheduled.id, report.lives_for))
            claims.append(granted(draft, scheduled, note, None, report.lives_for))
        return tuple(claims)

    def _handed_before(self) -> tuple[ActivityClaim, ...]:
        """Of a report that is told again because its answer was lost: what it was handed then, and nobody runs."""
        draft, report = self.draft, self.report
        claims: list[ActivityClaim] = []
        for command, activity in self.run.activities.items():
            note = activity.claim
            if note is None or note.token != f"{report.nonce}.{command}" or note.outside or command in self.ended:
                continue
            draft.volatile += [ClaimLife(command, report.lives_for), Alive(command, draft.now)]
            claims.append(granted(draft, activity.event, note, activity, report.lives_for))
        return tuple(claims)

    def _by_urgency(self, room: int) -> list[ActivityScheduled]:
        """What this report asks for; where not everything finds room, local ones first, then by priority."""
        wanted = self.recorder.scheduled
        if room < len(wanted) and any(scheduled.local or scheduled.priority for scheduled in wanted):
            own = self.run.started.priority
            return sorted(wanted, key=lambda scheduled: (not scheduled.local, -(scheduled.priority or own)))
        return wanted

    def _settle_claim(self, reply: Reported, covered: int) -> None:
        """Whoever reported in full and has more to feed keeps (or gets) the claim; else it ends."""
        run, report, draft = self.run, self.report, self.draft
        last_input = run.last_input
        for event in draft.events:
            if not isinstance(event, CommandEvent):
                last_input = event.id
        more = (self.refused or last_input > covered) and not run.paused
        if report.waiting and wants_code(run):
            refused = {update.update_id for update in report.refused} if self.accepted else ()
            waiting = still_waiting(report.waiting, self.recorder.accepted or (), refused)
            more = more or bool(waiting)
        else:
            waiting = ()
        warm = report.based_on > 0 and self.accepted
        free = run.claim is None or self.right
        if warm and more and free and not self.refused_build:
            reply.token = report.token if self.right else f"{report.nonce}.w"
            reply.updates = waiting
            hold(draft, reply.token, report.worker, report.build_id, report.lives_for)
        elif self.right:
            draft.volatile.append(WorkflowClaimEnded())
        holder = report.worker if warm else ("" if run.sticky == report.worker else run.sticky)
        if holder != run.sticky:
            draft.volatile.append(HeldWarm(holder))
