"""What a client refuses before anything is sent."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any

from perdure import embedded, workflow
from perdure.core.errors import InvalidArgument
from perdure.sdk.client import Client


def run(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def ran(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return ran


class Text(str):
    __slots__ = ()


@workflow
async def waits() -> Any:
    return await workflow.receive("x")


ODD: tuple[Any, ...] = (404, "\ud800", ValueError("x"), True)
CALLS: dict[str, Callable[[Client, Any], Awaitable[Any] | Any]] = {
    "cancel": lambda c, odd: c.handle("w").cancel(odd),
    "cancel's request": lambda c, odd: c.handle("w").cancel(request_id=odd),
    "terminate": lambda c, odd: c.handle("w").terminate(odd),
    "terminate's request": lambda c, odd: c.handle("w").terminate(request_id=odd),
    "resume": lambda c, odd: c.handle("w").resume(odd),
    "signal": lambda c, odd: c.handle("w").signal(odd),
    "signal's id": lambda c, odd: c.handle("w").signal("s", signal_id=odd),
    "handle": lambda c, odd: c.handle(odd).describe(),
    "run": lambda c, odd: c.handle("w", odd).describe(),
    "id": lambda c, odd: c.start(waits(), id=odd),
    "queue": lambda c, odd: c.start(waits(), queue=odd),
    "request": lambda c, odd: c.start(waits(), request_id=odd),
    "origin": lambda c, odd: c.start(waits(), origin=odd),
    "memo": lambda c, odd: c.start(waits(), memo=odd),
    "memo key": lambda c, odd: c.start(waits(), memo={odd: 1}),
    "conflict": lambda c, odd: c.start(waits(), on_conflict=odd),
    "reuse": lambda c, odd: c.start(waits(), reuse=odd),
    "signal with start": lambda c, odd: c.signal_with_start(waits(), "x", id="w", signal_id=odd),
    "query": lambda c, odd: c.list(odd),
    "count": lambda c, odd: c.count(odd),
    "status": lambda c, odd: c.list(status=odd),
    "type": lambda c, odd: c.list(type=odd),
    "cursor": lambda c, odd: c.list(cursor=odd),
    "limit": lambda c, odd: c.list(limit=1.5 if odd == 404 else odd),
}


async def outcome(call: Callable[[Client, Any], Any], client: Client, odd: Any) -> type[BaseException] | None:
    try:
        await call(client, odd)
    except Exception as error:  # noqa: BLE001  whatever it is, it is what the test is about
        return type(error)
    return None


@run
async def test_arguments_of_another_type_are_refused_by_every_method(tmp_path) -> None:
    """With the error for it, and nothing is written."""
    async with embedded(tmp_path) as app:
        for name, call in CALLS.items():
            for odd in ODD:
                assert await outcome(call, app.client, odd) is InvalidArgument, f"{name}: {odd!r}"
        assert await app.client.count() == 0


@run
async def test_a_subclass_of_str_is_taken_for_the_text_it_is(tmp_path) -> None:
    """Its text is what travels and what is kept."""
    async with embedded(tmp_path) as app:
        given: dict[str, Any] = {"queue": Text("q"), "origin": Text("o"), "request_id": Text("r"), "memo": {Text("m"): 1}}
        handle = await app.client.start(waits(), id=Text("w"), **given)
        await handle.signal(Text("s"), 1, signal_id=Text("i"))
        await handle.cancel(Text("because"))
    async with embedded(tmp_path) as app:
        assert [run.workflow_id async for run in app.client.list()] == ["w"]
        assert type(handle.id) is str
        await asyncio.wait_for(app.client.handle("w").terminate(), 5)
