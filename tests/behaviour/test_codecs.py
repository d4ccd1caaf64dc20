"""Codecs on a whole node: nothing readable on the disk, everything as ever for whoever has the key, and patience for whoever lacks it."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import Retry, activity, workflow
from perdure.codecs import AesGcm, Zstd, decoded
from perdure.errors import CodecError, WorkflowFailed
from perdure.replay.history import replay_history
from perdure.replay.mismatch import Mismatch
from perdure.sdk.coded import coded
from perdure.testing import environment

KEY, OTHER = b"1" * 32, b"2" * 32
CODEC = [Zstd(), AesGcm({"2026": KEY})]
TOKENS: list[str] = []


@dataclass
class Card:
    number: str


class Declined(Exception):
    pass


@activity(retry=Retry(initial=0.001, jitter=0, max_attempts=2))
async def charge(card: Card, cents: int) -> Card:
    if activity.info().attempt == 1:
        activity.heartbeat("secret-beat")
        raise ConnectionError("secret-error")
    assert activity.info().heartbeat_details == ("secret-beat",)
    return Card(f"secret-receipt {cents} {card.number}")


@activity(retry=Retry(max_attempts=1))
async def declines() -> None:
    raise Declined("secret-declined")


@activity
async def asks() -> str:
    TOKENS.append(activity.info().task_token)
    activity.complete_later()


@workflow
async def buys(card: Card) -> list[str]:
    receipt = await charge(card, 5)
    drawn = workflow.side_effect(lambda: "secret-drawn")
    word = await workflow.receive("word", str)
    given = await asks()
    try:
        await declines()
    except Declined as error:
        return [receipt.number, drawn, word, given, str(error), workflow.info().memo["note"]]
    return []


@workflow
async def counts(n: int) -> int:
    if n:
        workflow.continue_as_new(n - 1)
    return n


@workflow
async def no_arguments() -> str:
    return (await charge.options(summary="in-clear")(Card("secret"), 1)).number


@workflow
async def fails() -> None:
    raise Declined("secret-end")


async def _given() -> bool:
    return bool(TOKENS)


def written(data: Path) -> bytes:
    return b"".join(path.read_bytes() for path in data.rglob("*") if path.is_file())


async def test_nothing_readable_is_written_and_nothing_else_changes(any_house, t) -> None:
    """Arguments, results, signals, side effects, memo, heartbeats, failures with their tracebacks; ids and names stay in clear."""
    TOKENS.clear()
    async with any_house(buys, charge, declines, asks, codec=CODEC, replays=False) as app:
        handle = await app.client.start(buys(Card("secret-card")), id="in-clear-id", memo={"note": "secret-memo"})
        await handle.signal("word", "secret-word")
        await t.until(app, _given)
        await app.client.complete_activity(TOKENS[0], "secret-given")
        assert await handle.result() == [
            "secret-receipt 5 secret-card",
            "secret-drawn",
            "secret-word",
            "secret-given",
            "secret-declined",
            "secret-memo",
        ]
        described = await handle.describe()
        assert described.memo == {"note": "secret-memo"}
        assert described.result[1] == "secret-drawn"
        entries = await handle.history(notes=True)
        assert next(e for e in entries if e.type == "activity_scheduled").input == [{"number": "secret-card"}, 5]
        assert next(e for e in entries if e.type == "attempt_failed").failure.message == "secret-error"
    text = written(any_house.data)
    assert b"secret" not in text
    for clear in (b"in-clear-id", b"charge", b"Declined", b"ConnectionError", b"perdure/encoded"):
        assert clear in text


async def test_who_has_no_codec_sees_that_there_is_something(house) -> None:
    """Carried and shown as it is, an object with one telling key."""
    async with house(no_arguments, charge, codec=CODEC, replays=False) as app:
        handle = await app.client.start(no_arguments())
        assert await handle.result() == "secret-receipt 1 secret"
        blind = perdure.Client(app.frontend, app.client._chance)
        result = await blind.handle(handle.id).result()
        assert list(result) == ["perdure/encoded"]
        assert next(e for e in await blind.handle(handle.id).history() if e.type == "activity_scheduled").summary == "in-clear"
        wrong = perdure.Client(app.frontend, app.client._chance)
        wrong.frontend = coded(app.frontend, [Zstd(), AesGcm({"2026": OTHER})])
        with pytest.raises(CodecError, match="the key given as '2026' is not the one"):
            await wrong.handle(handle.id).result()


class Unauthenticated:
    """A cipher that cannot tell a wrong key."""

    def encode(self, data: bytes) -> bytes:
        return bytes(byte ^ 0x5A for byte in data)

    def decode(self, data: bytes) -> bytes:
        return self.encode(data)


@pytest.mark.parametrize(
    "codec",
    [None, [Zstd(), AesGcm({"2026": OTHER})], AesGcm({"2027": OTHER}), Unauthenticated()],
    ids=["none", "wrong key", "no key", "noise"],
)
async def test_a_worker_that_cannot_decode_gives_the_run_back(house, t, codec, caplog) -> None:
    """Neither failed nor quarantined: it waits, and goes on when a worker with the key comes."""
    async with house(no_arguments, charge, codec=codec, replays=False) as app:
        client = perdure.Client(app.frontend, app.client._chance)
        client.frontend = coded(app.frontend, CODEC)
        handle = await client.start(no_arguments())
        with_arguments = await client.start(counts(1))
        app.register(counts)

        async def waits() -> bool:
            return (
                "waits for a worker that can decode" in caplog.text
                or "wait for a worker that was given the codec" in caplog.text
            )

        await t.until(app, waits)
        for each in (handle, with_arguments):
            assert (await app.frontend.describe("default", each.id)).status == "running"
        async with perdure.Worker(client, queue="default", workflows=[no_arguments, counts], activities=[charge]):
            assert await with_arguments.result(timeout=30) == 0
            assert await handle.result(timeout=30) == "secret-receipt 1 secret"


async def test_failures_are_told_to_who_has_the_key(house) -> None:
    """The workflow's own exception, with its message; who has none learns its class."""
    async with house(fails, codec=CODEC, replays=False) as app:
        handle = await app.client.start(fails())
        with pytest.raises(WorkflowFailed, match="secret-end"):
            await handle.result()
        blind = perdure.Client(app.frontend, app.client._chance)
        with pytest.raises(WorkflowFailed, match=r"Declined: \(encoded\)"):
            await blind.handle(handle.id).result()


async def test_a_codec_may_be_introduced_and_keys_rotated_under_open_runs(house, t) -> None:
    """What lies there in clear is read; what an old key encrypted too."""
    async with house(two_words, replays=False) as app:
        handle = await app.client.start(two_words("clear"), id="rotated")
        await t.decided(app, handle)
    async with house(two_words, replays=False, codec=AesGcm({"old": OTHER})) as app:
        await app.client.handle("rotated").signal("word", "one")
        await t.decided(app, app.client.handle("rotated"))
    async with house(two_words, replays=False, codec=AesGcm({"old": OTHER, "new": KEY})) as app:
        await app.client.handle("rotated").signal("word", "two")
        assert await app.client.handle("rotated").result() == ["clear", "one", "two"]


@workflow
async def two_words(first: str) -> list[str]:
    return [first, await workflow.receive("word", str), await workflow.receive("word", str)]


class Failing:
    """Cannot encode what holds a certain word."""

    def encode(self, data: bytes) -> bytes:
        if b"unspeakable" in data and self.broken:
            raise OSError("no key service")
        return data[::-1]

    def decode(self, data: bytes) -> bytes:
        return data[::-1]

    def __init__(self) -> None:
        self.broken = True


@activity(retry=Retry(initial=0.001, jitter=0))
async def speaks(key: str) -> str:
    return "unspeakable"


@workflow
async def listens() -> int:
    return len(await speaks("x"))


@workflow
async def asks_for_it() -> int:
    return len(await says("unspeakable"))


@activity
async def says(word: str) -> str:
    return word[:3]


async def test_what_cannot_be_encoded_fails_where_it_was_made(house, t) -> None:
    """A client hears it, an attempt has failed, a run waits; when the codec works again all goes on."""
    codec = Failing()
    async with house(listens, speaks, asks_for_it, says, codec=codec, replays=False) as app:
        with pytest.raises(CodecError, match="Failing: OSError: no key service"):
            await app.client.start("listens", "unspeakable")
        handle = await app.client.start(listens())
        assert (await t.recorded(app, handle, "attempt_failed")).failure.type == "CodecError"
        waiting = await app.client.start(asks_for_it())
        await t.until(app, lambda: _released(app, waiting))
        codec.broken = False
        assert await handle.result() == 11
        assert await waiting.result(timeout=30) == 3


@workflow
async def asks_after_a_fact(first: bool) -> list[str]:
    word = await says("fine")
    said = await asyncio.gather(*(says(text) for text in (["unspeakable", "and"] if first else ["and", "unspeakable"])))
    return [word, *said]


@pytest.mark.parametrize("first", [True, False], ids=["in an earlier part", "in the last part"])
async def test_a_fact_beside_what_cannot_be_encoded_is_told_all_the_same(house, t, first, caplog) -> None:
    """A decision in parts, one of which cannot be encoded: the result it began with is kept, and the activity is not run again."""
    codec = Failing()
    async with house(asks_after_a_fact, says, codec=codec, replays=False) as app:
        app.worker.decider.commands_max = 1
        handle = await app.client.start(asks_after_a_fact(first))
        await t.recorded(app, handle, "activity_completed")
        await t.until(app, lambda: _warned(caplog))
        codec.broken = False
        result = ["fin", "uns", "and"] if first else ["fin", "and", "uns"]
        assert await handle.result(timeout=30) == result
        assert len([e for e in await handle.history() if e.type == "activity_scheduled"]) == 3


async def _warned(caplog: pytest.LogCaptureFixture) -> bool:
    return "cannot be reported" in caplog.text


async def test_a_reset_run_is_encoded_as_the_first_one_was(house) -> None:
    """It waits for a worker with the codec too: who lacks it must not take it for a run in clear."""
    async with house(no_arguments, charge, codec=CODEC, replays=False) as app:
        handle = await app.client.start(no_arguments())
        await handle.result()
        again = await handle.reset(1)
        started = (await app.frontend.record("default", again.id)).events[0]
        assert started.run_id == again.run_id
        assert bytes(started.encoded).startswith(b'{"perdure/encoded"')
        assert await again.result() == "secret-receipt 1 secret"


async def _released(app: Any, handle: Any) -> bool:
    run = app.frontend.find("default", handle.id).state.run
    return run.claim is None and run.length == 1


async def test_in_the_testing_environment() -> None:
    """The same option there."""
    async with environment(codec=AesGcm({"k": KEY})) as env:
        env.register(counts)
        assert await env.client.execute(counts(2)) == 0


@workflow
class Cart:
    def __init__(self) -> None:
        self.items: list[str] = []

    @workflow.run
    async def run(self, user: str) -> list[str]:
        await workflow.receive("done")
        return self.items

    @workflow.query
    def first(self, prefix: str) -> str:
        return prefix + self.items[0]

    @workflow.update
    async def add(self, item: str) -> str:
        self.items.append(item)
        return f"secret-{item}"

    @add.validator
    def _check(self, item: str) -> None:
        if not item.startswith("secret"):
            raise ValueError(f"secret refusal of {item}")


async def test_queries_and_updates_are_encoded_too(any_house, t) -> None:
    """Arguments and answers of both, refusals of validators; whoever asks without the codec gets what is there."""
    async with any_house(Cart, codec=CODEC, replays=False) as app:
        handle = await app.client.start(Cart.run("secret-user"))
        assert await handle.update(Cart.add("secret-tea")) == "secret-secret-tea"
        with pytest.raises(ValueError, match="secret refusal of milk"):
            await handle.update(Cart.add("milk"))
        assert await handle.query(Cart.first("a ")) == "a secret-tea"
        blind = perdure.Client(app.frontend, app.client._chance)
        assert list(await blind.handle(handle.id).query("first", "a ")) == ["perdure/encoded"]
        await handle.signal("done")
        assert await handle.result() == ["secret-tea"]
        assert await handle.query(Cart.first("b ")) == "b secret-tea"
    assert b"secret" not in written(any_house.data)


async def test_an_exported_history_replays_for_who_has_the_codec(house) -> None:
    """Strictly: what is compared is decoded. Without the codec nothing is guessed."""
    async with house(no_arguments, charge, codec=CODEC, replays=False) as app:
        handle = await app.client.start(no_arguments())
        await handle.result()
        events = (await app.frontend.record("default", handle.id)).events
        with pytest.raises(Mismatch, match="encoded"):
            replay_history(no_arguments, events)
        replay_history(no_arguments, decoded(events, CODEC), strict=True).close()
