"""An exception becomes data whatever its class does, and comes back as itself when it can."""

import asyncio
import json as stdlib_json
import sys
import traceback
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from types import ModuleType
from typing import Any, NoReturn, Self

import attrs
import msgspec
import pytest

from perdure.core import errors
from perdure.core.errors import ActivityError, ApplicationError, ChildWorkflowError, PayloadTooLarge, ResourceExhausted
from perdure.core.failure import Failure
from perdure.sdk.failures import FAILURE_BYTES_MAX, to_exception, to_failure


class Declined(Exception):
    def __init__(self, code: int, reason: str, when: datetime) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code
        self.when = when


class DeclinedForGood(Declined):
    pass


@dataclass
class Refused(Exception):
    order: uuid.UUID
    left: int = 0


@attrs.define
class Lost(Exception):
    _where: str
    place: tuple[int, int]


class Slotted(Exception):
    __slots__ = ("extra",)
    extra: set[int]


class OwnKind(ApplicationError):
    def __init__(self, shop: str) -> None:
        super().__init__(f"{shop} is closed", non_retryable=True, next_retry_delay=2.5)
        self.shop = shop


class Shy(Exception):
    """Its text needs what does not travel."""

    def __init__(self) -> None:
        super().__init__()
        self.secret = object()

    def __str__(self) -> str:
        return repr(self.secret)


class Hostile(Exception):
    def __getattribute__(self, name: str) -> NoReturn:
        raise SystemExit(name)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise SystemExit(name)

    def __str__(self) -> NoReturn:
        raise GeneratorExit

    __repr__ = __str__


class Picky(Exception):
    def __new__(cls, *args: object) -> Self:
        if sys._getframe(1).f_globals["__name__"] != __name__:
            raise OSError("not here")
        return super().__new__(cls, *args)


def raised(exc: BaseException) -> BaseException:
    """The exception with a traceback, as an `except` clause has it."""
    try:
        raise exc  # noqa: TRY301  that is all there is to it
    except BaseException as caught:  # noqa: BLE001  any exception may travel
        return caught


def caught(run: Callable[[], object]) -> BaseException:
    try:
        run()
    except BaseException as exc:  # noqa: BLE001  any exception may travel
        return exc
    raise AssertionError("nothing was raised")


def travelled(exc: BaseException) -> BaseException:
    """There and back, over JSON."""
    return to_exception(msgspec.json.decode(msgspec.json.encode(to_failure(exc)), type=Failure))


SAME_CLASS: list[BaseException] = [
    Declined(5, "no", datetime(2026, 1, 1, tzinfo=UTC)),
    Refused(uuid.UUID(int=3), 2),
    Lost("here", (1, 2)),
    OwnKind("the shop"),
    Picky("x"),
    ValueError("x", 1, None),
    KeyError("k"),
    TimeoutError(),
    FileNotFoundError(2, "No such file", "/x"),
    caught(lambda: b"\xff".decode()),  # noqa: PLW0108  a call that raises is the point
    caught(lambda: stdlib_json.loads("{")),
    ImportError("gone", name="gone", path="/gone.py"),
    StopIteration(4),
    ApplicationError("m", type="Rare", details={"a": [1]}, non_retryable=True, next_retry_delay=1.5),
    ApplicationError("m"),
    ActivityError("m", name="charge", attempts=3, kind="lost"),
    ChildWorkflowError("m", name="fulfil", attempts=1, kind="cancelled"),
    ResourceExhausted("m", retry_after=3.5),
    errors.WorkflowAlreadyStarted("m", run_id="r"),
]


@pytest.mark.parametrize("exc", SAME_CLASS, ids=[type(exc).__name__ for exc in SAME_CLASS])
def test_the_same_exception_comes_back(exc: BaseException) -> None:
    """Class, arguments, text and fields survive, whatever the class's `__init__` takes."""
    back = travelled(raised(exc))
    assert type(back) is type(exc)
    assert back.args == exc.args
    assert str(back) == str(exc)
    assert {name: part for name, part in vars(back).items() if not name.startswith("__")} == vars(exc)
    for name in ("filename", "name", "path", "object", "start", "value", "_where", "place"):
        assert getattr(back, name, None) == getattr(exc, name, None)


def test_slots_travel() -> None:
    """Fields kept in slots come back by their hints."""
    exc = Slotted("x")
    exc.extra = {1, 2}
    assert travelled(exc).extra == {1, 2}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "exc", [getattr(errors, error.__name__)("m") for error in errors.ERRORS], ids=lambda exc: type(exc).__name__
)
def test_every_error_of_perdure_comes_back(exc: BaseException) -> None:
    """All of the public tree."""
    back = travelled(exc)
    assert (type(back), back.args, vars(back)) == (type(exc), exc.args, vars(exc))


def test_fields_of_a_failure() -> None:
    """What the engine and people read: names of the class and its bases, text, details, delay in microseconds."""
    failure = to_failure(raised(DeclinedForGood(5, "no", datetime(2026, 1, 1, tzinfo=UTC))))
    assert (failure.type, failure.bases) == ("DeclinedForGood", ("Declined", "Exception", "BaseException"))
    assert failure.message == "5: no"
    assert "raise exc" in failure.traceback
    named = to_failure(ApplicationError("m", type="Rare", details=[1], next_retry_delay=1.5))
    assert (named.type, named.bases[0], bytes(named.details), named.next_retry_delay) == (
        "Rare",
        "ApplicationError",
        b"[1]",
        1_500_000,
    )
    step = to_failure(ActivityError("m", name="charge", attempts=3, kind="heartbeat"))
    assert (step.name, step.attempts, step.kind) == ("charge", 3, "heartbeat")


def test_non_retryable() -> None:
    """Application errors that say so, their subclasses, and payloads that are too large."""
    assert to_failure(OwnKind("x")).non_retryable
    assert to_failure(PayloadTooLarge("x")).non_retryable
    assert not to_failure(ApplicationError("x")).non_retryable
    wrapped = ValueError("outer")
    wrapped.__cause__ = OwnKind("x")
    assert any(link.non_retryable for link in to_failure(wrapped).chain())


@pytest.mark.scenario(71)
def test_every_link_keeps_its_traceback() -> None:
    """Cause and context chains come back whole, each with its own frames and lines when printed."""

    def innermost() -> NoReturn:
        raise KeyError("k")

    def middle() -> NoReturn:
        try:
            innermost()
        except KeyError as error:
            raise Declined(1, "middle", datetime(2026, 1, 1, tzinfo=UTC)) from error

    def outer() -> NoReturn:
        try:
            middle()
        except Declined:
            raise ValueError("outer")  # noqa: B904  the context is what this is about

    failure = to_failure(caught(outer))
    assert failure.context is not None
    assert failure.context.cause is not None
    assert "in middle" in failure.context.traceback
    assert "in innermost" in failure.context.cause.traceback
    back = travelled(caught(outer))
    assert isinstance(back.__context__, Declined)
    assert isinstance(back.__context__.__cause__, KeyError)
    assert (back.__cause__, back.__suppress_context__, back.__context__.__suppress_context__) == (None, False, True)
    printed = "".join(traceback.format_exception(back))
    for expected in (
        "in outer",
        "in middle",
        "in innermost",
        "direct cause",
        "During handling",
        __file__,
        'raise KeyError("k")',
    ):
        assert expected in printed


def test_raised_again_and_again_the_first_frames_stay() -> None:
    """An exception that travels twice shows where it was first raised, below where it was raised again."""

    def first() -> NoReturn:
        raise ValueError("x")

    once = caught(lambda: raise_it(travelled(caught(first))))
    text = "".join(traceback.format_exception(travelled(once)))
    assert text.index("in raise_it") < text.index("in first")


def raise_it(exc: BaseException) -> NoReturn:
    raise exc


def test_from_none_stays_suppressed() -> None:
    """`raise … from None` prints no context afterwards either."""

    def run() -> NoReturn:
        try:
            raise KeyError("k")  # noqa: TRY301  that is the case
        except KeyError:
            raise ValueError("v") from None

    back = travelled(caught(run))
    assert back.__suppress_context__
    assert "KeyError" not in "".join(traceback.format_exception(back))


def test_notes_travel() -> None:
    """In order and unchanged; nothing is added to them."""
    exc = ValueError("x")
    exc.add_note("one")
    exc.add_note("two")
    assert travelled(raised(exc)).__notes__ == ["one", "two"]
    assert not hasattr(travelled(raised(ValueError("x"))), "__notes__")


def test_groups_are_rebuilt() -> None:
    """With their members, as groups, so that `except*` works on them."""
    group = ExceptionGroup("g", [ValueError(1), ExceptionGroup("h", [Refused(uuid.UUID(int=1))]), Hostile()])
    back = travelled(raised(group))
    assert isinstance(back, ExceptionGroup)
    assert back.message == "g"
    values, rest = back.split(ValueError)
    assert values is not None
    assert rest is not None
    assert isinstance(rest.exceptions[0], ExceptionGroup)
    assert rest.exceptions[0].exceptions == (Refused(uuid.UUID(int=1)),)


# --------------------------------------------------------------------------------------------------------------- cannot be rebuilt


def local() -> BaseException:
    class Local(Exception):
        pass

    return Local("x")


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (local, "Local"),
        (SystemExit, "SystemExit"),
        (KeyboardInterrupt, "KeyboardInterrupt"),
        (GeneratorExit, "GeneratorExit"),
        (asyncio.CancelledError, "CancelledError"),
        (Shy, "Shy"),
        (Hostile, "Hostile"),
    ],
)
def test_otherwise_an_application_error_of_that_type(make: Callable[[], BaseException], name: str) -> None:
    """Unknown classes, classes that end the process or cancel the reader, and such as cannot even be printed."""
    back = travelled(raised(make()))
    assert type(back) is ApplicationError
    assert back.type == name


def test_a_cancelled_error_within_a_chain_keeps_its_class() -> None:
    """There it cancels nobody."""
    exc = TimeoutError("late")
    exc.__cause__ = asyncio.CancelledError()
    assert type(travelled(exc).__cause__) is asyncio.CancelledError


@pytest.mark.parametrize(
    ("module", "qualname"),
    [
        ("antigravity", "Error"),
        ("os", "system"),
        ("builtins", "int"),
        ("os", "path.join"),
        ("", ""),
        ("builtins", "SystemExit"),
        ("lazy_one", "Boom"),
    ],
)
def test_data_names_no_code(module: str, qualname: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is imported or called because a failure names it; only exception classes already there count."""
    lazy: Any = ModuleType("lazy_one")
    lazy.__getattr__ = lambda _: pytest.fail("a module's __getattr__ was run")
    monkeypatch.setitem(sys.modules, "lazy_one", lazy)
    back = to_exception(Failure(type="Strange", message="m", module=module, qualname=qualname))
    assert type(back) is ApplicationError
    assert (back.type, str(back)) == ("Strange", "m")
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize(
    "failure",
    [
        Failure(type="ValueError", module="builtins", qualname="ValueError", args=msgspec.Raw(b"[1")),
        Failure(type="ValueError", module="builtins", qualname="ValueError", fields=msgspec.Raw(b"5")),
        Failure(type="UnicodeDecodeError", module="builtins", qualname="UnicodeDecodeError", args=msgspec.Raw(b"[1]")),
        Failure(type="ExceptionGroup", module="builtins", qualname="ExceptionGroup"),
        Failure(type="X", details=msgspec.Raw(b"{")),
        Failure(type="X", traceback='  File "a\0b", line 99999999999999999999, in f\n  File "", line 0, in '),
    ],
    ids=["args", "fields", "argument types", "no members", "details", "traceback"],
)
def test_broken_data_is_still_read(failure: Failure) -> None:
    """Whatever stands in a failure, reading gives an exception that can be printed."""
    back = to_exception(failure)
    assert isinstance(back, ApplicationError)
    assert back.type == failure.type
    assert "ApplicationError" in "".join(traceback.format_exception(back))


# ----------------------------------------------------------------------------------------------------------------------- bounds


def test_a_hostile_class_is_still_named() -> None:
    """Every part that raises is left out; what is left says which class it was."""
    failure = to_failure(raised(Hostile("x")))
    assert (failure.type, failure.bases) == ("Hostile", ("Exception", "BaseException"))
    assert "raise exc" in failure.traceback


def test_what_cannot_be_encoded_is_left_out() -> None:
    """Arguments that have no JSON form cost only the arguments, a field only itself; text is made valid."""
    exc = Declined(1, "\ud800", datetime(2026, 1, 1, tzinfo=UTC))
    exc.connection = object()  # type: ignore[attr-defined]
    back = travelled(exc)
    assert type(back) is Declined
    assert (str(back), back.code, hasattr(back, "connection")) == ("1: \\ud800", 1, False)
    assert str(travelled(ValueError(object))) == "<class 'object'>"


def test_size_is_bounded() -> None:
    """Long texts, huge arguments, long chains, wide groups and cycles all fit, and keep class and message."""
    exc: BaseException = ValueError("x" * 1_000_000, ["y" * 1_000_000])
    top = exc
    for depth in range(100):
        link: BaseException = ExceptionGroup(
            "g" * 10_000, [Declined(depth, "z" * 100_000, datetime(2026, 1, 1, tzinfo=UTC)) for _ in range(50)]
        )
        link.add_note("n" * 100_000)
        exc.__cause__ = raised(link)
        exc = link
    exc.__cause__ = top
    failure = to_failure(top)
    assert len(msgspec.json.encode(failure)) <= FAILURE_BYTES_MAX
    assert failure.type == "ValueError"
    assert failure.message.startswith("('xxx")
    assert type(to_exception(failure)) is ValueError


def test_endless_recursion_has_a_short_traceback() -> None:
    """The innermost frames are kept."""

    def deeper(n: int) -> int:
        return deeper(n + 1) + 1

    failure = to_failure(caught(partial(deeper, 0)))
    assert failure.type == "RecursionError"
    assert len(failure.traceback) < 20_000
    assert "in deeper" in failure.traceback
    assert "in deeper" in "".join(traceback.format_exception(to_exception(failure)))


@pytest.mark.parametrize("cls", [ActivityError, ChildWorkflowError])
def test_odd_fields_of_an_error_authors_raise_can_be_written_all_the_same(cls: Any) -> None:
    """Each by itself: what is well beside them stays."""
    odd = to_failure(cls("m", name=404, attempts=True, kind="bogus"))
    assert (odd.name, odd.attempts, odd.kind) == ("", 0, "error")
    well = to_failure(cls("m", name="n", attempts=2**40, kind=["lost"]))
    assert (well.name, well.attempts, well.kind) == ("n", 0, "error")
    assert to_failure(cls("m", name="n", attempts=3, kind="lost")).kind == "lost"


@pytest.mark.parametrize("delay", [1e12, 2**70])
def test_a_delay_asked_for_is_a_year_at_most(delay: float) -> None:
    """As every other delay; one that became nonsense later is none."""
    assert to_failure(ApplicationError("m", next_retry_delay=delay)).next_retry_delay == 365 * 86_400_000_000
    later = ApplicationError("m")
    later.next_retry_delay = -5
    assert to_failure(later).next_retry_delay == -1


def test_a_group_keeps_its_members_whatever_their_contexts_are() -> None:
    """A task group whose body raised has that error for its context, and members may have each other."""

    async def body() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0))
            raise ValueError("x")

    with pytest.raises(ExceptionGroup) as told:
        asyncio.run(body())
    again = to_exception(to_failure(told.value))
    assert isinstance(again, ExceptionGroup)
    assert [type(part) for part in again.exceptions] == [ValueError]
    first, second = KeyError("a"), KeyError("b")
    first.__context__ = second
    assert len(to_failure(ExceptionGroup("both", [first, second])).parts) == 2
