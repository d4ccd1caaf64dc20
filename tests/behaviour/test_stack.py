"""Where a run stands, from its history alone: with the node up, with it gone, over HTTP, and by the lines of the code."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2

from perdure import Retry, activity, workflow
from perdure.sdk.stack import WorkflowStack
from perdure.server.access import Gate
from perdure.server.app import build_app

HERE = Path(__file__)
BEGUN: list[asyncio.Event] = []


@activity(retry=Retry(max_attempts=5, initial=3_600, jitter=0), start_to_close=60)
async def declined() -> None:
    raise ValueError("no money")


@activity(start_to_close=3_600)
async def long() -> None:
    BEGUN[-1].set()
    await asyncio.Event().wait()


@activity(queue="gpu")
async def train() -> None: ...


@workflow
async def approval() -> str:
    try:
        async with asyncio.timeout(86_400):
            return str(await workflow.receive("approve"))
    except TimeoutError:
        return "refused"


@workflow
async def busy() -> None:
    await asyncio.gather(declined(), long(), train(), approval.options()())


@workflow
class Cart:
    def __init__(self) -> None:
        self.done = False

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_until(lambda: self.done)

    @workflow.update
    async def checkout(self) -> None:
        await workflow.receive("paid")
        self.done = True


async def settled(handle: Any, *kinds: str) -> WorkflowStack:
    """Its stack, once the run waits for all of these."""
    while True:
        stack: WorkflowStack = await handle.stack()
        if set(kinds) <= {item.kind for item in stack.waits_for}:
            return stack
        await asyncio.sleep(0.01)


async def test_an_approval_says_its_signal_and_until_when(any_house: Any) -> None:
    """The signal by name and the timer, while the node runs and after it has gone; what is closed waits for nothing."""
    async with any_house(approval) as app:
        handle = await app.client.start(approval(), id="a")
        other = await app.client.start(approval(), id="b")
        stack = await settled(handle, "signal", "timer")
        await settled(other, "signal", "timer")
        assert {(item.kind, item.name) for item in stack.waits_for} == {("timer", ""), ("signal", "approve")}
        (timer,) = [item for item in stack.waits_for if item.kind == "timer"]
        assert timer.until is not None
        assert timer.since is not None
        assert round((timer.until - timer.since).total_seconds()) == 86_400
        assert stack.standstill == ()
        await other.signal("approve", "yes")
        assert await other.result() == "yes"
        closed = await other.stack()
        assert closed.waits_for == ()
        assert "it waits for nothing" in str(closed)
    gone = json.loads(printed(any_house.data, "a", "-o", "json").stdout)
    assert {(item["kind"], item.get("name", "")) for item in gone["waits_for"]} == {("timer", ""), ("signal", "approve")}
    assert gone["standstill"] == [f"no node is running on {any_house.data}"]
    assert "waits_for" not in json.loads(printed(any_house.data, "b", "-o", "json").stdout)


def printed(data: Path, workflow_id: str, *options: str) -> subprocess.CompletedProcess[str]:
    """What the command line says of a run in a directory without a node."""
    command = [sys.executable, "-m", "perdure", "workflow", "stack", workflow_id, "--data", str(data), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


async def test_who_holds_what_and_why_nobody_does(any_house: Any) -> None:
    """Attempt n of m with the last failure and the next retry; the worker that runs one; the queue nobody serves; the child."""
    BEGUN.append(asyncio.Event())
    async with any_house(busy, approval, declined, long, grace=0) as app:
        handle = await app.client.start(busy(), id="busy")
        await BEGUN[-1].wait()
        while True:
            stack = await settled(handle, "activity", "child")
            pending = {item.name: item for item in stack.waits_for}
            if pending["declined"].failure and pending["approval"].state == "running":
                break
            await asyncio.sleep(0.01)
        assert (pending["declined"].attempt, pending["declined"].attempts_max) == (2, 5)
        assert pending["declined"].failure == "ValueError: no money"
        assert pending["declined"].until is not None
        assert pending["long"].worker.startswith("w-")
        assert pending["long"].deadline is not None
        assert (pending["train"].queue, pending["train"].worker) == ("gpu", "")
        assert stack.standstill == ("no worker takes activity tasks of queue 'gpu', on which 'train' (event 4) waits",)
        text = str(stack)
        assert "attempt 2 of 5" in text
        assert "failed last with ValueError: no money" in text


async def test_updates_and_conditions(any_house: Any) -> None:
    """An accepted update is named, and what its handler and main wait for."""
    async with any_house(Cart) as app:
        handle = await app.client.start(Cart.run(), id="cart")
        first = await settled(handle, "condition")
        assert [(item.kind, item.name.partition(":")[0]) for item in first.waits_for] == [("condition", "Cart.run")]
        update = await handle.start_update(Cart.checkout(), update_id="u")
        stack = await settled(handle, "update", "signal")
        assert {(item.kind, item.name.partition(":")[0]) for item in stack.waits_for} == {
            ("update", "u"),
            ("signal", "paid"),
            ("condition", "Cart.run"),
        }
        await handle.signal("paid")
        await update.result()
        await handle.result()


async def test_nobody_knows_its_code(house: Any) -> None:
    """A start on a queue without workers says so, and that its code has seen nothing."""
    async with house(approval) as app:
        handle = await app.client.start("approval", id="far", queue="far")
        stack = await handle.stack()
        assert stack.standstill == ("no worker takes workflow tasks of queue 'far'",)
        assert (stack.covered, stack.history_length) == (0, 1)
        await handle.terminate("enough")


async def test_it_costs_no_commit(house: Any) -> None:
    """Waiting for a signal writes nothing of its own: what is awaited rides in transitions that are written anyway."""
    async with house(approval) as app:
        before = app.frontend.committer.transitions
        handle = await app.client.start(approval(), id="a")
        await settled(handle, "signal", "timer")
        assert app.frontend.committer.transitions == before + 1
        await handle.signal("approve", "yes")
        await handle.result()
        assert app.frontend.committer.transitions == before + 3


async def test_over_http(house: Any) -> None:
    """The same, as JSON and in words."""
    async with house(approval) as app:
        handle = await app.client.start(approval(), id="a/b")
        stack = await settled(handle, "signal")
        transport = httpx2.ASGITransport(app=build_app(app.frontend, Gate.open()))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            answer = await http.get("/api/v1/workflows/a%2Fb/stack")
            assert answer.status_code == 200
            told = answer.json()
            assert {(item["kind"], item.get("name", "")) for item in told["waits_for"]} == {
                ("timer", ""),
                ("signal", "approve"),
            }
            assert told["lines"] == stack.lines()
            assert (await http.get("/api/v1/workflows/nobody/stack")).status_code == 404
        await handle.terminate("enough")


async def test_by_the_lines_of_its_code(house: Any) -> None:
    """`stack --module` replays the history where it is asked and shows each task's line; other code is exit code 1, in words."""
    async with house(approval) as app:
        await settled(await app.client.start(approval(), id="a"), "signal")
    other = house.data.parent / "other_code.py"
    other.write_text(
        "from perdure import workflow\n\n@workflow\nasync def approval() -> None:\n    await workflow.receive('x')\n"
    )

    told = printed(house.data, "a", "--module", str(HERE))
    assert told.returncode == 0, told.stderr
    assert "task approval awaits signal 'approve'" in told.stdout
    assert f"{HERE}:" in told.stdout
    assert 'return str(await workflow.receive("approve"))' in told.stdout
    data = json.loads(printed(house.data, "a", "-o", "json", "--module", str(HERE)).stdout)
    assert {item["kind"] for item in data["waits_for"]} == {"timer", "signal"}
    assert data["tasks"][0]["awaits"] == "signal 'approve'"
    told = printed(house.data, "a", "--module", str(other))
    assert told.returncode == 1
    assert "timer" in told.stderr
    assert "signal 'approve'" in told.stdout  # what the history says is told all the same
