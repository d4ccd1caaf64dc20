"""Which workers are connected to this node: who they are, what they serve, when they were last heard.

A worker is here from its first subscription until its last one is cancelled. Tasks never pass this: it stands beside them.
"""

from perdure.core.overview import WorkerFigures
from perdure.engine.news import NewsRing, moment
from perdure.ports import Broker, Clock, Subscription, TaskKind, WorkerIdentity


class Member:
    """One worker. `heard_at` 0: it lives in this process, so it is heard whenever anything is."""

    __slots__ = ("build_id", "connected_at", "heard_at", "name", "peer", "slots", "subscriptions")

    def __init__(self, name: str, build_id: str, connected_at: int, heard_at: int) -> None:
        self.name = name
        self.build_id = build_id
        self.connected_at = connected_at
        self.heard_at = heard_at
        self.peer = ""
        self.slots = 0
        self.subscriptions: dict[WatchedSubscription, str] = {}
        """What each is for: its queue."""


class Roster:
    """Members by name, in the order they came."""

    def __init__(self, clock: Clock, broker: Broker, news: NewsRing, incarnation: str) -> None:
        self._clock = clock
        self._broker = broker
        self._news = news
        self._incarnation = incarnation
        self._members: dict[str, Member] = {}

    def __len__(self) -> int:
        return len(self._members)

    def join(
        self, worker: WorkerIdentity, queue: str, kind: TaskKind, credits: int, subscription: Subscription
    ) -> "WatchedSubscription":
        """A worker has subscribed; what it is given in place of `subscription` tells when it leaves."""
        member = self._members.get(worker.worker)
        if member is None:
            member = self._arrived(worker, queue)
        if kind == "activity":
            member.slots += max(0, credits)
        watched = WatchedSubscription(self, member, subscription)
        member.subscriptions[watched] = queue
        return watched

    def _arrived(self, worker: WorkerIdentity, queue: str) -> Member:
        now = self._clock.now()
        is_here = worker.incarnation == self._incarnation
        name = worker.worker
        member = Member(name, worker.build_id, now, 0 if is_here else now)
        self._members[name] = member
        self._news.say("worker.connected", worker=name, build_id=worker.build_id, queue=queue, remote=not is_here)
        return member

    def heard(self, worker: str, peer: str = "") -> None:
        """A worker of another process gave a sign of life; `peer` says where it connects from."""
        member = self._members.get(worker)
        if member is not None:
            member.heard_at = self._clock.now()
            member.peer = peer or member.peer

    def left(self, member: Member, subscription: "WatchedSubscription") -> None:
        """A subscription was cancelled."""
        if member.subscriptions.pop(subscription, None) is None or member.subscriptions:
            return
        if self._members.get(member.name) is member:
            del self._members[member.name]
            self._news.say("worker.left", worker=member.name, build_id=member.build_id)

    def figures(self) -> list[WorkerFigures]:
        """Every member as it stands."""
        now = self._clock.now()
        return [self._figures_of(member, now) for member in self._members.values()]

    def _figures_of(self, member: Member, now: int) -> WorkerFigures:
        return WorkerFigures(
            worker=member.name,
            build_id=member.build_id,
            queues=tuple(dict.fromkeys(member.subscriptions.values())),
            slots=member.slots,
            in_hand=max(0, member.slots - self._broker.credits(member.name, "activity")),
            remote=member.heard_at > 0,
            peer=member.peer,
            connected_at=moment(member.connected_at),
            heard_at=moment(member.heard_at or now),
        )


class WatchedSubscription:
    """A `ports.Subscription` whose end the roster hears of. Granting goes straight to the broker's."""

    __slots__ = ("_cancel", "_lose", "_member", "_roster", "give_back", "grant")

    def __init__(self, roster: Roster, member: Member, subscription: Subscription) -> None:
        self._roster = roster
        self._member = member
        self._cancel = subscription.cancel
        self._lose = subscription.lose
        self.grant = subscription.grant
        self.give_back = subscription.give_back

    def cancel(self) -> None:
        """See `ports.Subscription.cancel`. Idempotent."""
        self._cancel()
        self._roster.left(self._member, self)

    def lose(self) -> None:
        """See `ports.Subscription.lose`. Idempotent."""
        self._lose()
        self._roster.left(self._member, self)
