"""The class form: a run with an object of its own, whose methods take its messages in the order of the history."""

import asyncio
import random
from typing import Any

import pytest

from perdure import activity, workflow
from perdure.errors import ApplicationError, WorkflowClosed, WorkflowFailed


@activity
async def price(item: str) -> int:
    return len(item)


@workflow
class Cart:
    """Takes items until it is paid."""

    def __init__(self) -> None:
        self.items: list[str] = []
        self.paid = False
        self.user = ""

    @workflow.run
    async def run(self, user: str, expected: int = 0) -> list[str]:
        self.user = user
        await workflow.wait_until(lambda: self.paid and len(self.items) >= expected)
        return self.items

    @workflow.signal
    def add(self, item: str, count: int = 1) -> None:
        self.items += [item] * count

    @workflow.signal(name="pay")
    def settle(self) -> None:
        self.paid = True

    @workflow.signal
    async def add_priced(self, item: str) -> None:
        self.items.append(f"{item}:{await price(item)}")


@workflow
class Till(Cart):
    """A subclass is a workflow of its own, with what it inherits."""

    @workflow.signal
    def add(self, item: str, count: int = 1) -> None:
        self.items += [item.upper()] * count


@workflow
class Mixed:
    """A handler and `receive` beside each other."""

    def __init__(self) -> None:
        self.handled: list[str] = []

    @workflow.run
    async def run(self) -> list[str]:
        await workflow.receive("go")
        word = await workflow.receive("word", str)
        return [*self.handled, word]

    @workflow.signal
    def note(self, text: str) -> None:
        self.handled.append(text)


@workflow
class Breaks:
    """A handler that raises what it is told to."""

    @workflow.run
    async def run(self) -> str:
        try:
            await workflow.receive("never")
        finally:
            await price("finally")
        return "never"

    @workflow.signal
    def fail(self, message: str) -> None:
        raise ValueError(message)

    @workflow.signal
    async def fail_later(self, message: str) -> None:
        await price("x")
        raise LookupError(message)


class Unmade(Exception):
    """Raised by a constructor."""


@workflow
class CannotBeMade:
    def __init__(self) -> None:
        raise Unmade("no object today")

    @workflow.run
    async def run(self) -> None: ...

    @workflow.signal
    def poke(self) -> None: ...


@workflow
class DrawsAtBirth:
    def __init__(self) -> None:
        self.number = random.random()
        self.other = workflow.random().random()

    @workflow.run
    async def run(self) -> list[float]:
        await price("x")
        return [self.number, self.other]


@workflow
class Outlives:
    """Ends at a word; what comes with it or after it is still handled."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    @workflow.run
    async def run(self) -> list[int]:
        await workflow.receive("end")
        return self.seen

    @workflow.signal
    def tick(self, n: int) -> None:
        self.seen.append(n)


@workflow
class Relay:
    """Continues as new after every third tick, until it has seen all of them."""

    def __init__(self) -> None:
        self.ticks: list[int] = []

    @workflow.run  # noqa: RET503 – continue_as_new never returns
    async def run(self, total: int, before: list[int]) -> list[int]:
        await workflow.wait_until(lambda: len(self.ticks) + len(before) >= total or len(self.ticks) >= 3)
        await workflow.wait_until(workflow.all_handlers_finished)
        seen = before + self.ticks
        if len(seen) >= total:
            return seen
        workflow.continue_as_new(total, seen)

    @workflow.signal
    async def tick(self, n: int) -> None:
        await price("tick")
        self.ticks.append(n)


@workflow
class Shop:
    """Has carts as children, and speaks to them with their own handlers."""

    @workflow.run
    async def run(self) -> list[list[str]]:
        first = await workflow.start_child(Cart.run("ann", 2), id="first")
        await first.signal(Cart.add("a", count=2))
        await workflow.external("first").signal(Cart.settle())
        second = asyncio.create_task(self.second())
        return [await first, await second]

    async def second(self) -> list[str]:
        cart = await workflow.start_child(Cart.run("bob", 1))
        await cart.signal(Cart.add, "b")
        await cart.signal("pay")
        return await cart


async def test_children_in_class_form(any_house) -> None:
    """Started, spoken to by call, by method and by name, and awaited."""
    async with any_house(Cart, Shop, price) as app:
        assert await app.client.execute(Shop.run()) == [["a", "a"], ["b"]]


@pytest.mark.scenario(22)
async def test_messages_of_before_the_first_activation_find_a_made_object(any_house) -> None:
    """Signal-with-start and signals sent before any worker looks: handled after `__init__`, in order, before main goes on."""
    async with any_house(Cart, price) as app:
        handle = await app.client.signal_with_start(Cart.run("ann", 4), Cart.add("a"), id="cart")
        await handle.signal(Cart.add("b", count=2))
        await handle.signal(Cart.settle, signal_id="p")
        await handle.signal("add", "c")
        assert await handle.result() == ["a", "b", "b", "c"]


async def test_handlers_take_calls_methods_and_names(any_house, t) -> None:
    """`Cart.add("x")`, `Cart.add, "x"` and `"add", "x"` are the same message; a signal id is delivered once."""
    async with any_house(Cart, price) as app:
        handle = await app.client.start(Cart.run("ann", 5), id="cart")
        for _ in range(3):
            await handle.signal(Cart.add("x"), signal_id="once")
        await handle.signal(Cart.add, "y", 2)
        await handle.signal("add", "z")
        await handle.signal(Cart.add_priced("four"))
        await handle.signal("pay")
        assert await handle.result() == ["x", "y", "y", "z", "four:4"]
        assert (await t.types(handle)).count("signal_received") == 5


async def test_a_subclass_is_a_workflow_of_its_own(any_house) -> None:
    """Inherited handlers work, an overridden one is the subclass's, and both are registered side by side."""
    async with any_house(Cart, Till, price) as app:
        for form, expected in ((Cart, "x"), (Till, "X")):
            handle = await app.client.start(form.run("ann", 1))
            await handle.signal(form.add("x"))
            await handle.signal(form.settle())
            assert await handle.result() == [expected]
            assert (await handle.describe()).type == form.__name__


async def test_a_handler_wins_and_unknown_names_wait_for_receive(any_house) -> None:
    """What has a handler never reaches `receive`; anything else is kept for it, also from before the wait."""
    async with any_house(Mixed) as app:
        handle = await app.client.start(Mixed.run())
        await handle.signal("note", "one")
        await handle.signal("word", "last")
        await handle.signal("note", "two")
        await handle.signal("go")
        assert await handle.result() == ["one", "two", "last"]


async def test_what_does_not_fit_is_set_aside(any_house, t) -> None:
    """The run goes on, and one note names the signal and what is wrong with it."""
    async with any_house(Cart, price) as app:
        handle = await app.client.start(Cart.run("ann", 2))
        await handle.signal("add", 5)
        await handle.signal("add_priced", {"a": 1})
        await handle.signal(Cart.add("good"))
        await handle.signal(Cart.add_priced("better"))
        await handle.signal(Cart.settle())
        assert await handle.result() == ["good", "better:6"]
        asides = [note for note in await handle.history(notes=True) if note.type == "signal_set_aside"]
        assert [note.command for note in asides] == [2, 3]
        assert "signal add(item)" in asides[0].message


async def test_an_exception_of_a_handler_fails_the_run(any_house, t) -> None:
    """At once, as if main had raised it; main runs no further, not even its `finally`."""
    async with any_house(Breaks, price) as app:
        for signal, error in ((Breaks.fail("broken"), ValueError), (Breaks.fail_later("late"), LookupError)):
            handle = await app.client.start(Breaks.run())
            await t.decided(app, handle)
            await handle.signal(signal)
            await handle.signal("never")
            with pytest.raises(WorkflowFailed) as failed:
                await handle.result()
            assert type(failed.value.__cause__) is error
            scheduled = [event.input for event in await handle.history() if event.type == "activity_scheduled"]
            assert ["finally"] not in scheduled or error is LookupError


async def test_a_constructor_that_raises_fails_the_run(any_house) -> None:
    """As main's exception, with its own class; signals to it do no harm."""
    async with any_house(CannotBeMade) as app:
        handle = await app.client.signal_with_start(CannotBeMade.run(), CannotBeMade.poke(), id="unmade")
        with pytest.raises(WorkflowFailed) as failed:
            await handle.result()
        assert type(failed.value.__cause__) is Unmade
        with pytest.raises(WorkflowClosed):
            await handle.signal(CannotBeMade.poke())


async def test_chance_in_a_constructor_is_the_runs(any_house) -> None:
    """`random` in `__init__` draws from the run's seed, so every replay makes the same object."""
    async with any_house(DrawsAtBirth, price) as app:
        numbers = await app.client.execute(DrawsAtBirth.run())
        assert len(set(numbers)) == 2


async def test_what_comes_while_a_run_ends_is_handled(any_house) -> None:
    """Signals before the close are handled or counted, never refused silently: seen and unseen add up."""
    async with any_house(Outlives) as app:
        handle = await app.client.start(Outlives.run())
        sent = 0

        async def storm() -> None:
            nonlocal sent
            for n in range(40):
                try:
                    await handle.signal(Outlives.tick(n))
                except WorkflowClosed:
                    return
                sent += 1
                if n == 10:
                    await handle.signal("end")

        await storm()
        seen = await handle.result()
        closing = (await handle.history())[-1]
        ticks = [event for event in await handle.history() if event.type == "signal_received" and event.name == "tick"]
        assert len(ticks) == sent
        assert seen == list(range(len(seen)))
        assert 11 <= len(seen) <= sent
        assert closing.unseen_signals <= sent - len(seen)


@pytest.mark.scenario(30)
async def test_handlers_over_continue_as_new_lose_nothing(any_house) -> None:
    """Async handlers under steady signals: each tick is seen once, in order, however often the run continues."""
    async with any_house(Relay, price) as app:
        handle = await app.client.start(Relay.run(20, []), id="relay")
        for n in range(20):
            await handle.signal(Relay.tick(n), signal_id=f"t-{n}")
        assert sorted(await handle.result()) == list(range(20))


async def test_a_storm_of_async_handlers(any_house) -> None:
    """Two hundred at once, each with an activity of its own: all end, the run sees every one, and it replays."""
    async with any_house(Cart, price) as app:
        handle = await app.client.start(Cart.run("ann", 200))
        await asyncio.gather(*(handle.signal(Cart.add_priced(f"{n:03}")) for n in range(200)))
        await handle.signal(Cart.settle())
        found = await handle.result()
        assert sorted(found) == [f"{n:03}:3" for n in range(200)]


async def test_outside_a_run_it_is_an_ordinary_class() -> None:
    """Methods can be called on an object of one's own, and awaiting `Cart.run(…)` runs it with a fresh one."""
    cart: Any = Cart()
    cart.add("x")
    cart.settle()
    assert cart.items == ["x"]

    @workflow
    class Plain:
        @workflow.run
        async def run(self, n: int) -> int:
            if n < 0:
                raise ApplicationError("negative")
            return n + 1

    assert await Plain.run(1) == 2
    assert await Plain().run(2) == 3
    with pytest.raises(ApplicationError):
        await Plain.run(-1)
