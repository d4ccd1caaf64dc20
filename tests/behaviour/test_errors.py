"""Errors as data, and payloads that do not travel: what arrives at the caller, in the workflow, and how often anything was tried."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from perdure import activity, workflow
from perdure.errors import ActivityError, ApplicationError, InvalidArgument, PayloadTooLarge, WorkflowFailed

TRIES: dict[str, int] = {}
BIG = 2 * 1024 * 1024 + 10


def tried(key: str) -> int:
    TRIES[key] = TRIES.get(key, 0) + 1
    return TRIES[key]


class OutOfStock(Exception):
    def __init__(self, item: str, left: int) -> None:
        super().__init__(f"{item}: {left} left")
        self.item = item
        self.left = left


def _final(error: Exception, inner: Exception) -> Exception:
    last = ApplicationError("deep", non_retryable=True)
    last.__cause__ = inner
    error.__cause__ = last
    return error


@activity
async def stock(key: str) -> None:
    tried(key)
    inner = KeyError("shelf")
    error = _final(OutOfStock("tea", 3), inner)
    error.add_note("asked twice")
    raise error


@workflow
async def orders(key: str) -> None:
    await stock(key)


@pytest.mark.scenario(71)
async def test_an_activity_error_arrives_whole(any_house) -> None:
    """Class, arguments, fields, notes, the chain with its ActivityError, and the lines where it was raised."""
    key = f"whole-{any_house.mode}"
    async with any_house(orders, stock) as app:
        with pytest.raises(WorkflowFailed) as caught:
            await app.client.execute(orders(key))
        error = caught.value.__cause__
        assert type(error) is OutOfStock
        assert (error.item, error.left, str(error)) == ("tea", 3, "tea: 3 left")
        assert error.__notes__ == ["asked twice"]
        reason = error.__cause__
        assert isinstance(reason, ActivityError)
        assert (reason.name, reason.attempts, reason.kind) == ("stock", 1, "error")
        assert isinstance(reason.__cause__, ApplicationError)
        assert isinstance(reason.__cause__.__cause__, KeyError)
        lines = []
        place = error.__traceback__
        while place is not None:
            lines.append(place.tb_frame.f_code.co_name)
            place = place.tb_next
        assert "stock" in lines
        assert TRIES[key] == 1


@workflow
async def raises_own(kind: str) -> None:
    if kind == "local":

        class Hidden(Exception):
            pass

        raise Hidden("nobody can rebuild me")
    if kind == "application":
        raise ApplicationError("spoken", type="Special", details={"a": [1]})
    if kind == "exit":
        raise SystemExit(3)
    raise OutOfStock("figs", 1)


@pytest.mark.parametrize(("kind", "type"), [("local", "Hidden"), ("application", "Special"), ("exit", "SystemExit")])
async def test_classes_that_cannot_be_rebuilt(house, kind: str, type: str) -> None:
    """They arrive as ApplicationError whose type is the class name; reading a result never fails because of a class."""
    async with house(raises_own) as app:
        with pytest.raises(WorkflowFailed) as caught:
            await app.client.execute(raises_own(kind))
        error = caught.value.__cause__
        assert isinstance(error, ApplicationError)
        assert error.type == type
        if kind == "application":
            assert error.details == {"a": [1]}
        assert (await app.client.list()).items[0].status == "failed"


# -------------------------------------------------------------------------------------------------------------------- payloads


@dataclass
class Line:
    sku: str
    price: Any = None


@dataclass
class Basket:
    lines: list[Line]


@activity
async def charge(basket: Basket) -> str:
    tried("charge")
    return "charged"


@activity
async def gives(what: str) -> Any:
    tried(f"gives {what}")
    if what == "big":
        return "x" * BIG
    return object()


@activity
async def size(text: str) -> int:
    return len(text)


@workflow
async def sends_odd() -> str:
    basket = Basket([Line("a"), Line("b"), Line("c"), Line("d", price=object())])
    try:
        await charge(basket)
    except InvalidArgument as error:
        return str(error)
    return "sent"


@workflow
async def sends_big() -> str:
    try:
        await size("x" * BIG)
    except PayloadTooLarge as error:
        return f"{type(error).__name__} {error}"
    return "sent"


@workflow
async def takes(what: str) -> str:
    try:
        await gives(what)
    except InvalidArgument as error:
        return f"{type(error).__name__} {error}"
    return "taken"


@workflow
async def returns(what: str) -> Any:
    return "x" * BIG if what == "big" else object()


@workflow
async def swallow(text: str) -> int:
    return len(text)


@pytest.mark.scenario(75)
async def test_what_cannot_be_encoded_names_its_path(any_house, t) -> None:
    """At the call, in the workflow, before anything is asked for."""
    async with any_house(sends_odd, charge) as app:
        handle = await app.client.start(sends_odd())
        message = await handle.result()
        assert "lines[3].price" in message
        assert "charge" in message
        assert await t.types(handle) == ["started", "completed"]
        assert "charge" not in TRIES
        with pytest.raises(InvalidArgument, match="swallow"):
            await app.client.start(swallow(object()))  # type: ignore[arg-type]


@pytest.mark.scenario(72)
async def test_what_is_too_large_is_refused_at_once(any_house, t) -> None:
    """An argument raises at the call; a result ends the activity at its first attempt; a start and a signal raise at the caller."""
    TRIES.clear()
    async with any_house(sends_big, size, takes, gives, swallow) as app:
        handle = await app.client.start(sends_big())
        assert (await handle.result()).startswith("PayloadTooLarge")
        assert await t.types(handle) == ["started", "completed"]
        assert (await app.client.execute(takes("big"))).startswith("PayloadTooLarge")
        assert (await app.client.execute(takes("odd"))).startswith("InvalidArgument")
        assert TRIES == {"gives big": 1, "gives odd": 1}
        with pytest.raises(PayloadTooLarge):
            await app.client.start(swallow("x" * BIG))
        with pytest.raises(PayloadTooLarge):
            await app.client.handle(handle.id).signal("big", "x" * BIG)


@pytest.mark.parametrize("what", ["big", "odd"])
async def test_a_result_of_the_workflow_that_cannot_travel(house, what: str) -> None:
    """The run fails with that error; it does not hang and is not tried again."""
    async with house(returns) as app:
        with pytest.raises(WorkflowFailed) as caught:
            await app.client.execute(returns(what))
        assert isinstance(caught.value.__cause__, PayloadTooLarge if what == "big" else InvalidArgument)
        assert "returns" in str(caught.value.__cause__)


async def test_an_argument_that_does_not_fit_fails_the_activity_at_once(house) -> None:
    """A start by name with an argument of another type: the run fails, naming the parameter; it is not retried for ever."""
    async with house(swallow) as app:
        with pytest.raises(WorkflowFailed) as caught:
            await app.client.execute("swallow", 12)
        assert "text" in str(caught.value.__cause__)


@workflow
async def forgets() -> str:
    async def fail() -> None:
        raise RuntimeError("nobody looks")

    task = asyncio.create_task(fail())
    await asyncio.sleep(0.001)
    return f"{task.done()}"


async def test_an_error_in_a_task_nobody_awaits_does_not_end_the_run(any_house) -> None:
    """As in asyncio: it is news, not a failure of main."""
    async with any_house(forgets) as app:
        assert await app.client.execute(forgets()) == "True"
