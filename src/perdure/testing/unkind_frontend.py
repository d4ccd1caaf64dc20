"""How a worker in a process of its own reaches a simulated node: over a connection that is slow, breaks, and is made again, for ever.

What a real wire does is done here too: requests are said again until they are answered, a node carries each out once while it lives, what
is handed over while the connection breaks is lost, and claims in hand are told of every few seconds. The worker outlives the node.
"""

import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from perdure.core.queries import QueryAnswer, TakeQuery
from perdure.core.replies import Beaten
from perdure.core.requests import (
    AnyRequest,
    ClaimActivity,
    ClaimWorkflow,
    HeartbeatActivity,
    HeartbeatWorkflow,
    Report,
)
from perdure.core.tasks import CancelNotice, Task
from perdure.ports import Answer, Deliver, Subscription, TaskKind, WorkerIdentity
from perdure.testing.workers_frontend import WorkersFrontend
from perdure.wire.claims_held import ClaimsHeld

if TYPE_CHECKING:
    from perdure.node import Node
    from perdure.testing.simulated_machine import Machine

BEATS_PER_LIFE: Final = 3
LASTS_US: Final = (20_000, 4_000_000)
"""Between these does a connection break, while the world is unkind."""
BACK_US: Final = (500, 200_000)
"""So long after is there another one."""
AWAY_US: Final = 7_000_000
"""Now and then it takes so long: longer than claims live."""


class _Session:
    """What one life of the node knows of the worker's process."""

    def __init__(self, node: "Node", home: str) -> None:
        self.node = node
        self.home = home
        self.answers: dict[int, tuple[Any, BaseException | None] | None] = {}
        """By number of the request: its answer; None while it is under way."""
        self.lines: list[Subscription] = []


class _Purse:
    """What the worker may still be handed of one kind."""

    def __init__(self) -> None:
        self.credits = 0


class FarLine:
    """A `ports.Subscription` that is made anew with each connection."""

    def __init__(
        self, far: "UnkindFrontend", queue: str, kind: TaskKind, worker: WorkerIdentity, deliver: Deliver, purse: _Purse
    ) -> None:
        self._far = far
        self.queue = queue
        self.kind: TaskKind = kind
        self.worker = worker
        self.deliver = deliver
        self.purse = purse
        self.there: Subscription | None = None

    def grant(self, credits: int) -> None:
        self.purse.credits += credits
        self._far.homeward(self._granted, credits)

    def cancel(self) -> None:
        self._far.forget(self)
        self._far.homeward(self._cancelled)

    def _granted(self, credits: int) -> None:
        if self.there is not None:
            self.there.grant(credits)

    def _cancelled(self) -> None:
        if self.there is not None:
            self.there.cancel()

    def lose(self) -> None:
        """Nobody is lost at this end."""
        self.cancel()

    def give_back(self, task: Task) -> None:
        """The node knows what was not claimed."""


class UnkindFrontend(WorkersFrontend):
    """`ports.Frontend` for one worker process. `begin` once; `cut`, `lost` (the node died) and `heal` come from the world."""

    def __init__(self, machine: "Machine", process: str, chance: random.Random) -> None:
        self.process = process
        self.claims = ClaimsHeld()
        self.cuts = 0
        self._machine = machine
        self._loop = machine.loop
        self._chance = chance
        self._skew = chance.randint(-machine.setup.skew_us, machine.setup.skew_us)
        self._asked: dict[int, tuple[AnyRequest, Answer]] = {}
        self._last = 0
        self._lines: list[FarLine] = []
        self._purses: dict[TaskKind, _Purse] = {}
        self._session: _Session | None = None
        self._connection = 0
        self._is_up = False

    # ---------------------------------------------------------------------------------------------------------- connection

    def begin(self) -> None:
        """Connect, and beat from now on. Called in the worker's process."""
        self._connect()
        self._beat_later()

    def _later(self, pause: int, what: Callable[..., None], *args: Any) -> None:
        with self._loop.inside(self.process):
            self._loop.at(self._loop.now + pause, what, *args)

    def _connect(self) -> None:
        node = self._machine.node
        if self._is_up:
            return
        if node is None or not self._loop.lives(self._machine.process):
            self._later(self._chance.randint(*BACK_US), self._connect)
            return
        if self._session is None or self._session.node is not node:
            self._session = _Session(node, self._machine.process)
        self._connection += 1
        self._is_up = True
        told: set[int] = set()
        for line in self._lines:
            self._plug(line, 0 if id(line.purse) in told else line.purse.credits)
            told.add(id(line.purse))
        for number in list(self._asked):
            self._say(number)
        if not self._machine.is_kind:
            self._later(self._chance.randint(*LASTS_US), self._break, self._connection)

    def _break(self, connection: int) -> None:
        if connection == self._connection and not self._machine.is_kind:
            self.cut()

    def cut(self) -> None:
        """The connection breaks, with whatever is on it."""
        if not self._is_up:
            return
        self.cuts += 1
        self._down()
        away = not self._machine.is_kind and self._chance.random() < 0.1
        self._later(AWAY_US if away else self._chance.randint(*BACK_US), self._connect)

    def vanish(self) -> None:
        """The worker's process is gone; the node hears of that as of any cut."""
        if self._is_up:
            self._down()

    def lost(self) -> None:
        """The node has died."""
        was_up, self._is_up, self._session = self._is_up, False, None
        if was_up and self._loop.lives(self.process):
            self._later(self._chance.randint(*BACK_US), self._connect)

    def _down(self) -> None:
        self._is_up = False
        session = self._session
        if session is not None and self._loop.lives(session.home):
            lines, session.lines = session.lines, []
            with self._loop.inside(session.home):
                for line in lines:
                    self._loop.call_soon(line.lose)

    def _cross(self, to: str, what: Callable[..., Any], *args: Any) -> None:
        """Over the present connection: what has not arrived when that breaks never does."""
        connection = self._connection

        def arrive() -> None:
            if self._is_up and connection == self._connection:
                what(*args)

        with self._loop.inside(to):
            self._loop.at(self._loop.now + self._chance.randint(1, self._machine.setup.wire_us), arrive)

    def homeward(self, what: Callable[..., Any], *args: Any) -> None:
        """Do something at the node, if there is a connection."""
        if self._is_up and self._session is not None:
            self._cross(self._session.home, what, *args)

    # ------------------------------------------------------------------------------------------------------------ requests

    def send(self, request: AnyRequest, answer: Answer) -> None:
        if isinstance(request, (ClaimWorkflow, ClaimActivity, Report)):
            request = replace(request, lives_for=self._machine.setup.lives_for)
        self.claims.asked(request)
        self._last += 1
        self._asked[self._last] = (request, answer)
        self._say(self._last)
        if self._chance.random() < 0.02:
            self._say(self._last)

    def _say(self, number: int) -> None:
        self.homeward(self._carry_out, number, self._asked[number][0])

    def _carry_out(self, number: int, request: AnyRequest) -> None:
        """At the node: once, however often it comes."""
        session = self._session
        assert session is not None
        if number not in session.answers:
            session.answers[number] = None
            session.node.frontend.send(request, partial(self._answered, session, number))
        elif session.answers[number] is not None:
            self._cross(self.process, self._heard, number)

    def _answered(self, session: _Session, number: int, reply: Any, error: BaseException | None) -> None:
        session.answers[number] = (reply, error)
        if session is self._session and self._is_up:
            self._cross(self.process, self._heard, number)

    def _heard(self, number: int) -> None:
        """In the worker's process: an answer, perhaps for the second time."""
        asked = self._asked.pop(number, None)
        found = self._session.answers.get(number) if self._session is not None else None
        if asked is None or found is None:
            return
        request, answer = asked
        self.claims.answered(request, *found)
        answer(*found)

    # --------------------------------------------------------------------------------------------------------------- beats

    def _beat_later(self) -> None:
        self._later(self._machine.setup.lives_for // BEATS_PER_LIFE, self._beat)

    def _beat(self) -> None:
        self._beat_later()
        for claim in self.claims.all():
            head: dict[str, Any] = {"workflow_id": claim.workflow_id, "run_id": claim.run_id, "token": claim.token}
            request: AnyRequest = HeartbeatWorkflow(**head)
            if claim.command:
                request = HeartbeatActivity(
                    **head,
                    command=claim.command,
                    attempt=claim.attempt,
                    worker=claim.worker,
                    claimed_at=claim.claimed_at,
                    lives_for=self._machine.setup.lives_for,
                )
            self.homeward(self._take_beat, request, claim.token)

    def _take_beat(self, request: AnyRequest, token: str) -> None:
        session = self._session
        assert session is not None

        def told(beaten: Any, _error: BaseException | None) -> None:
            if isinstance(beaten, Beaten) and session is self._session and self._is_up:
                self._cross(self.process, self._beaten, token, beaten)

        session.node.frontend.send(request, told)

    def _beaten(self, token: str, beaten: Beaten) -> None:
        gone = not beaten.wanted and self.claims.drop(token)
        if gone or (beaten.wanted and beaten.cancelled):
            for line in self._lines:
                line.deliver(CancelNotice(token=token))

    # --------------------------------------------------------------------------------------------------------------- tasks

    def subscribe(self, queue: str, kind: TaskKind, worker: WorkerIdentity, deliver: Deliver, credits: int) -> Subscription:
        purse = self._purses.setdefault(kind, _Purse())
        purse.credits += credits
        line = FarLine(self, queue, kind, worker, deliver, purse)
        self._lines.append(line)
        if self._is_up:
            self._plug(line, credits)
        return line

    def forget(self, line: FarLine) -> None:
        """A line is given up."""
        if line in self._lines:
            self._lines.remove(line)

    def _plug(self, line: FarLine, credits: int) -> None:
        self.homeward(self._subscribe, line, credits)

    def _subscribe(self, line: FarLine, credits: int) -> None:
        session = self._session
        assert session is not None

        def across(item: Task | CancelNotice) -> None:
            if session is self._session and self._is_up:
                self._cross(self.process, self._deliver, line, item)

        line.there = session.node.frontend.subscribe(line.queue, line.kind, line.worker, across, credits)
        session.lines.append(line.there)

    def _deliver(self, line: FarLine, item: Task | CancelNotice) -> None:
        if isinstance(item, Task):
            line.purse.credits -= 1
        line.deliver(item)

    def take_query(self, request: TakeQuery, answer: Answer) -> None:
        def back(reply: Any, error: BaseException | None) -> None:
            self._cross(self.process, answer, reply, error)

        session = self._session
        if session is not None:
            self.homeward(session.node.frontend.take_query, request, back)

    def answer_query(self, answer: QueryAnswer) -> None:
        session = self._session
        if session is not None:
            self.homeward(session.node.frontend.answer_query, answer)

    def now(self) -> int:
        return self._loop.now + self._skew
