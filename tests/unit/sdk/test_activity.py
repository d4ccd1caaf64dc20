"""Activities: decorating, options, methods, what a workflow schedules and what it gets back; the verbs of a running activity."""

import asyncio
import functools
import inspect
import threading
from contextvars import ContextVar
from dataclasses import dataclass

import msgspec
import pytest

from perdure.core.commands import ScheduleActivity
from perdure.core.errors import ActivityError, ApplicationError, InvalidArgument, OutsideContext
from perdure.core.events import ActivityCancelled, ActivityFailed, ActivityTimedOut
from perdure.core.failure import Failure
from perdure.core.payload import ABSENT
from perdure.core.retry import RetryPolicy
from perdure.sdk.activity import activity
from perdure.sdk.context import activity_context
from perdure.sdk.failures import to_failure
from perdure.sdk.options import Retry


@dataclass
class Order:
    id: str
    cents: int


class Declined(Exception):
    pass


@activity(retry=Retry(max_attempts=5), start_to_close=30)
async def charge(order: Order) -> str:
    """Take the money."""
    return f"paid {order.cents}"


@activity
def print_label(order_id: str, *, express: bool = False) -> bytes:
    return f"{order_id} {express} {threading.current_thread() is threading.main_thread()}".encode()


class Payments:
    def __init__(self, shop: str) -> None:
        self.shop = shop

    @activity(name="take", queue="bank")
    async def charge(self, cents: int, *, note: str = "") -> str:
        return f"{self.shop}:{cents}:{note}"

    @activity
    def refund(self, cents: int) -> int:
        return -cents

    @staticmethod
    @activity
    async def ping() -> str:
        return "pong"

    borrowed = charge_elsewhere = print_label


def payload(value):
    return msgspec.Raw(msgspec.json.encode(value))


# ------------------------------------------------------------------------------------------------------------------- decorating


def test_an_activity_looks_like_its_function():
    """Name, docstring and signature are the function's; `fn` is the function itself."""
    assert charge.name == charge.__name__ == "charge"
    assert charge.__doc__ == "Take the money."
    assert list(inspect.signature(charge).parameters) == ["order"]
    assert asyncio.run(charge.fn(Order("1", 3))) == "paid 3"
    assert (charge.is_async, print_label.is_async) == (True, False)
    assert repr(charge) == "<activity charge>"


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 256, 3])
def test_names_are_checked(name):
    """A type name is an id like any other."""
    with pytest.raises(InvalidArgument, match="activity name"):
        activity(name=name)(lambda: None)


def not_activities():
    async def stream():
        yield 1

    return [3, None, Order, staticmethod(print), classmethod(print), charge, lambda: (yield), stream, functools.partial(print)]


@pytest.mark.parametrize("thing", not_activities(), ids=lambda thing: type(thing).__name__)
def test_what_cannot_be_an_activity(thing):
    """Values, classes, generators and wrapped methods are refused where they are decorated."""
    with pytest.raises(InvalidArgument):
        activity()(thing)


def test_options_are_checked_at_decoration():
    """Wrong options do not wait for a run."""
    with pytest.raises(InvalidArgument, match="start_to_close"):
        activity(start_to_close=-1)
    with pytest.raises(InvalidArgument, match="process must be True or False"):
        activity(process="yes")
    with pytest.raises(TypeError, match="retries"):
        activity(retries=3)  # type: ignore[call-overload]
    with pytest.raises(InvalidArgument, match="queue"):
        charge.options(queue="")
    with pytest.raises(TypeError, match="name"):
        charge.options(name="other")  # type: ignore[call-arg]


# ----------------------------------------------------------------------------------------------------------- outside a workflow


def test_sync_activities_run_on_a_thread_with_their_context():
    """Outside a workflow a sync function leaves the loop free and sees the caller's context variables."""
    who: ContextVar[str] = ContextVar("who")

    @activity
    def ask() -> str:
        return who.get()

    async def main():
        who.set("me")
        return await print_label("o", express=True), await ask()

    assert asyncio.run(main()) == (b"o True False", "me")


def test_a_plain_function_may_hand_out_a_coroutine():
    """A decorator around an async function that is itself plain makes no difference."""

    @activity
    @functools.wraps(charge.fn)
    def wrapper(*args, **kwargs):
        return charge.fn(*args, **kwargs)

    async def main():
        return await wrapper(Order("1", 3))

    assert asyncio.run(main()) == "paid 3"


def test_methods_bind():
    """On an instance a method runs with it, under its own name and options; `fn` is bound too."""

    async def main():
        shop = Payments("s1")
        assert shop.charge.name == "take"
        assert shop.charge.fn.__self__ is shop
        assert list(inspect.signature(shop.charge).parameters) == ["cents", "note"]
        return await shop.charge(3, note="n"), await shop.refund(2), await shop.ping(), await shop.borrowed("b")

    assert asyncio.run(main()) == ("s1:3:n", -2, "pong", b"b False False")


def test_a_method_without_its_instance_cannot_run():
    """Outside a workflow there is nothing to run it on, and the error says so."""

    async def main():
        with pytest.raises(InvalidArgument, match=r"Payments\.charge is a method"):
            await Payments.charge(3)

    asyncio.run(main())


# ------------------------------------------------------------------------------------------------------------ inside a workflow


def test_a_call_becomes_a_command(scripted):
    """Arguments by the signature, options as they were set, `at` of the input being fed; the result by the return hint."""
    scripted.complete("paid")
    assert scripted.run(charge(Order("1", 3))) == "paid"
    assert scripted.scheduled == [
        ScheduleActivity(
            at=7,
            name="charge",
            input=(payload({"id": "1", "cents": 3}),),
            retry=RetryPolicy(max_attempts=5),
            start_to_close=30_000_000,
        )
    ]


def test_keywords_travel_by_name_and_results_by_hint(scripted):
    """Keyword-only arguments are told apart; bytes come back as bytes."""
    scripted.complete("aGk=")
    assert scripted.run(print_label("o", express=True)) == b"hi"
    (command,) = scripted.scheduled
    assert command.input == (payload("o"),)
    assert command.keywords == {"express": payload(True)}


def test_options_override_per_call(scripted):
    """Only what is named changes, the original stays as it was, and options may be laid over options."""
    quick = charge.options(start_to_close=None, queue="fast", summary="now")
    for _ in range(3):
        scripted.complete("x")

    async def code():
        await quick(Order("1", 1))
        await quick.options(retry=Retry(max_attempts=1))(Order("1", 1))
        await charge(Order("1", 1))

    scripted.run(code())
    first, second, third = scripted.scheduled
    assert (first.start_to_close, first.queue, first.summary, first.retry.max_attempts) == (0, "fast", "now", 5)
    assert (second.queue, second.retry.max_attempts) == ("fast", 1)
    assert (third.start_to_close, third.queue) == (30_000_000, "")


@pytest.mark.parametrize(
    "make", [lambda: Payments("s").charge(3, note="n"), lambda: Payments.charge(3, note="n")], ids=["bound", "class"]
)
def test_methods_are_scheduled_without_self(scripted, make):
    """From workflow code a method is scheduled by name, on an instance or on the class; the worker's own instance runs it."""
    scripted.complete("ok")
    assert scripted.run(make()) == "ok"
    (command,) = scripted.scheduled
    assert (command.name, command.queue, command.input, command.keywords) == (
        "take",
        "bank",
        (payload(3),),
        {"note": payload("n")},
    )


def test_calls_in_tasks_are_durable_too(scripted):
    """gather, groups and wait_for inside a workflow schedule in the order the calls were given."""
    for text in "abcd":
        scripted.complete(text)

    async def code():
        got = await asyncio.gather(charge(Order("1", 1)), charge(Order("2", 2)))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(charge(Order("3", 3)))
        return [*got, task.result(), await asyncio.wait_for(charge(Order("4", 4)), 5)]

    assert scripted.run(code()) == ["a", "b", "c", "d"]
    assert [bytes(command.input[0]) for command in scripted.scheduled] == [
        b'{"id":"%d","cents":%d}' % (n, n) for n in (1, 2, 3, 4)
    ]


def test_wrong_arguments_are_not_scheduled(scripted):
    """Neither what the signature refuses nor what cannot be encoded becomes a command; the path is named."""
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        scripted.run(charge())  # type: ignore[call-arg]
    with pytest.raises(InvalidArgument, match=r"charge\(order\)"):
        scripted.run(charge(object()))  # type: ignore[arg-type]
    assert scripted.scheduled == []


def test_a_failed_activity_raises_its_own_error(scripted):
    """The activity's exception, caused by an ActivityError, behind which its own chain goes on."""
    own = Declined("no funds")
    own.__cause__ = ValueError("limit")
    scripted.answers.append(ActivityFailed(id=9, time=0, command=8, failure=to_failure(own), attempt=5))
    with pytest.raises(Declined, match="no funds") as caught:
        scripted.run(charge(Order("1", 1)))
    reason = caught.value.__cause__
    assert isinstance(reason, ActivityError)
    assert (reason.name, reason.attempts, reason.kind) == ("charge", 5, "error")
    assert isinstance(reason.__cause__, ValueError)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit()], ids=repr)
def test_an_activity_cannot_stop_the_loop_of_its_workflow(scripted, error):
    """Exceptions that mean something to an event loop arrive as ordinary ones that name them."""
    scripted.answers.append(ActivityFailed(id=9, time=0, command=8, failure=to_failure(error)))
    with pytest.raises(ApplicationError) as caught:
        scripted.run(charge(Order("1", 1)))
    assert caught.value.type == type(error).__name__


@pytest.mark.parametrize("kind", ["start_to_close", "schedule_to_start", "schedule_to_close", "heartbeat", "lost"])
def test_timeouts_and_lost_workers(scripted, kind):
    """They raise the ActivityError itself; the last attempt's error, if any, is its cause."""
    last = to_failure(Declined("try again"))
    scripted.answers.append(ActivityTimedOut(id=9, time=0, command=8, kind=kind, attempt=2, failure=last))
    with pytest.raises(ActivityError, match="after 2 attempts") as caught:
        scripted.run(charge(Order("1", 1)))
    assert (caught.value.name, caught.value.attempts, caught.value.kind) == ("charge", 2, kind)
    assert isinstance(caught.value.__cause__, Declined)


def test_a_failure_that_is_no_exception_of_the_activity(scripted):
    """Attempts that ran out because workers were lost are no error of the activity's code."""
    scripted.answers.append(
        ActivityFailed(id=9, time=0, command=8, failure=Failure(type="ActivityError", kind="lost"), attempt=1)
    )
    with pytest.raises(ActivityError, match=r"charge lost its worker after 1 attempt$") as caught:
        scripted.run(charge(Order("1", 1)))
    assert (caught.value.kind, caught.value.__cause__) == ("lost", None)


def test_a_cancelled_activity_raises_cancelled_error(scripted):
    """What was cancelled on request looks cancelled."""
    scripted.answers.append(ActivityCancelled(id=9, time=0, command=8))
    with pytest.raises(asyncio.CancelledError):
        scripted.run(charge(Order("1", 1)))


def test_a_result_that_does_not_fit_its_hint(scripted):
    """Says which activity's result it was."""
    scripted.complete(3)
    with pytest.raises(InvalidArgument, match="charge"):
        scripted.run(charge(Order("1", 1)))


# ----------------------------------------------------------------------------------------------------------------- running verbs


class Attempt:
    workflow_id = "order-1"
    run_id = "run-1"
    activity_id = 8
    attempt = 3
    queue = "default"
    name = "charge"
    idempotency_key = "key"
    heartbeat_details = ABSENT
    task_token = "token"
    deadline: int | None = None

    def __init__(self) -> None:
        self.beats: list[bytes] = []

    def heartbeat(self, details) -> None:
        self.beats.append(bytes(details))

    def is_cancelled(self) -> bool:
        return True

    def is_stopping(self) -> bool:
        return False


@pytest.fixture
def attempt():
    context = Attempt()
    token = activity_context.set(context)
    yield context
    activity_context.reset(token)


def test_the_verbs_of_a_running_activity(attempt):
    """They reach the attempt that is running, whichever it is."""
    activity.heartbeat("row", 3)
    activity.heartbeat()
    assert attempt.beats == [b'["row",3]', b"[]"]
    assert activity.is_cancelled() is True
    assert activity.is_stopping() is False


def test_info(attempt):
    """Ids and counts as they are, details as a tuple, the deadline as an aware instant."""
    info = activity.info()
    assert (info.workflow_id, info.run_id, info.activity_id, info.name) == ("order-1", "run-1", 8, "charge")
    assert (info.attempt, info.queue, info.idempotency_key, info.task_token) == (3, "default", "key", "token")
    assert (info.heartbeat_details, info.deadline) == ((), None)
    attempt.heartbeat_details = payload(["row", 3])
    attempt.deadline = 1_700_000_000_000_000
    info = activity.info()
    assert info.heartbeat_details == ("row", 3)
    assert info.deadline.isoformat() == "2023-11-14T22:13:20+00:00"


def test_heartbeats_must_be_payloads(attempt):
    """What cannot be remembered is refused at the call."""
    with pytest.raises(InvalidArgument, match="heartbeat"):
        activity.heartbeat(object())


def test_verbs_outside_an_activity():
    """They say where they belong."""
    for verb in (activity.info, activity.heartbeat, activity.is_cancelled, activity.is_stopping):
        with pytest.raises(OutsideContext, match="in an activity"):
            verb()


def test_the_logger_knows_the_attempt(attempt, caplog):
    """Its records carry the ids beside what the caller adds; outside an activity it is an ordinary logger."""
    activity.logger.warning("slow %s", "bank", extra={"bank": "b"})
    activity_context.set(None)
    activity.logger.warning("outside")
    inside, outside = caplog.records
    assert (inside.getMessage(), inside.funcName) == ("slow bank", "test_the_logger_knows_the_attempt")
    assert (inside.workflow_id, inside.run_id, inside.activity, inside.attempt, inside.bank) == (
        "order-1",
        "run-1",
        "charge",
        3,
        "b",
    )
    assert not hasattr(outside, "workflow_id")
