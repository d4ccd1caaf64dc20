"""Process activities: functions in child processes, which may crash, print, hang and import what they like."""

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import Retry, activity, workflow
from perdure.errors import ApplicationError, InvalidArgument, WorkflowCancelled, WorkflowFailed


def write(path: str, text: str) -> None:
    Path(path).write_text(text)


QUICK = Retry(initial=0.001, jitter=0)
ONCE = Retry(max_attempts=1)


class Declined(Exception):
    def __init__(self, cents: int) -> None:
        super().__init__(f"{cents} is too much")
        self.cents = cents


@activity(process=True)
def square(n: int, *, plus: int = 0) -> list[Any]:
    print("user output on stdout", flush=True)
    os.write(1, b"and straight to the descriptor\n")
    return [n * n + plus, os.getpid(), threading.current_thread() is threading.main_thread()]


@activity(process=True)
async def square_async(n: int) -> list[int]:
    await asyncio.sleep(0)
    return [n * n, os.getpid()]


@activity(process=True, retry=ONCE)
def declines(cents: int) -> None:
    raise Declined(cents)


@activity(process=True, retry=ONCE)
def exits(how: str) -> None:
    if how == "signal":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "exit":
        os._exit(3)
    sys.exit("bye")


@activity(process=True, retry=QUICK)
def dies_once(path: str) -> int:
    if activity.info().attempt == 1:
        activity.heartbeat("seen", 1)
        Path(path).write_text("died")
        while True:
            activity.heartbeat("seen", 2)
            if os.getppid() and Path(path + ".go").exists():
                os.kill(os.getpid(), signal.SIGKILL)
    return int(activity.info().heartbeat_details[1])


@activity(process=True, heartbeat=30)
def tells() -> list[Any]:
    info = activity.info()
    return [info.workflow_id, info.attempt, info.queue, len(info.idempotency_key), activity.is_cancelled(), info.task_token[:3]]


@activity(process=True, retry=ONCE)
def obeys(path: str) -> str:
    Path(path).write_text(str(os.getpid()))
    while not activity.is_cancelled():
        time.sleep(0.005)
    Path(path + ".obeyed").write_text("yes")
    raise asyncio.CancelledError


@activity(process=True, retry=ONCE)
async def obeys_async(path: str) -> str:
    write(path, str(os.getpid()))
    try:
        await asyncio.Event().wait()
    finally:
        write(path + ".obeyed", "yes")
    return "never"


@activity(process=True, retry=ONCE)
def deaf(path: str) -> str:
    Path(path).write_text(str(os.getpid()))
    while True:
        pass


@activity(process=True)
def leaves() -> str:
    activity.complete_later()


@activity(process=True)
def wants_an_int(n: int) -> int:
    return n


@workflow
async def squares() -> list[Any]:
    return [*await square(3), *await square(4, plus=1), *await square_async(5)]


@workflow
async def many(n: int) -> int:
    return len({pid for _, pid, _ in await asyncio.gather(*[square(i) for i in range(n)])})


@workflow
async def catches_declined() -> list[Any]:
    try:
        await declines(7)
    except Declined as error:
        return [error.cents, str(error), error.__cause__.kind]  # type: ignore[union-attr]
    return []


@workflow
async def catches_death(how: str) -> list[str]:
    try:
        await exits(how)
    except ApplicationError as error:
        return [error.type or "", str(error)]
    return []


@workflow
async def survives(path: str) -> int:
    return await dies_once(path)


@workflow
async def asks() -> list[Any]:
    return await tells()


@workflow
async def runs(name: str, path: str) -> str:
    return await {"obeys": obeys, "obeys_async": obeys_async, "deaf": deaf}[name](path)


@workflow
async def bounded(path: str) -> str:
    return await deaf.options(start_to_close=3)(path)


@workflow
async def waits() -> str:
    return await leaves()


@workflow
async def misfit() -> int:
    return await wants_an_int("x")  # type: ignore[arg-type]


def until(holds: Callable[[], Any]) -> Any:
    """Wait on a thread, for what other processes do, until `holds()` gives something; that."""
    deadline = time.monotonic() + 30
    while not (found := holds()):
        assert time.monotonic() < deadline
        time.sleep(0.002)
    return found


async def appears(path: Path) -> str:
    """Wait for a file that a child writes, and give its text."""
    return await asyncio.to_thread(until, lambda: path.exists() and path.read_text())


def is_gone(pid: int) -> bool:
    """The process has ended; one that is only waited for by nobody counts too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter when it goes between opening and reading
        return True


async def gone(pid: int) -> None:
    await asyncio.to_thread(until, lambda: is_gone(pid))


async def test_functions_run_in_children_that_are_used_again(any_house, capfd) -> None:
    """Sync and async, defaults and keywords; on the main thread of another process, the same for all; their output is only output."""
    async with any_house(squares, square, square_async, max_processes=1) as app:
        nine, first, on_main, seventeen, second, _, twentyfive, third = await app.client.execute(squares())
        assert (nine, seventeen, twentyfive, on_main) == (9, 17, 25, True)
        assert first == second == third != os.getpid()
    assert "user output on stdout\nand straight to the descriptor\n" in capfd.readouterr().out
    assert is_gone(first)


async def test_no_more_processes_than_allowed(house) -> None:
    """More attempts wait for their turn."""
    async with house(many, square, max_processes=2) as app:
        assert await app.client.execute(many(7)) <= 2


async def test_exceptions_travel_as_data(any_house) -> None:
    """The activity's own class arrives, with its fields."""
    async with any_house(catches_declined, declines) as app:
        assert await app.client.execute(catches_declined()) == [7, "7 is too much", "error"]


@pytest.mark.parametrize(
    ("how", "says"),
    [("signal", "was ended by SIGSEGV"), ("exit", "ended with exit code 3")],
)
async def test_a_process_that_dies_fails_its_attempt(house, how, says) -> None:
    """Killed or gone: the attempt failed, and says how; the next one gets a fresh process."""
    async with house(catches_death, exits, squares, square, square_async) as app:
        kind, message = await app.client.execute(catches_death(how))
        assert kind == "ProcessDied"
        assert says in message
        assert "activity exits" in message
        assert (await app.client.execute(squares()))[0] == 9


async def test_leaving_by_sys_exit_is_a_failure_like_any_other(house) -> None:
    """The child lives on."""
    async with house(catches_death, exits) as app:
        assert await app.client.execute(catches_death("raise")) == ["SystemExit", "bye"]


async def test_a_dead_attempt_is_tried_again_with_its_last_details(any_house, tmp_path) -> None:
    """Heartbeats reach the engine from the child; the next attempt reads them in another process."""
    path = tmp_path / "died"
    async with any_house(survives, dies_once) as app:
        handle = await app.client.start(survives(str(path)))
        await appears(path)

        def beaten() -> bool:
            run = app.frontend.find("default", handle.id).state.run
            return any(bytes(each.beat_details) == b'["seen",2]' for each in run.activities.values())

        await asyncio.to_thread(until, beaten)
        write(f"{path}.go", "go")
        assert await handle.result() == 2


async def test_the_verbs_of_an_activity_work(any_house) -> None:
    """`info` says what it says everywhere."""
    async with any_house(asks, tells) as app:
        assert await app.client.execute(asks(), id="told") == ["told", 1, "default", 32, False, "p1."]


@pytest.mark.parametrize("name", ["obeys", "obeys_async"])
async def test_a_cancel_reaches_the_function(any_house, tmp_path, name) -> None:
    """Async code sees CancelledError, other code looks; the process is used again."""
    path = tmp_path / "pid"
    async with any_house(runs, obeys, obeys_async, deaf) as app:
        handle = await app.client.start(runs(name, str(path)))
        pid = int(await appears(path))
        await handle.cancel()
        with pytest.raises(WorkflowCancelled):
            await handle.result()
        await appears(Path(f"{path}.obeyed"))
        assert not is_gone(pid)


async def test_a_deaf_function_is_killed(house, tmp_path, monkeypatch) -> None:
    """Code that never looks is ended with its process, soon after its cancel and at once when its time is over."""
    monkeypatch.setattr("perdure.worker.processes.CANCEL_S", 0.05)
    async with house(runs, bounded, deaf) as app:
        handle = await app.client.start(runs("deaf", str(tmp_path / "one")))
        pid = int(await appears(tmp_path / "one"))
        await handle.cancel()
        with pytest.raises(WorkflowCancelled):
            await handle.result()
        await gone(pid)
        handle = await app.client.start(bounded(str(tmp_path / "two")))
        pid = int(await appears(tmp_path / "two"))
        with pytest.raises(WorkflowFailed):
            await handle.result()
        await gone(pid)


async def test_a_leaving_worker_takes_its_processes_along(house, tmp_path, t) -> None:
    """Cut short at the end of the grace period, the attempt is lost and its process gone."""
    async with house(runs, deaf, replays=False, grace=0) as app:
        handle = await app.client.start(runs("deaf", str(tmp_path / "pid")), id="leaving")
        pid = int(await appears(tmp_path / "pid"))
    await gone(pid)
    async with house(memory=None, replays=False) as app:
        handle = app.client.handle("leaving")
        assert (await t.recorded(app, handle, "attempt_failed")).kind == "lost"


async def test_completed_from_outside(house, t) -> None:
    """complete_later works in there too."""
    async with house(waits, leaves) as app:
        handle = await app.client.start(waits())

        async def claim() -> Any:
            run = app.frontend.find("default", handle.id).state.run
            return next((a.claim for a in run.activities.values() if a.claim is not None and a.claim.outside), None)

        found = await t.until(app, claim)
        from perdure.sdk.task_token import TaskToken, text_of

        token = text_of(TaskToken("default", handle.id, handle.run_id, 2, 1, found.token))
        await app.client.complete_activity(token, "done")
        assert await handle.result() == "done"


async def test_arguments_that_do_not_fit_are_final(house) -> None:
    """As for any activity: no further attempt would be better."""
    async with house(misfit, wants_an_int) as app:
        with pytest.raises(WorkflowFailed, match="wants_an_int"):
            await app.client.execute(misfit())


class Press:
    @activity(process=True)
    def stamp(self) -> None: ...


def local_one() -> Any:
    @activity(process=True)
    def inner() -> None: ...

    return inner


def of_main() -> Any:
    def script() -> None: ...

    script.__module__ = "__main__"
    script.__qualname__ = "script"
    return activity(process=True)(script)


async def test_what_a_child_cannot_find_is_refused_at_registration(house) -> None:
    """Methods, functions within functions, those of the script itself: the error says what to do."""
    async with house() as app:
        for thing, why in (
            (Press(), "is a method"),
            (local_one(), "top of a module"),
            (of_main(), "__main__"),
        ):
            with pytest.raises(InvalidArgument, match=why):
                app.register(thing)


async def test_a_module_that_cannot_be_imported_says_so(house, tmp_path, monkeypatch) -> None:
    """The import's own error is named."""
    (tmp_path / "only_here.py").write_text(
        "import os\nassert os.environ.get('NOT_IN_CHILD') == '1', 'needs its setting'\ndef f() -> int:\n    return 1\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("NOT_IN_CHILD", "1")
    import only_here  # type: ignore[import-not-found]

    monkeypatch.delenv("NOT_IN_CHILD")
    lost = activity(process=True, retry=ONCE)(only_here.f)
    CALLS["lost"] = lost
    async with house(calls, lost, replays=False) as app:  # replayed elsewhere, it would miss the module too
        with pytest.raises(WorkflowFailed, match="cannot import only_here: AssertionError: needs its setting"):
            await app.client.execute(calls())


CALLS: dict[str, Any] = {}


@workflow
async def calls() -> int:
    return await CALLS["lost"]()
