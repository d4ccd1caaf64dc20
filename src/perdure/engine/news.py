"""The news of a node: the latest things that happened here, numbered upwards, for whoever watches.

What is told is kept in a ring of fixed size and nothing else: a reader holds a number, so nobody who reads slowly, or not at all, costs
anything or holds anything up. An item is a tuple until somebody reads it.

An id is `LIFE-NUMBER`. LIFE is the millisecond in which this life of the node began, so ids go up over restarts too; the ring does not
outlive the process. Whoever asks for what follows an id of another life, or one that is overwritten, is told that something is missing.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from perdure.core.errors import InvalidArgument
from perdure.core.overview import NewsItem
from perdure.ports import Clock, FellBehind

MADE_MAX: Final = 1_000
"""Items that are kept as they were given to readers."""

Told = tuple[int, str, str, str, str, str, dict[str, Any] | None]
"""Instant, kind, namespace, workflow id, run id, workflow type, details."""


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def moment(instant: int) -> datetime:
    """An instant (microseconds) as a time in UTC."""
    return _EPOCH + timedelta(microseconds=instant)


class NewsRing:
    """Implements `ports.News`; keeps the latest `kept` items. `last` is the number of the newest item; `closed` says that none follows it."""

    def __init__(self, clock: Clock, kept: int) -> None:
        self._clock = clock
        self._ring: list[Told | None] = [None] * kept
        self._made: dict[int, NewsItem] = {}
        """Items that were read lately, by number: several readers are given the same."""
        self._kept = kept
        self._more: asyncio.Future[None] | None = None
        self.life = 0
        self.last = 0
        self.closed = False

    def begin(self) -> None:
        """A life of the node begins: its numbers start anew, under a name of their own."""
        self.life = self._clock.now() // 1_000

    def tell(self, item: Told) -> None:
        """Something happened, and is durable."""
        self.last = number = self.last + 1
        self._ring[number % self._kept] = item
        if self._more is not None:
            self._wake()

    def say(self, kind: str, **details: Any) -> None:
        """Something happened now, to the node as a whole."""
        if not self.closed:
            self.tell((self._clock.now(), kind, "", "", "", "", details or None))

    def close(self) -> None:
        """Nothing is going to follow; readers end when they have taken what there is. Idempotent."""
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        more, self._more = self._more, None
        if more is not None and not more.done():
            more.set_result(None)

    async def more_than(self, number: int) -> bool:
        """Wait for an item behind that one; false when there will be none."""
        while self.last <= number:
            if self.closed:
                return False
            if self._more is None:
                self._more = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._more)
        return True

    @property
    def first(self) -> int:
        """Number of the oldest item that is kept; one more than the last when there is none."""
        return max(1, self.last - self._kept + 1)

    def item(self, number: int) -> NewsItem:
        """An item that is kept."""
        made = self._made.get(number)
        if made is None:
            if len(self._made) >= MADE_MAX:
                self._made.clear()
            made = self._made[number] = self._make(number)
        return made

    def _make(self, number: int) -> NewsItem:
        told = self._ring[number % self._kept]
        assert told is not None
        instant, kind, namespace, workflow_id, run_id, workflow_type, details = told
        return NewsItem(
            id=self.id_of(number),
            kind=kind,
            time=moment(instant),
            namespace=namespace,
            workflow_id=workflow_id,
            run_id=run_id,
            workflow_type=workflow_type,
            details=details or {},
        )

    def id_of(self, number: int) -> str:
        return f"{self.life}-{number}"

    def read(self, after: str | None = None) -> "Place":
        """See `ports.News.read`. Raises `InvalidArgument` for what is no id."""
        if not after:
            return Place(self, self.last)
        life, _, number = after.partition("-")
        if not (_is_number(life) and _is_number(number)):
            raise InvalidArgument(f"{after!r:.80} is no id of an item of the stream: such a one looks like {self.id_of(1)}")
        if int(life) != self.life:
            return Place(
                self, self.first - 1, "the node was started anew since: what happened before is in the histories of the runs"
            )
        if int(number) > self.last:
            return Place(self, self.last, "there has been no such item")
        if int(number) < self.first - 1:
            lost = self.first - 1 - int(number)
            return Place(self, self.first - 1, f"{lost} items in between are not kept any more")
        return Place(self, int(number))


class Place:
    """Implements `ports.NewsReader`: everything up to `number` is taken."""

    __slots__ = ("_news", "gap", "number")

    def __init__(self, news: NewsRing, number: int, gap: str = "") -> None:
        self._news = news
        self.number = number
        self.gap = gap

    @property
    def id(self) -> str:
        """Id of the item taken last."""
        return self._news.id_of(self.number)

    def take(self, limit: int) -> Sequence[NewsItem]:
        """See `ports.NewsReader.take`."""
        news = self._news
        if self.number < news.first - 1:
            lost = news.first - 1 - self.number
            raise FellBehind(f"{lost} items were overwritten before they were read: they come faster than they are read")
        numbers = range(self.number + 1, min(news.last, self.number + limit) + 1)
        self.number += len(numbers)
        return [news.item(number) for number in numbers]

    async def more(self) -> bool:
        """See `ports.NewsReader.more`."""
        return await self._news.more_than(self.number)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18
