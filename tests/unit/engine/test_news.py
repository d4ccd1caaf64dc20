"""The news of a node: a ring with numbers, read from any place, by any number of readers, at no cost to whoever tells."""

import asyncio

import pytest

from perdure.core.errors import InvalidArgument
from perdure.engine.news import NewsRing
from perdure.ports import FellBehind
from perdure.testing.virtual_clock import VirtualClock

START = 1_700_000_000_000_000


def ring(kept: int = 5, told: int = 0) -> NewsRing:
    news = NewsRing(VirtualClock(START), kept)
    news.begin()
    for number in range(told):
        news.say("tick", n=number + 1)
    return news


def numbers(items: object) -> list[int]:
    return [item.details["n"] for item in items]  # type: ignore[attr-defined]


def test_a_reader_gets_everything_behind_its_id_in_order() -> None:
    """Read to the end, or in parts: the same items, each once."""
    news = ring(told=5)
    reader = news.read(news.id_of(1))
    assert reader.gap == ""
    assert numbers(reader.take(2)) == [2, 3]
    news.say("tick", n=6)
    assert numbers(reader.take(100)) == [4, 5, 6]
    assert reader.take(100) == []


def test_without_an_id_one_reads_what_comes() -> None:
    """What happened before is not repeated to someone who asks for nothing."""
    news = ring(told=3)
    reader = news.read()
    assert reader.take(10) == []
    news.say("tick", n=4)
    assert numbers(reader.take(10)) == [4]


def test_an_id_that_fell_out_of_the_ring_is_told_as_a_gap() -> None:
    """First that something is missing and how much, then what there is."""
    news = ring(kept=5, told=12)
    reader = news.read(news.id_of(3))
    assert reader.gap.startswith("4 items")
    assert numbers(reader.take(100)) == [8, 9, 10, 11, 12]
    whole = news.read(news.id_of(7))  # the last one of which nothing is missing
    assert whole.gap == ""
    assert numbers(whole.take(100)) == [8, 9, 10, 11, 12]


def test_an_id_of_another_life_is_told_as_a_gap() -> None:
    """The ring does not outlive the process; ids of the next life are others, and higher."""
    clock = VirtualClock(START)
    news = NewsRing(clock, 5)
    news.begin()
    news.say("tick", n=1)
    old = news.id_of(1)
    clock.jump(clock.now() + 1_000_000)
    again = NewsRing(clock, 5)
    again.begin()
    again.say("tick", n=1)
    assert int(again.id_of(1).split("-")[0]) > int(old.split("-")[0])
    reader = again.read(old)
    assert "started anew" in reader.gap
    assert numbers(reader.take(10)) == [1]


def test_an_id_that_was_never_given_is_a_gap() -> None:
    """A number of the future, of a copied directory say, does not make a reader wait for it."""
    news = ring(told=2)
    reader = news.read(news.id_of(99))
    assert reader.gap
    news.say("tick", n=3)
    assert numbers(reader.take(10)) == [3]


@pytest.mark.parametrize("text", ["x", "1", "1-", "-1", "1-x", "1-1-1", "\u0661-\u0661", "1-" + "9" * 19])
def test_what_is_no_id_is_refused(text: str) -> None:
    """With a message that shows one."""
    with pytest.raises(InvalidArgument, match="looks like"):
        ring().read(text)


def test_a_reader_that_is_overtaken_hears_of_it() -> None:
    """Items it has not read are gone: it is not given others in their place."""
    news = ring(kept=5, told=1)
    reader = news.read()
    for n in range(2, 8):
        news.say("tick", n=n)
    with pytest.raises(FellBehind, match="1 items"):
        reader.take(10)


def test_readers_wait_for_more_and_end_when_it_is_closed() -> None:
    """Everybody who waits is woken by one item; closing lets them take what there is, then end. One that is cancelled harms no other."""

    async def proof() -> None:
        news = ring()
        readers = [news.read() for _ in range(3)]
        waiting = [asyncio.ensure_future(reader.more()) for reader in readers]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        news.say("tick", n=1)
        assert await asyncio.gather(*waiting[1:]) == [True, True]
        news.say("tick", n=2)
        news.close()
        assert await readers[1].more()
        assert numbers(readers[1].take(10)) == [1, 2]
        assert not await readers[1].more()
        news.say("tick", n=3)
        assert not await readers[1].more()

    asyncio.run(proof())
