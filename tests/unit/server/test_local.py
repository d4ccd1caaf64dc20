"""The local socket, both ends: what a client does in the node's process it can do from outside, and nothing more."""

import asyncio
import json
import os
import socket
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

import perdure
from perdure import activity, workflow
from perdure.core.errors import InvalidArgument, NotFound, PerdureError, Unavailable, WorkflowAlreadyStarted
from perdure.core.events import Completed, SignalReceived, Started
from perdure.core.notes import Seen
from perdure.core.requests import RunDue, StartWorkflow
from perdure.node import Node
from perdure.ports import Record, RunFilter, WorkerIdentity
from perdure.runtime import local_socket
from perdure.runtime.chance import RealChance
from perdure.runtime.clock import RealClock
from perdure.sdk.client import Client
from perdure.server import local
from perdure.server.exchange import Answer, Fault, error_of, fault_of, line_of, read_answer
from perdure.server.local import LocalServer, parts_of
from perdure.server.local_frontend import LocalFrontend


@activity
async def double(number: int) -> int:
    return 2 * number


@workflow
async def doubled(number: int) -> int:
    return await double(number)


@workflow
async def parked(name: str) -> str:
    return await workflow.receive(name, str)


@workflow
class Tray:
    def __init__(self) -> None:
        self.things: list[str] = []

    @workflow.run
    async def run(self) -> list[str]:
        await workflow.wait_until(lambda: len(self.things) == 2)
        return self.things

    @workflow.query
    def holds(self, first: int = 0) -> list[str]:
        if first > len(self.things):
            raise IndexError(first)
        return self.things[first:]

    @workflow.update
    async def put(self, thing: str) -> int:
        await double(1)
        self.things.append(thing)
        return len(self.things)

    @put.validator
    def _may(self, thing: str) -> None:
        if not thing:
            raise KeyError("nothing")


@asynccontextmanager
async def reached(data: Path) -> AsyncIterator[tuple[Node, LocalServer, Client]]:
    """A real node, its socket, and a client at the other end of it."""
    async with perdure.embedded(data) as node, LocalServer(node.frontend, data) as server:
        node.register(doubled, parked, double, Tray)
        frontend = await LocalFrontend.connect(server.path, RealClock())
        try:
            yield node, server, Client(frontend, RealChance())
        finally:
            await frontend.close()


def with_client(data: Path, test: Callable[[Node, LocalServer, Client], Awaitable[None]]) -> None:
    async def main() -> None:
        async with reached(data) as (node, server, client), asyncio.timeout(30):
            await test(node, server, client)

    asyncio.run(main())


def test_updates_go_over_the_socket(tmp_path: Path) -> None:
    """Accepted, answered, refused with the validator's own error; the wait for an answer is the node's."""

    async def test(node: Node, server: LocalServer, client: Client) -> None:
        tray = await client.start(Tray.run(), id="t")
        put = await tray.start_update(Tray.put("a"), update_id="u")
        assert (await put.result(), await node.client.handle("t").update("put", "a", update_id="u")) == (1, 1)
        with pytest.raises(KeyError, match="nothing"):
            await tray.update(Tray.put, "")
        assert await tray.update("put", "b") == 2
        assert await tray.result() == ["a", "b"]

    with_client(tmp_path, test)


def test_a_client_does_over_the_socket_what_it_does_inside(tmp_path: Path) -> None:
    """Start, signal, result, describe, history, list, count: the same answers on both ways."""

    async def test(node: Node, server: LocalServer, client: Client) -> None:
        assert await client.execute(doubled(21), id="d") == 42
        handle = await client.start(parked("x"), id="p")
        waiting = asyncio.gather(handle.result(), client.handle("p").result())
        await handle.signal("x", "now\n")
        assert await waiting == ["now\n", "now\n"]
        inside, outside = node.client.handle("p"), client.handle("p")
        assert await outside.describe() == await inside.describe()
        assert [repr(e) for e in await outside.history(notes=True)] == [repr(e) for e in await inside.history(notes=True)]
        assert [row.workflow_id async for row in client.list(limit=1)] == ["p", "d"]
        assert await client.count() == await node.client.count() == 2
        assert abs(client.frontend.now() - node.frontend.now()) < 60_000_000

    with_client(tmp_path / "data", test)


def test_a_query_goes_over_the_socket(tmp_path: Path) -> None:
    """The answer by its hint, what the handler raised as its own class, refusals as themselves; giving up leaves nothing behind."""

    async def test(node: Node, server: LocalServer, client: Client) -> None:
        handle = await client.start(Tray.run(), id="t")
        await handle.update(Tray.put("cup"))
        assert await handle.query(Tray.holds()) == ["cup"]
        assert await handle.query("holds", 1) == []
        with pytest.raises(IndexError):
            await handle.query(Tray.holds(7))
        with pytest.raises(NotFound, match="it has: holds"):
            await handle.query("hold")
        elsewhere = await client.start(Tray.run(), id="e", queue="nobody")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(elsewhere.query(Tray.holds()), 0.05)
        with pytest.raises(Unavailable, match="queue 'nobody'"):
            await elsewhere.query(Tray.holds(), timeout=0.01)
        assert not node.frontend.queries.waiting

    with_client(tmp_path / "data", test)


def test_errors_arrive_as_themselves(tmp_path: Path) -> None:
    """Class, message and fields survive the way; so do answers to `send`."""

    async def test(node: Node, server: LocalServer, client: Client) -> None:
        started = await client.start(parked("x"), id="p")
        with pytest.raises(WorkflowAlreadyStarted) as taken:
            await client.start(parked("x"), id="p")
        assert taken.value.run_id == (await started.describe()).run_id
        with pytest.raises(NotFound):
            await client.handle("nobody").describe()
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        request = StartWorkflow(workflow_id="", workflow_type="t", run_id="r", seed=1, request_id="q")
        client.frontend.send(request, lambda reply, error: answered.set_result((reply, error)))
        reply, error = await answered
        assert reply is None
        assert isinstance(error, InvalidArgument)

    with_client(tmp_path / "data", test)


def test_only_clients_requests_are_taken(tmp_path: Path) -> None:
    """Neither end lets a worker's or the engine's own request through."""

    async def test(node: Node, server: LocalServer, client: Client) -> None:
        due = RunDue(workflow_id="w", run_id="r")
        with pytest.raises(InvalidArgument):
            await client.frontend.call(due)
        with pytest.raises(InvalidArgument):
            client.frontend.subscribe("q", "workflow", WorkerIdentity(worker="w", build_id="b"), lambda _: None, 1)
        line = json.dumps({"ask": "call", "id": 3, "request": {"type": "run_due", "workflow_id": "w", "run_id": "r"}})
        assert await asked(server, line.encode()) == (3, "INVALID_ARGUMENT")

    with_client(tmp_path / "data", test)


async def asked(server: LocalServer, line: bytes) -> tuple[int, str]:
    """One line over a connection of its own, and number and code of the answer."""
    reader, writer = await asyncio.open_connection(sock=local_socket.connect(server.path))
    writer.write(line + b"\n")
    answer = read_answer(await reader.readuntil(b"\n"))
    writer.close()
    return answer.id, "" if answer.error is None else answer.error.code


@pytest.mark.parametrize(
    ("line", "number"),
    [
        (b"hello", 0),
        (b"{}", 0),
        (b"\xff\xfe", 0),
        (b'{"id":7,"ask":"everything"}', 7),
        (b'{"id":7,"ask":"count"}', 7),
        (b'{"id":0,"ask":"count","filter":{}}', 0),
        (b'{"id":7,"ask":"runs","filter":{},"limit":1001}', 7),
        (b"[" * 100_000, 0),
    ],
)
def test_a_line_that_is_no_question_is_answered(tmp_path: Path, line: bytes, number: int) -> None:
    """With its number, when it has one; and the next connection is served as if nothing had been."""

    async def test(node: Node, server: LocalServer, client: Client) -> None:
        assert await asked(server, line) == (number, "INVALID_ARGUMENT")
        assert await asked(server, b'{"id":1,"ask":"count","filter":{}}') == (1, "")

    with_client(tmp_path / "data", test)


def test_lines_questions_and_connections_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each bound the asker is told which, and others are served on."""
    monkeypatch.setattr(local, "QUESTION_BYTES_MAX", 1_000)
    monkeypatch.setattr(local, "QUESTIONS_MAX", 2)
    monkeypatch.setattr(local, "CONNECTIONS_MAX", 2)

    async def test(node: Node, server: LocalServer, client: Client) -> None:
        await node.client.start(parked("x"), id="p")
        assert await asked(server, b" " * 5_000) == (0, "LIMIT_EXCEEDED")
        waits = [asyncio.ensure_future(client.handle("p").result()) for _ in range(3)]
        done, waiting = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        assert [error.code for wait in done if isinstance(error := wait.exception(), PerdureError)] == ["RESOURCE_EXHAUSTED"]
        second = local_socket.connect(server.path)
        assert await asked(server, b'{"id":1,"ask":"count","filter":{}}') == (0, "RESOURCE_EXHAUSTED")
        second.close()
        await node.client.handle("p").signal("x", "on")
        assert await asyncio.gather(*waiting) == ["on", "on"]

    with_client(tmp_path / "data", test)


def test_giving_up_a_wait_makes_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait that timed out is forgotten by the node too: it does not count against the bound for ever."""
    monkeypatch.setattr(local, "QUESTIONS_MAX", 2)

    async def test(node: Node, server: LocalServer, client: Client) -> None:
        await client.start(parked("x"), id="p")
        for _ in range(5):
            with pytest.raises(TimeoutError):
                await client.handle("p").result(timeout=0.01)

    with_client(tmp_path / "data", test)


def test_a_server_that_stops_tells_who_waits(tmp_path: Path) -> None:
    """Every wait fails with `Unavailable`, the socket's file is gone, and later questions fail at once."""

    async def test(node: Node, server: LocalServer, client: Client) -> None:
        await client.start(parked("x"), id="p")
        waiting = asyncio.ensure_future(client.handle("p").result())
        await client.count()  # behind the wait on the same connection, so the node has taken both
        await server.stop()
        with pytest.raises(Unavailable, match="stopping"):
            await waiting
        assert not server.path.exists()
        with pytest.raises(Unavailable):
            await client.count()
        with pytest.raises(Unavailable):
            await LocalFrontend.connect(server.path, RealClock())
        await server.stop()

    with_client(tmp_path / "data", test)


def test_a_history_of_any_size_arrives(tmp_path: Path) -> None:
    """In parts: one line would be longer than the bound, the whole is as it was."""

    async def test(node: Node, server: LocalServer, client: Client) -> None:
        await client.start(parked("x"), id="p")
        for _ in range(3):
            await client.handle("p").signal("other", "y" * 400_000)
        record = await client.frontend.record("default", "p")
        assert record == await node.frontend.record("default", "p")
        assert len(list(parts_of(record))) > 2

    with_client(tmp_path / "data", test)


def test_parts_make_up_the_record() -> None:
    """Nothing is lost, doubled or moved between parts; an empty record has none."""
    events = (
        Started(id=1, time=1, workflow_type="t", queue="q", run_id="r", seed=1),
        *(SignalReceived(id=n, time=n, name="s", input=(Raw(b'"' + b"x" * 100_000 + b'"'),)) for n in range(2, 20)),
        Completed(id=20, time=20, at=1, based_on=19),
    )
    record = Record(workflow_id="w", run_id="r", events=events, notes=(Seen(id=1, time=1, based_on=1),))
    parts = list(parts_of(record))
    assert tuple(event for part in parts for event in part.events) == events
    assert tuple(note for part in parts for note in part.notes) == record.notes
    assert len(parts) == 8
    assert list(parts_of(Record(workflow_id="w", run_id="r", events=()))) == []


def test_a_run_cut_off_in_the_middle_of_an_answer_is_unavailable(tmp_path: Path) -> None:
    """The node dies while it answers: the asker hears that it went away, and hangs in nothing."""

    async def main() -> None:
        path = tmp_path / "socket"
        bound = local_socket.bind(path)

        def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(line_of(Answer(id=1, ok=Raw(b"12")))[:-4])
            writer.close()

        async with await asyncio.start_server(half, sock=bound):
            frontend = await LocalFrontend.connect(path, RealClock())
            with pytest.raises(Unavailable, match="went away"):
                await frontend.count(RunFilter())
            await frontend.close()

    asyncio.run(main())


def test_unknown_errors_keep_their_message() -> None:
    """A node of a later version may know classes and fields this one does not."""
    assert type(error_of(Fault(code="FROM_THE_FUTURE", message="m"))) is PerdureError
    later = error_of(Fault(code="NOT_FOUND", message="m", fields={"news": 1.0}))
    assert (type(later), later.message) == (NotFound, "m")
    assert fault_of(WorkflowAlreadyStarted("m", run_id="r")) == Fault(
        code="WORKFLOW_ALREADY_STARTED", message="m", fields={"run_id": "r"}
    )


# --------------------------------------------------------------------------------------------------------- the socket's file


def test_a_socket_is_private_and_replaces_a_dead_one(tmp_path: Path) -> None:
    """Mode 0600 before anybody can connect; what a killed process left is no hindrance; any other file is."""
    path = tmp_path / "socket"
    for _ in range(2):
        bound = local_socket.bind(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        local_socket.connect(path).close()
        bound.close()  # the file stays, as after a kill
        with pytest.raises(Unavailable):
            local_socket.connect(path)
    local_socket.remove(path)
    local_socket.remove(path)
    path.write_text("mine")
    with pytest.raises(Unavailable, match="in the way"):
        local_socket.bind(path)
    assert path.read_text() == "mine"


@pytest.mark.parametrize("length", [99, 100, 101, 107, 108, 250])
def test_a_path_of_any_length_can_be_bound(tmp_path: Path, length: int) -> None:
    """Around the kernel's limit and far above it."""
    folder = tmp_path / ("d" * 200)
    room = length - len(os.fsencode(tmp_path)) - len("//socket")
    if 0 < room <= 200:
        folder = tmp_path / ("d" * room)
    folder.mkdir()
    with local_socket.bind(folder / "socket") as bound, local_socket.connect(folder / "socket") as made:
        accepted, _ = bound.accept()
        with accepted:
            made.sendall(b"x")
            assert accepted.recv(1) == b"x"
    assert bound.family == socket.AF_UNIX


def test_an_answer_too_long_for_one_line_comes_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the size of a single entry, a run can be looked at: histories, results and descriptions alike."""
    monkeypatch.setattr(local, "ANSWER_BYTES_MAX", 1_000)
    monkeypatch.setattr(local, "PIECE_BYTES", 300)

    async def test(node: Node, server: LocalServer, client: Client) -> None:
        handle = await client.start(parked("go"), id="p", memo={"note": "x" * 5_000})
        await handle.signal("go", "é" * 5_000)
        inside, outside = node.client.handle("p"), client.handle("p")
        assert await outside.result() == "é" * 5_000
        assert [repr(e) for e in await outside.history(notes=True)] == [repr(e) for e in await inside.history(notes=True)]
        assert await outside.describe() == await inside.describe()

    with_client(tmp_path, test)
