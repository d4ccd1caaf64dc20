"""Activities through the public door: kinds of functions, retries, the four timeouts, heartbeats, and what their workflow is told."""

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from perdure import Retry, activity, workflow
from perdure.errors import ActivityError, ApplicationError, InvalidArgument, WorkflowFailed

SWIFT = Retry(initial=0.001, jitter=0)

# What activities of this process share with their tests; each test takes keys of its own.
GATES: dict[str, asyncio.Event] = {}
SEEN: dict[str, list[Any]] = {}


def note(key: str, value: Any) -> int:
    SEEN.setdefault(key, []).append(value)
    return len(SEEN[key])


@activity
async def plain(a: int, b: int = 2, *, c: int = 3) -> list[int]:
    return [a, b, c]


@activity
def threaded(word: str) -> list[Any]:
    return [word, threading.current_thread() is threading.main_thread(), activity.info().attempt]


class Shop:
    def __init__(self, name: str) -> None:
        self.name = name

    @activity
    async def sell(self, item: str) -> str:
        return f"{self.name} sells {item}"

    @activity(name="till")
    def take(self, cents: int) -> str:
        return f"{self.name} takes {cents}"


@workflow
async def every_kind() -> list[Any]:
    return [
        await plain(1),
        await plain(1, b=5, c=6),
        await threaded("thread"),
        await Shop.sell("tea"),
        await Shop.take(250),
    ]


async def test_functions_threads_and_methods(any_house) -> None:
    """Async functions run on the loop, sync ones on threads, methods on the registered instance; defaults and keywords arrive."""
    async with any_house(every_kind, plain, threaded, Shop("Ada")) as app:
        assert await app.client.execute(every_kind()) == [
            [1, 2, 3],
            [1, 5, 6],
            ["thread", False, 1],
            "Ada sells tea",
            "Ada takes 250",
        ]


async def test_outside_a_workflow_a_call_just_runs() -> None:
    """Awaited elsewhere, the function runs here; sync ones on a thread."""
    assert await plain(7) == [7, 2, 3]
    assert await Shop("Bo").sell("figs") == "Bo sells figs"


# ----------------------------------------------------------------------------------------------------------------- information


@activity(start_to_close=20)
async def tell(key: str) -> list[Any]:
    info = activity.info()
    return [
        info.workflow_id,
        info.run_id,
        info.activity_id,
        info.attempt,
        info.queue,
        info.idempotency_key,
        list(info.heartbeat_details),
    ]


@workflow
async def keys() -> list[list[Any]]:
    first, second = await asyncio.gather(tell("a"), tell("b"))
    third = await tell.options(idempotency_key="mine", summary="the third")("c")
    return [first, second, third]


@pytest.mark.rule("O23")
async def test_every_attempt_knows_its_key(any_house) -> None:
    """Idempotency keys differ per call, are stable over modes, and can be given."""
    async with any_house(keys, tell) as app:
        handle = await app.client.start(keys(), id="keyed")
        first, second, third = await handle.result()
        assert first[0] == "keyed"
        assert first[4] == "default"
        assert first[5] != second[5]
        assert third[5] == "mine"
        scheduled = [entry for entry in await handle.history() if entry.type == "activity_scheduled"]
        assert [entry.id for entry in scheduled] == [first[2], second[2], third[2]]
        assert scheduled[2].summary == "the third"


# --------------------------------------------------------------------------------------------------------------------- retries


@activity(retry=SWIFT)
async def flaky(key: str, failures: int) -> int:
    tried = note(key, activity.info().idempotency_key)
    if tried <= failures:
        raise RuntimeError(f"failure {tried}")
    return tried


@workflow
async def patient(key: str, failures: int) -> int:
    return await flaky(key, failures)


@pytest.mark.rule("F17")
async def test_failures_are_retried_under_the_same_key(any_house) -> None:
    """Attempts follow until one succeeds, all with one idempotency key; failures are notes, not events."""
    key = f"flaky-{any_house.mode}"
    async with any_house(patient, flaky) as app:
        handle = await app.client.start(patient(key, 3))
        assert await handle.result() == 4
        assert len(set(SEEN[key])) == 1
        entries = await handle.history(notes=True)
        failed = [entry for entry in entries if entry.type == "attempt_failed"]
        assert [entry.attempt for entry in failed] == [1, 2, 3]
        assert [entry.failure.message for entry in failed] == ["failure 1", "failure 2", "failure 3"]
        assert [e.type for e in entries if not e.is_note] == [
            "started",
            "activity_scheduled",
            "activity_completed",
            "completed",
        ]
        assert next(e for e in entries if e.type == "activity_completed").attempt == 4


@workflow
async def impatient(key: str) -> None:
    await flaky.options(retry=Retry(initial=0.001, max_attempts=3))(key, 100)


async def test_the_last_failure_is_raised_as_itself(house) -> None:
    """Out of attempts: the activity's own exception, with an ActivityError that counts them as its cause."""
    async with house(impatient, flaky) as app:
        with pytest.raises(WorkflowFailed) as caught:
            await app.client.execute(impatient("impatient"))
        error = caught.value.__cause__
        assert type(error) is RuntimeError
        assert str(error) == "failure 3"
        assert isinstance(error.__cause__, ActivityError)
        assert (error.__cause__.name, error.__cause__.attempts, error.__cause__.kind) == ("flaky", 3, "error")
        assert len(SEEN["impatient"]) == 3


class Refused(Exception):
    pass


class CardRefused(Refused):
    pass


@activity(retry=SWIFT)
async def refuse(key: str, how: str) -> None:
    note(key, how)
    if how == "class":
        raise Refused(how)
    if how == "subclass":
        raise CardRefused(how)
    if how == "cause":
        raise RuntimeError("wrapped") from CardRefused("deep")
    if how == "flag":
        raise ApplicationError("flagged", non_retryable=True)
    if how == "flagged cause":
        raise RuntimeError("outer") from ApplicationError("inner", non_retryable=True)
    if how == "type":
        raise ApplicationError("typed", type="NoMoney")
    raise AssertionError(how)


@workflow
async def refused(key: str, how: str) -> str:
    retry = Retry(initial=0.001, non_retryable=(Refused, "NoMoney"))
    try:
        await refuse.options(retry=retry)(key, how)
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}"
    return "went through"


@pytest.mark.parametrize(
    ("how", "raised"),
    [
        ("class", "Refused: class"),
        ("subclass", "CardRefused: subclass"),
        ("cause", "RuntimeError: wrapped"),
        ("flag", "ApplicationError: flagged"),
        ("flagged cause", "RuntimeError: outer"),
        ("type", "ApplicationError: typed"),
    ],
)
async def test_what_is_not_worth_another_attempt(house, how: str, raised: str) -> None:
    """Named classes, their subclasses, given type names, the flag, and all of these anywhere in the cause chain end it at once."""
    key = f"refused {how}"
    async with house(refused, refuse) as app:
        assert await app.client.execute(refused(key, how)) == raised
        assert SEEN[key] == [how]


@activity(retry=Retry(initial=60))
async def says_when(key: str) -> str:
    if note(key, 0) == 1:
        raise ApplicationError("soon", next_retry_delay=timedelta(milliseconds=1))
    return "second"


@workflow
async def asks_when(key: str) -> str:
    return await says_when(key)


async def test_an_error_can_say_when_to_try_again(house) -> None:
    """next_retry_delay replaces the policy's delay (a minute here)."""
    async with house(asks_when, says_when) as app:
        async with asyncio.timeout(20):
            assert await app.client.execute(asks_when("says-when")) == "second"


@pytest.mark.scenario(68)
async def test_a_retry_is_never_early(house) -> None:
    """The claim of an attempt is not older than the failed one's note said it could be."""
    async with house(patient, flaky) as app:
        handle = await app.client.start(patient("never-early", 4))
        await handle.result()
        entries = await handle.history(notes=True)
        due = {entry.attempt + 1: entry.retry_at for entry in entries if entry.type == "attempt_failed"}
        claimed = {entry.attempt: entry._entry.time for entry in entries if entry.type == "activity_claimed"}
        assert set(due) == {2, 3, 4, 5}
        assert all(claimed[n] >= due[n] for n in due if n in claimed)


# -------------------------------------------------------------------------------------------------------------------- timeouts


@activity
async def stuck(key: str) -> str:
    if note(key, activity.info().attempt) > 1:
        return "at last"
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        note(f"{key} cancelled", activity.is_cancelled())
        raise
    return "never"


@workflow
async def bounded(key: str, bound: str, attempts: int) -> str:
    options: dict[str, Any] = {bound: 0.05, "retry": Retry(initial=0.001, max_attempts=attempts)}
    try:
        return await stuck.options(**options)(key)
    except ActivityError as error:
        return f"{error.kind} {error.attempts}"


@pytest.mark.parametrize(
    ("bound", "attempts", "answer"),
    [
        ("start_to_close", 1, "start_to_close 1"),
        ("start_to_close", 0, "at last"),
        ("schedule_to_close", 0, "schedule_to_close 1"),
        ("heartbeat", 1, "heartbeat 1"),
        ("heartbeat", 0, "at last"),
    ],
)
async def test_timeouts_of_attempts(any_house, bound: str, attempts: int, answer: str) -> None:
    """A passed bound ends the attempt (schedule-to-close the activity), stops the function, and is told as ActivityError of that kind."""
    key = f"{bound}-{attempts}-{any_house.mode}"
    async with any_house(bounded, stuck) as app:
        assert await app.client.execute(bounded(key, bound, attempts)) == answer
    assert SEEN[f"{key} cancelled"] == [True]


@workflow
async def waits_for_worker() -> str:
    try:
        return await stuck.options(queue="nobody", schedule_to_start=0.05)("unstarted")
    except ActivityError as error:
        return f"{error.kind} {error.attempts}"


async def test_schedule_to_start(any_house) -> None:
    """Nobody serves the queue: the bound on waiting ends it; it never ran."""
    async with any_house(waits_for_worker, stuck) as app:
        assert (await app.client.execute(waits_for_worker())).startswith("schedule_to_start")
    assert "unstarted" not in SEEN


# ------------------------------------------------------------------------------------------------------------------ heartbeats


@activity(heartbeat=20, retry=SWIFT)
async def remembers(key: str) -> list[Any]:
    before = list(activity.info().heartbeat_details)
    note(key, before)
    if not before:
        activity.heartbeat("page", 7)
        raise RuntimeError("stopped half way")
    return before


@activity(heartbeat=20, retry=SWIFT)
def remembers_on_thread(key: str) -> list[Any]:
    before = list(activity.info().heartbeat_details)
    if not before:
        activity.heartbeat({"page": 8})
        raise RuntimeError("stopped half way")
    return before


@workflow
async def resumes(key: str) -> list[Any]:
    return [await remembers(key), await remembers_on_thread(key)]


async def test_the_next_attempt_sees_the_last_heartbeat(any_house) -> None:
    """Details given to heartbeat, even right before the failure, reach the next attempt."""
    key = f"remembers-{any_house.mode}"
    async with any_house(resumes, remembers, remembers_on_thread) as app:
        assert await app.client.execute(resumes(key)) == [["page", 7], [{"page": 8}]]


@activity(heartbeat=0.3, retry=Retry(max_attempts=1))
async def beats(times: int) -> str:
    for n in range(times):
        activity.heartbeat(n)
        await asyncio.sleep(0.05)
    return "alive"


@workflow
async def kept_alive() -> str:
    return await beats(12)


async def test_heartbeats_keep_an_attempt_alive(house) -> None:
    """An attempt twice as long as its heartbeat timeout goes on while it beats."""
    async with house(kept_alive, beats) as app:
        assert await app.client.execute(kept_alive()) == "alive"


# ---------------------------------------------------------------------------------------------------------------------- unknown


@workflow
async def uses_unknown() -> int:
    return await known_later(20)


@activity
async def known_later(n: int) -> int:
    return n + 1


@workflow
async def known_late() -> str:
    return "known"


async def test_unknown_code_waits_until_it_is_registered(house, t) -> None:
    """An activity or workflow type no worker knows stays open, is no failure, and goes on once registered."""
    async with house(uses_unknown) as app:
        waiting = await app.client.start(uses_unknown())
        unknown = await app.client.start("known_late")
        description = await waiting.describe()
        assert description.status == "running"
        with pytest.raises(TimeoutError):
            await unknown.result(timeout=0.05)
        assert (await unknown.describe()).pending[0].kind == "decision"
        app.register(known_later, known_late)
        assert await waiting.result() == 21
        assert await unknown.result() == "known"
        assert "attempt_failed" not in await t.types(waiting, notes=True)


# ------------------------------------------------------------------------------------------------------------ what cannot travel


def test_options_are_checked_where_they_are_written() -> None:
    """Out of bounds is an InvalidArgument at once."""
    with pytest.raises(InvalidArgument):
        plain.options(start_to_close=-1)
    with pytest.raises(InvalidArgument):
        Retry(max_attempts=-1)


async def test_log_lines_about_an_attempt_carry_its_ids(any_house, caplog: pytest.LogCaptureFixture) -> None:
    """As fields of the record, for logs that programs read."""

    @activity(retry=Retry(max_attempts=1))
    async def breaks() -> None:
        raise ValueError("no")

    @workflow
    async def tries() -> None:
        await breaks()

    async with any_house() as app:
        app.register(tries, breaks)
        handle = await app.client.start(tries(), id="ids")
        with pytest.raises(WorkflowFailed):
            await handle.result()
    (record,) = [record for record in caplog.records if "failed at attempt" in record.getMessage()]
    told = {name: getattr(record, name) for name in ("workflow_id", "run_id", "activity", "attempt")}
    assert told == {"workflow_id": "ids", "run_id": handle.run_id, "activity": "breaks", "attempt": 1}
