"""A real Ctrl-C and `raise KeyboardInterrupt` are told apart, under every handler."""

import asyncio
import signal
import threading

import pytest

from perdure.replay.interrupts import is_interrupt


def caught(code) -> BaseException:
    try:
        code()
    except BaseException as error:  # noqa: BLE001
        return error
    raise AssertionError("nothing was raised")


def raised() -> None:
    raise KeyboardInterrupt


def pressed() -> None:
    signal.raise_signal(signal.SIGINT)
    for _ in range(10_000):
        pass


@pytest.fixture(params=["default", "own"])
def handler(request):
    def own(_number, _frame) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, signal.default_int_handler if request.param == "default" else own)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("handler")
def test_told_apart():
    """The one began in the handler, the other in a `raise`; nothing else is an interrupt, nor is anything on another thread."""
    assert is_interrupt(caught(pressed))
    assert not is_interrupt(caught(raised))
    assert not is_interrupt(SystemExit())
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(is_interrupt(caught(raised))))
    thread.start()
    thread.join(5)
    assert answers == [False]


def test_under_asyncio_run():
    """The first Ctrl-C cancels the main task, as asyncio has it; the second is raised where code happens to be."""

    async def main() -> tuple[bool, bool]:
        try:
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            return is_interrupt(caught(pressed)), is_interrupt(caught(raised))
        raise AssertionError("not cancelled")

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(keep(main()))
    assert KEPT == [(True, False)]


KEPT: list[object] = []


async def keep(coroutine) -> None:
    KEPT.append(await coroutine)
    await asyncio.sleep(0)
    raise asyncio.CancelledError
