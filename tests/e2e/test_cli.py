"""The command line as people use it: real nodes in processes of their own, reached through their ports, killed where it matters."""

import asyncio
import json
import os
import re
import resource
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.request import urlopen

import pytest

import perdure

FLOWS = """
import asyncio, errno, os
from perdure import activity, workflow

@activity
async def greet(name: str) -> str:
    return f"hello {name}"

@activity
async def break_disk() -> None:
    def sync(descriptor: int) -> None:
        raise OSError(errno.EIO, "the disk is gone")
    os.fdatasync = sync

@workflow
async def hello(name: str, mark: str = "!") -> str:
    print("code may print")
    first = await greet(name)
    await asyncio.sleep(0.01)
    return first + mark

@workflow
async def waits(name: str) -> int:
    return await workflow.receive(name, int)

@workflow
async def fetches(name: str) -> int:
    return await (await workflow.start_child(waits(name), id=f"{name}-kid"))

@workflow
class Counts:
    def __init__(self) -> None:
        self.n = 0

    @workflow.run
    async def run(self, start: int) -> int:
        self.n = start
        await workflow.wait_until(lambda: self.n >= 10)
        return self.n

    @workflow.signal
    def add(self, more: int = 1) -> None:
        self.n += more

    @workflow.query
    def count(self, times: int = 1) -> dict[str, int]:
        return {"n": self.n * times}

    @workflow.query
    def broken(self) -> None:
        raise LookupError("no such thing")

@workflow
async def asks(name: str) -> str:
    first = await greet(name)
    return first + await workflow.receive("more", str)

@workflow
class Counter:
    def __init__(self) -> None:
        self.count = 0

    @workflow.run
    async def run(self) -> int:
        await workflow.wait_until(lambda: self.count >= 10)
        return self.count

    @workflow.update
    async def add(self, number: int) -> dict[str, int]:
        await greet("x")
        if number == 7:
            raise ValueError("seven")
        self.count += number
        return {"count": self.count}

    @workflow.update
    async def slow(self, number: int) -> int:
        await greet("x")
        await asyncio.sleep(1)
        self.count += number
        return self.count

    @add.validator
    def _may(self, number: int) -> None:
        if number < 0:
            raise ValueError("too little")

@workflow
async def fails(text: str) -> None:
    try:
        raise KeyError("at the bottom")
    except KeyError as error:
        raise ValueError(text) from error

@workflow
async def breaks() -> None:
    await break_disk()
    await greet("nobody")

@activity
async def hang() -> None:
    await asyncio.Event().wait()

@workflow
async def hangs() -> None:
    await hang()

@workflow
async def echo(value: object) -> object:
    return value
"""

WAITS = """
import asyncio, sys
import perdure

async def main() -> None:
    async with await perdure.connect(sys.argv[1]) as client:
        print(await client.handle("w").result())

asyncio.run(main())
"""
RENAMED = FLOWS.replace("first = await greet(name)", "first = 'hello ' + name")
PRINTS_OTHER = FLOWS.replace("return first + mark", 'return first + mark + "?"')


class Node:
    """A `perdure dev` process. Entered when it has said what it serves."""

    def __init__(self, data: Path, *options: str, limit: Callable[[], None] | None = None) -> None:
        self.data = data
        command = [sys.executable, "-m", "perdure", "dev", *options, "--data", str(data), "--port", "0", "-o", "json"]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=data.parent,
            preexec_fn=limit,  # noqa: PLW1509  no threads here
        )
        self.facts: dict[str, Any] = {}

    def announced(self) -> dict[str, Any]:
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        self.facts = json.loads(line)
        return self.facts

    def __enter__(self) -> Self:
        self.announced()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=30)

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Signal it, and return its exit code and what it said."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> tuple[int, str]:
        _, said = self.process.communicate(timeout=60)
        return self.process.returncode, said

    def run(self, *options: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        return cli(*options, data=self.data, timeout=timeout)

    def connections(self) -> int:
        """How many askers are connected: the kernel lists each accepted connection under the port it came to."""
        here = f":{int(self.facts['url'].rpartition(':')[2]):04X}"
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(row[1].endswith(here) and row[3] == "01" for row in rows)


def cli(*options: str, data: Path | None = None, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "perdure", *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    if data is not None:
        environment["PERDURE_DATA"] = str(data)
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, env=environment)


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Wait for something that only looking can tell."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.02)


def one_line(text: str) -> str:
    assert text.endswith("\n"), text
    assert text.count("\n") == 1, text
    return text.strip()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "flows.py").write_text(FLOWS)
    return tmp_path / "data"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """One node for the tests that leave it as it is. The run `open` waits for a signal, `done` has ended, `bad` has failed."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "flows.py").write_text(FLOWS)
    with Node(folder / "data", "flows.py") as running:
        assert running.run("workflow", "start", "waits", "--id", "open", "--input", '"x"').returncode == 0
        assert running.run("workflow", "start", "hello", "--id", "done", "--input", '"ann"', "--wait").returncode == 0
        assert running.run("workflow", "start", "fails", "--id", "bad", "--input", '"too late"', "--wait").returncode == 1
        yield running


# ------------------------------------------------------------------------------------------------------------------ verbs


def test_a_node_says_what_it_serves(node: Node) -> None:
    """One line of JSON: where, what, and as which process."""
    assert node.facts["pid"] == node.process.pid
    assert json.load(urlopen(f"{node.facts['url']}/readyz"))["status"] == "ready"
    assert node.facts["workflows"] == [
        "Counter",
        "Counts",
        "asks",
        "breaks",
        "echo",
        "fails",
        "fetches",
        "hangs",
        "hello",
        "waits",
    ]
    assert node.facts["activities"] == ["break_disk", "greet", "hang"]
    assert node.facts["queues"] == ["default"]
    announced = node.data / "server.json"
    assert stat.S_IMODE(announced.stat().st_mode) == 0o600
    assert json.loads(announced.read_text()) == {"url": node.facts["url"], "pid": node.process.pid}


def test_describe_shows_children(node: Node) -> None:
    """A parent waits for its child, whose description says whose child it is."""
    node.run("workflow", "start", "fetches", "--id", "mum", "--input", '"sock"')

    def waiting() -> bool:
        return "· running" in node.run("workflow", "describe", "mum").stdout

    until(waiting)
    assert "child · waits · sock-kid · running" in node.run("workflow", "describe", "mum").stdout
    parent = json.loads(node.run("workflow", "describe", "sock-kid", "-o", "json").stdout)["parent"]
    assert parent[0] == "mum"
    node.run("workflow", "signal", "sock-kid", "sock", "--input", "2")
    assert node.run("workflow", "result", "mum").stdout == "2\n"


def test_start_waits_for_the_result(node: Node) -> None:
    """`--wait` gives what `result` gives: the value as JSON, or everything about the outcome with -o json."""
    started = node.run("workflow", "start", "hello", "--id", "h1", "--input", '"bob"', "--input", '"?"', "--wait")
    assert (started.returncode, started.stdout, started.stderr) == (0, '"hello bob?"\n', "")
    result = node.run("workflow", "result", "h1", "-o", "jsonl")
    told = json.loads(one_line(result.stdout))
    assert told.pop("run_id")
    assert told == {"workflow_id": "h1", "status": "completed", "result": "hello bob?"}


@pytest.mark.parametrize("value", ["[1,2]", "-5", '{"a": [null]}', "123456789012345678901234567890", '"--data"', "1.10"])
def test_an_argument_arrives_as_it_was_typed(node: Node, value: str) -> None:
    """One `--input` is one argument, whatever JSON it is, and no digit of it is lost."""
    done = node.run("workflow", "start", "echo", "--input", value, "--wait")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout, parse_float=str) == json.loads(value, parse_float=lambda text: str(float(text)))


def test_a_wait_for_nobody_says_so(node: Node) -> None:
    """A type that no worker knows: told while the command waits, and again when its time is up."""
    done = node.run("workflow", "start", "no_such_type", "--id", "typo", "--wait", "--wait-timeout", "4")
    assert done.returncode == 124
    meanwhile, end = done.stderr.splitlines()
    assert meanwhile.startswith("perdure: workflow 'typo' stands still: no worker of queue 'default' can take 'no_such_type'")
    assert end.startswith("perdure: workflow 'typo' has not ended within 4 s; it goes on, but stands still: ")
    as_json = node.run("workflow", "result", "typo", "--timeout", "4", "-o", "json")
    assert json.loads(one_line(as_json.stderr))["error"]["code"] == "TIMEOUT"
    assert node.run("workflow", "terminate", "typo").returncode == 0


def test_a_failed_workflow_is_exit_code_1(node: Node) -> None:
    """Its failure is data with -o json, and words with its cause otherwise."""
    told = node.run("workflow", "result", "bad", "-o", "json")
    outcome = json.loads(told.stdout)
    assert told.returncode == 1
    assert (outcome["status"], outcome["failure"]["type"], outcome["failure"]["message"]) == (
        "failed",
        "ValueError",
        "too late",
    )
    assert "result" not in outcome
    words = node.run("workflow", "result", "bad")
    assert (words.returncode, words.stdout) == (1, "")
    assert words.stderr.splitlines()[0] == "perdure: workflow 'bad' failed: ValueError: too late"
    assert "caused by KeyError" in words.stderr
    assert re.search(r"\n  File .*, line \d+, in fails: raise ValueError", words.stderr)


def test_a_query_is_answered_in_json(node: Node) -> None:
    """Arguments, signals without a value, unknown names, what the handler raises, a closed run: each with its exit code."""
    assert node.run("workflow", "start", "Counts", "--id", "c1", "--input", "1").returncode == 0
    assert node.run("workflow", "signal", "c1", "add").returncode == 0
    asked = node.run("workflow", "query", "c1", "count", "--input", "3")
    assert (asked.returncode, json.loads(asked.stdout)) == (0, {"n": 6})
    asked = node.run("workflow", "query", "c1", "count", "-o", "json")
    assert json.loads(asked.stdout) == {"workflow_id": "c1", "result": {"n": 2}}
    raised = node.run("workflow", "query", "c1", "broken")
    assert (raised.returncode, raised.stdout) == (1, "")
    assert "LookupError: 'no such thing'" in raised.stderr or "LookupError: no such thing" in raised.stderr
    assert node.run("workflow", "query", "c1", "nothing").returncode == 3
    assert node.run("workflow", "query", "c1", "count", "--input", '"x"').returncode == 2
    assert node.run("workflow", "query", "open", "count").returncode == 3
    assert node.run("workflow", "signal", "c1", "add", "--input", "20").returncode == 0
    assert node.run("workflow", "result", "c1", "--timeout", "20").stdout.strip() == "22"
    assert json.loads(node.run("workflow", "query", "c1", "count").stdout) == {"n": 22}


def test_a_signal_ends_a_wait(node: Node) -> None:
    """Start, describe, signal twice under one id, result: the run takes one."""
    assert node.run("workflow", "start", "waits", "--id", "s1", "--input", '"n"').returncode == 0
    described = json.loads(node.run("workflow", "describe", "s1", "-o", "json").stdout)
    assert (described["status"], described["type"], described["queue"]) == ("running", "waits", "default")
    for _ in range(2):
        assert node.run("workflow", "signal", "s1", "n", "--input", "7", "--signal-id", "once").returncode in {0, 4}
    assert node.run("workflow", "result", "s1").stdout == "7\n"
    events = json.loads(node.run("workflow", "history", "s1", "-o", "json").stdout)
    assert [event["type"] for event in events] == ["started", "signal_received", "completed"]
    assert events[1]["signal_id"] == "once"


def test_cancel_and_terminate(node: Node) -> None:
    """Both end a run, each in its own way, and its result is exit code 1."""
    for verb, status in (("cancel", "cancelled"), ("terminate", "terminated")):
        node.run("workflow", "start", "waits", "--id", verb, "--input", '"n"')
        assert node.run("workflow", verb, verb, "--reason", "enough").returncode == 0
        result = node.run("workflow", "result", verb, "-o", "json")
        assert (result.returncode, json.loads(result.stdout)["status"]) == (1, status)


def test_list_filters_and_pages(node: Node) -> None:
    """Newest first; filters narrow it; the cursor goes on where a page ended."""
    page = json.loads(node.run("workflow", "list", "--type", "fails", "--status", "failed", "-o", "json").stdout)
    assert [item["workflow_id"] for item in page["items"]] == ["bad"]
    assert page["cursor"] is None
    first = json.loads(node.run("workflow", "list", "--limit", "1", "-o", "json").stdout)
    second = json.loads(node.run("workflow", "list", "--limit", "1", "--cursor", first["cursor"], "-o", "json").stdout)
    assert first["items"][0]["started_at"] >= second["items"][0]["started_at"]
    page = json.loads(node.run("workflow", "list", "type = 'fails' and status != 'running'", "-o", "json").stdout)
    assert {item["type"] for item in page["items"]} == {"fails"}
    assert node.run("workflow", "count", "type = 'fails' and status != 'running'").stdout == f"{len(page['items'])}\n"
    counted = json.loads(node.run("workflow", "count", "--type", "fails", "-o", "json").stdout)
    assert counted["count"] >= len(page["items"])
    refused = node.run("workflow", "list", "type = fails", "-o", "json")
    assert refused.returncode == 2
    assert json.loads(refused.stderr)["error"]["details"] == {"column": 8}
    assert node.run("workflow", "list", "--started-before", "2001-01-01", "-o", "jsonl").stdout == ""
    table = node.run("workflow", "list", "--started-after", "2001-01-01T00:00:00+02:00", "--type", "fails").stdout
    assert table.splitlines()[0].startswith("WORKFLOW ID")
    assert table.splitlines()[1].split()[0] == "bad"


# -------------------------------------------------------------------------------------------------------------- exit codes


@pytest.mark.parametrize(
    "command",
    [
        ("workflow", "start", "hello", "--input", "bob"),
        ("workflow", "start", "hello", "--input", "{"),
        ("workflow", "start", "hello", "--input", '"\udcff"'),
        ("workflow", "start", "hello", "--id", ""),
        ("workflow", "start", "hello", "--id", "a\nb"),
        ("workflow", "start", "hello", "--id", "\udcff"),
        ("workflow", "start", "hello", "--id", "x" * 256),
        ("workflow", "start", ""),
        ("workflow", "start"),
        ("workflow", "start", "hello", "--on-conflict", "never"),
        ("workflow", "start", "hello", "--timeout", "0"),
        ("workflow", "result", ""),
        ("workflow", "result", "open", "--timeout", "-1"),
        ("workflow", "signal", "open", "x", "--input", "1", "--input", "2"),
        ("workflow", "signal", "open", "", "--input", "1"),
        ("workflow", "list", "--status", "happy"),
        ("workflow", "list", "--limit", "0"),
        ("workflow", "list", "--limit", "1001"),
        ("workflow", "list", "--cursor", "nonsense"),
        ("workflow", "list", "--started-after", "yesterday"),
        ("workflow", "list", "--namespace", ""),
        ("frobnicate",),
        ("journal", "export", "DATA", "--run", "r"),
        ("replay", "flows"),
        ("sim",),
        ("sim", "--seed", "1", "--seeds", "0"),
    ],
)
def test_bad_input_is_exit_code_2_and_one_line(node: Node, command: tuple[str, ...]) -> None:
    """Never a traceback, never a guess; with -o json the line is JSON."""
    command = tuple(str(node.data) if part == "DATA" else part for part in command)
    done = node.run(*command)
    assert done.returncode == 2, done
    assert one_line(done.stderr).startswith("perdure: ")
    assert done.stdout == ""
    if command[0] == "workflow":
        error = json.loads(one_line(node.run(*command, "-o", "json").stderr))["error"]
        assert error["code"] in {"INVALID_ARGUMENT", "PAYLOAD_TOO_LARGE"}
        assert error["message"]


@pytest.mark.parametrize("verb", ["result", "describe", "history", "cancel", "terminate", "pause", "resume", "signal", "query"])
def test_what_is_not_there_is_exit_code_3(node: Node, verb: str) -> None:
    """For every verb that names a workflow id; for those that read also with a run id that is none of its runs."""
    rest = ("x",) if verb in {"signal", "query"} else ()
    done = node.run("workflow", verb, "nobody", *rest, "-o", "json")
    assert done.returncode == 3
    assert json.loads(one_line(done.stderr))["error"]["code"] == "NOT_FOUND"
    if verb in {"result", "describe", "history"}:
        assert node.run("workflow", verb, "open", "--run", "no-such-run").returncode == 3


def test_a_taken_id_and_a_closed_run_are_exit_code_4(node: Node) -> None:
    """Conflicts: an open run of the id, a closed one that must not be repeated, a signal too late."""
    taken = node.run("workflow", "start", "waits", "--id", "open", "--input", '"x"')
    assert taken.returncode == 4
    assert "is running" in one_line(taken.stderr)
    assert "--on-conflict attach" in taken.stderr
    assert "--on-conflict terminate" in taken.stderr
    assert node.run("workflow", "start", "waits", "--id", "open", "--input", '"x"', "--on-conflict", "attach").returncode == 0
    taken = node.run("workflow", "start", "hello", "--id", "done", "--input", '"x"', "--reuse", "never")
    assert taken.returncode == 4
    assert "--reuse never" in one_line(taken.stderr)
    assert "--on-conflict" not in taken.stderr
    late = node.run("workflow", "signal", "done", "x", "-o", "json")
    assert late.returncode == 4
    assert json.loads(one_line(late.stderr))["error"]["code"] == "WORKFLOW_CLOSED"


def test_pausing_and_resetting_a_run(node: Node) -> None:
    """`pause` shows in `describe` and in a wait that ends, `resume` ends it; `reset` prints the new run, and refuses what is no event."""
    first = node.run("workflow", "start", "waits", "--id", "steered", "--input", '"x"', "-o", "json")
    run_id = json.loads(first.stdout)["run_id"]
    assert node.run("workflow", "pause", "steered", "--reason", "look").returncode == 0
    assert json.loads(node.run("workflow", "describe", "steered", "-o", "json").stdout)["status"] == "paused"
    waited = node.run("workflow", "result", "steered", "--timeout", "0.2")
    assert waited.returncode == 124
    assert "is paused" in waited.stderr
    assert node.run("workflow", "resume", "steered").returncode == 0
    again = json.loads(node.run("workflow", "reset", "steered", "--event", "1", "--reason", "anew", "-o", "json").stdout)
    assert again["run_id"] != run_id
    old = json.loads(node.run("workflow", "describe", "steered", "--run", run_id, "-o", "json").stdout)
    assert (old["status"], old["reason"]) == ("terminated", f"reset to event 1 in run {again['run_id']}: anew")
    assert node.run("workflow", "reset", "steered", "--event", "99").returncode == 2
    assert node.run("workflow", "reset", "nobody", "--event", "1").returncode == 3
    node.run("workflow", "terminate", "steered")


def test_waiting_too_long_is_exit_code_124(node: Node) -> None:
    """Both ways of waiting give up and leave the run alone."""
    assert node.run("workflow", "result", "open", "--timeout", "0.05").returncode == 124
    done = node.run(
        "workflow", "start", "waits", "--id", "t1", "--input", '"x"', "--wait", "--wait-timeout", "0.05", "-o", "json"
    )
    assert done.returncode == 124
    assert json.loads(one_line(done.stderr))["error"]["code"] == "TIMEOUT"
    assert json.loads(node.run("workflow", "describe", "t1", "-o", "json").stdout)["status"] == "running"


def test_no_node_and_no_journal_is_exit_code_6(tmp_path: Path) -> None:
    """The message says how to start one; nothing is created."""
    for verb in ("list", "describe", "cancel"):
        done = cli("workflow", verb, *(() if verb == "list" else ("x",)), data=tmp_path / "nowhere")
        assert done.returncode == 6
        assert "perdure dev" in one_line(done.stderr)
    assert cli("journal", "export", str(tmp_path / "nowhere")).returncode == 3
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_exit_code_5_with_the_time_to_wait(place: Path) -> None:
    """Refused starts say when to come back; the node lives on and answers."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (16_384, 16_384))

    with Node(place, "flows.py", limit=limit) as running:
        value = json.dumps("x" * 10_000)
        for _ in range(3):
            done = running.run("workflow", "start", "echo", "--input", value)
            if done.returncode:
                break
        assert done.returncode == 5, done
        assert "try again after 1 s" in one_line(done.stderr)
        error = json.loads(one_line(running.run("workflow", "start", "echo", "--input", value, "-o", "json").stderr))["error"]
        assert (error["code"], error["details"]) == ("RESOURCE_EXHAUSTED", {"retry_after": 1.0})
        assert running.run("workflow", "list").returncode == 0


# -------------------------------------------------------------------------------------------------------------- the node's life


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_node_stops_cleanly(place: Path, number: int) -> None:
    """Exit code 0, its socket gone; whoever waited hears of it; another node takes the directory at once."""
    with Node(place, "flows.py") as running:
        assert running.run("workflow", "start", "waits", "--id", "w", "--input", '"x"').returncode == 0
        waiting = waiter(place, "w")
        until(lambda: running.connections() == 1)
        code, said = running.stop(number)
        assert code == 0, said
        assert "stopping" in said
        assert not (place / "server.json").exists()
        assert waiting.wait(60) == 6
        assert "perdure: " in one_line(waiting.communicate()[1])
    with Node(place, "flows.py") as again:
        assert again.run("workflow", "signal", "w", "x", "--input", "1").returncode == 0
        assert again.run("workflow", "result", "w").stdout == "1\n"


def test_the_grace_period_is_a_bound(place: Path) -> None:
    """An activity that does not end holds a stopping node up so long and no longer; the run is there afterwards."""
    with Node(place, "flows.py", "--grace", "0.1") as running:
        hang(running)
        code, said = running.stop()
        assert code == 0, said
    assert json.loads(cli("workflow", "describe", "h", "-o", "json", data=place).stdout)["status"] == "running"


def test_a_second_signal_is_not_patient(place: Path) -> None:
    """Whoever asks twice does not wait for the grace period; nothing acknowledged is lost by that."""
    with Node(place, "flows.py") as running:
        hang(running)
        running.process.send_signal(signal.SIGINT)
        assert "30 s" in running.process.stderr.readline()
        code, said = running.stop(signal.SIGINT)
        assert code == 130
        assert "at once" in said
    with Node(place, "flows.py") as again:
        assert again.run("workflow", "terminate", "h").returncode == 0


def hang(running: Node) -> None:
    """Start the run `h` and wait until its activity has begun."""
    assert running.run("workflow", "start", "hangs", "--id", "h").returncode == 0

    def begun() -> bool:
        pending = json.loads(running.run("workflow", "describe", "h", "-o", "json").stdout).get("pending", [])
        return any(item["kind"] == "activity" and item.get("state") == "running" for item in pending)

    until(begun)


def test_an_update_prints_its_answer(place: Path) -> None:
    """Once for one update id; refused is exit code 5, failed 1, a closed run 4."""
    with Node(place, "flows.py") as node:
        node.run("workflow", "start", "Counter", "--id", "c")

        def update(*rest: str) -> Any:
            return node.run("workflow", "update", "c", *rest)

        for _ in range(2):
            assert json.loads(update("add", "--input", "3", "--update-id", "u").stdout) == {"count": 3}
        told = json.loads(update("add", "--input", "2", "-o", "json").stdout)
        assert (told["workflow_id"], told["status"], told["result"]) == ("c", "completed", {"count": 5})
        refused = update("add", "--input", "-1")
        assert (refused.returncode, "too little" in one_line(refused.stderr)) == (5, True)
        assert update("sell").returncode == 5
        failed = update("add", "--input", "7", "-o", "json")
        assert (failed.returncode, json.loads(failed.stdout)["failure"]["message"]) == (1, "seven")
        assert update("add", "--input", "9", "--accepted").returncode == 0
        assert node.run("workflow", "result", "c").stdout == "14\n"
        assert update("add", "--input", "1").returncode == 4


@pytest.mark.rule("O1")
def test_an_accepted_update_survives_a_kill(place: Path) -> None:
    """kill -9 while its handler sleeps: whoever waits hears exit code 6, and the same id is answered by the next node, done once."""
    command = [sys.executable, "-m", "perdure", "workflow", "update", "c", "slow", "--input", "5", "--update-id", "u"]
    with Node(place, "flows.py") as running:
        running.run("workflow", "start", "Counter", "--id", "c")
        assert running.run("workflow", "update", "c", "slow", "--input", "5", "--update-id", "u", "--accepted").returncode == 0
        waiting = subprocess.Popen([*command, "--data", str(place)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until(lambda: running.connections() == 1)
        running.process.kill()
        running.process.wait(30)
        code, said = waiting.wait(30), waiting.communicate()
        assert code == 6 or (code, said[0]) == (0, "5\n"), said
    with Node(place, "flows.py") as again:
        assert again.run("workflow", "update", "c", "slow", "--input", "5", "--update-id", "u").stdout == "5\n"
        history = again.run("workflow", "history", "c").stdout
        assert (history.count("update_accepted"), history.count("update_completed")) == (1, 1)


@pytest.mark.rule("F11")
def test_resume_offers_a_quarantined_run_again(place: Path) -> None:
    """Changed code quarantines a run; `describe` says what did not match, `resume` offers it anew, mended code finishes it."""
    flows = place.parent / "flows.py"
    with Node(place, "flows.py") as running:
        running.run("workflow", "start", "asks", "--id", "q", "--input", '"ann"')
        until(lambda: "activity_completed" in running.run("workflow", "history", "q").stdout)
    flows.write_text(RENAMED)
    with Node(place, "flows.py") as running:
        running.run("workflow", "signal", "q", "more", "--input", '"!"')
        until(lambda: json.loads(running.run("workflow", "describe", "q", "-o", "json").stdout)["status"] == "quarantined")
        assert "greet" in running.run("workflow", "history", "q", "--notes").stdout.split("quarantined")[1]
        told = running.run("workflow", "describe", "q").stdout
        items = json.loads(running.run("workflow", "describe", "q", "-o", "json").stdout)["pending"]
        build = next(item["name"] for item in items if item["kind"] == "resume")
        assert f"  resume · or a build other than {build} · " in told
        assert "waiting for a worker of another build that knows workflow type 'asks' on queue 'default'" in told
        waited = running.run("workflow", "result", "q", "--timeout", "0.05")
        assert waited.returncode == 124
        assert "workflow 'q' is quarantined: " in one_line(waited.stderr)
        assert "greet" in waited.stderr
        assert "the code is mended and the worker restarted, or after: perdure workflow resume q" in waited.stderr
        assert running.run("workflow", "resume", "q", "--reason", "look again").returncode == 0
        until(lambda: running.run("workflow", "history", "q", "--notes").stdout.count("  quarantined") == 2)
    flows.write_text(FLOWS)
    with Node(place, "flows.py") as running:
        running.run("workflow", "resume", "q")
        assert running.run("workflow", "result", "q", "--timeout", "30").stdout == '"hello ann!"\n'


def waiter(data: Path, workflow_id: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "perdure", "workflow", "result", workflow_id, "--data", str(data)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.rule("O1")
def test_a_killed_node_is_exit_code_6_for_who_waits(place: Path) -> None:
    """kill -9 of the node: the waiting command says so after a while in which it might have come back, and the run goes on in the next node."""
    with Node(place, "flows.py") as running:
        assert running.run("workflow", "start", "waits", "--id", "w", "--input", '"x"').returncode == 0
        waiting = waiter(place, "w")
        until(lambda: running.connections() == 1)
        running.process.kill()
        running.process.wait(30)
        assert waiting.wait(60) == 6
        assert "cannot be reached" in one_line(waiting.communicate()[1])
    assert cli("workflow", "signal", "w", "x", data=place).returncode == 6
    with Node(place, "flows.py") as again:  # over the dead one's socket
        assert again.run("workflow", "signal", "w", "x", "--input", "1").returncode == 0
        assert again.run("workflow", "result", "w").stdout == "1\n"


def test_two_nodes_do_not_share_a_directory(place: Path) -> None:
    """The second ends with exit code 6 and names the first; the first does not notice."""
    with Node(place, "flows.py") as first:
        second = Node(place, "flows.py")
        code, said = second.ended()
        assert code == 6
        assert str(first.process.pid) in said
        assert first.run("workflow", "list").returncode == 0


def test_a_taken_port_is_exit_code_6_and_says_by_whom(place: Path, tmp_path: Path) -> None:
    """A perdure node there is named, another program is not taken for one; the option that helps is named, and the directory is free."""
    with Node(place, "flows.py") as first:
        port = first.facts["url"].rpartition(":")[2]
        done = cli("dev", "--data", str(tmp_path / "other"), "--port", port)
        assert done.returncode == 6
        assert f"port {port} of 127.0.0.1 is taken by a perdure node, version {version('perdure')}" in one_line(done.stderr)
        assert "--port" in done.stderr
        assert not (tmp_path / "other" / "server.json").exists()
    with socket.create_server(("127.0.0.1", 0)) as other:
        done = cli("dev", "--data", str(tmp_path / "other"), "--port", str(other.getsockname()[1]))
        assert (done.returncode, "is taken by another program" in one_line(done.stderr)) == (6, True)


def test_strangers_are_not_let_in(tmp_path: Path) -> None:
    """Beyond this machine a node without keys listens only for who insists."""
    done = cli("dev", "--data", str(tmp_path / "data"), "--host", "0.0.0.0", "--port", "0")
    assert (done.returncode, "--insecure" in one_line(done.stderr)) == (2, True)
    assert not (tmp_path / "data").exists()


def test_a_failed_sync_ends_the_node(place: Path) -> None:
    """A node that cannot write stops with exit code 1 and says why; whoever waits is not left waiting."""
    with Node(place, "flows.py") as running:
        started = running.run("workflow", "start", "breaks", "--id", "b", "--wait")
        assert started.returncode == 6
        code, said = running.ended()
        assert code == 1
        assert "the disk is gone" in said
        assert "Traceback" not in said, said


@pytest.mark.parametrize(
    ("name", "source", "about"),
    [
        ("nope.py", None, "nope.py"),
        ("nope", None, "nope"),
        ("bad-name", None, "bad-name"),
        ("empty.py", "", "nothing to register"),
        ("broken.py", "def (", "SyntaxError"),
        ("raises.py", "1 / 0", "ZeroDivisionError"),
        ("leaves.py", "raise SystemExit(0)", "SystemExit"),
        ("needs.py", "import not_installed_anywhere", "not_installed_anywhere"),
        ("json.py", "x = 1", "json"),
    ],
)
def test_a_module_that_cannot_be_served_is_exit_code_2(tmp_path: Path, name: str, source: str | None, about: str) -> None:
    """One line that says what is wrong; no directory is made for nothing."""
    if source is not None:
        (tmp_path / name).write_text(source)
    target = str(tmp_path / name) if name.endswith(".py") else name
    done = cli("dev", target, "--data", str(tmp_path / "data"))
    assert done.returncode == 2, done
    assert about in one_line(done.stderr)
    assert not (tmp_path / "data").exists()


@pytest.mark.slow
def test_reload_runs_the_code_as_it_is_now(place: Path) -> None:
    """A saved change starts the node again in the same process; a file that cannot be loaded is waited out, by clients too."""
    source = place.parent / "flows.py"
    with Node(place, "flows.py", "--reload") as running:
        assert running.run("workflow", "start", "hello", "--input", '"a"', "--wait").stdout == '"hello a!"\n'
        assert running.run("workflow", "start", "waits", "--id", "w", "--input", '"x"').returncode == 0
        client = subprocess.Popen(
            [sys.executable, "-c", WAITS, running.facts["url"]], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        until(lambda: running.connections() == 1)
        source.write_text("def (")
        until(lambda: not (place / "server.json").exists())
        source.write_text(PRINTS_OTHER)
        before = running.facts["url"]
        assert running.announced()["pid"] == running.process.pid
        assert running.facts["url"] == before
        assert running.run("workflow", "signal", "w", "x", "--input", "7").returncode == 0
        assert client.communicate(timeout=60) == ("7\n", None)
        assert running.run("workflow", "start", "hello", "--input", '"a"', "--wait").stdout == '"hello a!?"\n'
        assert running.stop()[0] == 0


# ---------------------------------------------------------------------------------------------------------- without a node


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory whose node was killed: two runs ended, one open."""
    folder = tmp_path_factory.mktemp("stopped")
    (folder / "flows.py").write_text(FLOWS)
    (folder / "renamed.py").write_text(RENAMED)
    with Node(folder / "data", "flows.py") as running:
        running.run("workflow", "start", "hello", "--id", "done", "--input", '"ann"', "--wait")
        running.run("workflow", "start", "fails", "--id", "bad", "--input", '"no"', "--wait")
        running.run("workflow", "start", "waits", "--id", "open", "--input", '"x"')
        exported = running.run("journal", "export", str(folder / "data")).stdout
        (folder / "all.jsonl").write_text(exported)
    return folder


def test_a_stopped_node_can_be_read(stopped: Path) -> None:
    """list, describe, history and the results of closed runs come from the journal, which is not touched."""
    data = stopped / "data"
    before = {path: path.stat().st_mtime_ns for path in data.rglob("*")}
    rows = json.loads(cli("workflow", "list", "-o", "json", data=data).stdout)["items"]
    assert [(row["workflow_id"], row["status"]) for row in rows] == [
        ("open", "running"),
        ("bad", "failed"),
        ("done", "completed"),
    ]
    assert cli("workflow", "result", "done", data=data).stdout == '"hello ann!"\n'
    assert cli("workflow", "result", "bad", data=data).returncode == 1
    assert json.loads(cli("workflow", "describe", "open", "-o", "json", data=data).stdout)["status"] == "running"
    assert "activity_scheduled" in cli("workflow", "history", "done", data=data).stdout
    assert cli("workflow", "describe", "nobody", data=data).returncode == 3
    waiting = cli("workflow", "result", "open", data=data)
    assert (waiting.returncode, f"perdure dev MODULE --data {data}" in one_line(waiting.stderr)) == (6, True)
    assert cli("workflow", "terminate", "open", data=data).returncode == 6
    assert {path: path.stat().st_mtime_ns for path in data.rglob("*")} == before


def test_nothing_is_read_past_a_node_that_takes_no_commands(tmp_path: Path) -> None:
    """A program's own embedded node holds the directory: commands say so and name it."""

    async def main() -> subprocess.CompletedProcess[str]:
        async with perdure.embedded(tmp_path / "data"):
            return await asyncio.to_thread(cli, "workflow", "list", data=tmp_path / "data")

    done = asyncio.run(main())
    assert done.returncode == 6
    assert str(os.getpid()) in one_line(done.stderr)


def test_export_is_the_same_with_and_without_a_node(stopped: Path) -> None:
    """Runs oldest first, and each by itself gives the same lines."""
    data = stopped / "data"
    whole = (stopped / "all.jsonl").read_text()
    assert cli("journal", "export", str(data)).stdout == whole
    parts = [cli("journal", "export", str(data), workflow_id).stdout for workflow_id in ("done", "bad", "open")]
    assert "".join(parts) == whole
    assert cli("workflow", "history", "bad", "--jsonl", data=data).stdout == parts[1]
    run_id = json.loads(parts[0].splitlines()[0])["history"]["run_id"]
    assert cli("journal", "export", str(data), "done", "--run", run_id).stdout == parts[0]
    assert cli("journal", "export", str(data), "nobody").returncode == 3


@pytest.mark.scenario(25)
def test_replay_tells_good_code_from_changed_code(stopped: Path) -> None:
    """The code that made the histories reproduces them, strictly too; changed code is a mismatch that names both commands."""
    histories = str(stopped / "all.jsonl")
    good = cli("replay", str(stopped / "flows.py"), histories, "--strict", "-o", "json")
    assert good.returncode == 0, good
    assert [(verdict["workflow_id"], verdict["verdict"]) for verdict in json.loads(good.stdout)] == [
        ("done", "ok"),
        ("bad", "ok"),
        ("open", "ok"),
    ]
    changed = cli("replay", str(stopped / "renamed.py"), histories, "-o", "jsonl")
    assert changed.returncode == 1
    verdicts = [json.loads(line) for line in changed.stdout.splitlines()]
    assert [verdict["verdict"] for verdict in verdicts] == ["mismatch", "ok", "ok"]
    assert "activity scheduled 'greet'" in verdicts[0]["expected"]
    assert "start timer" in verdicts[0]["found"]
    words = cli("replay", str(stopped / "renamed.py"), histories).stdout
    assert verdicts[0]["expected"] in words
    assert verdicts[0]["found"] in words


def test_replay_refuses_what_is_no_history(stopped: Path, tmp_path: Path) -> None:
    """Not an export or not readable: 2. An export that has been changed or cut: 1. Types nobody here knows: 2."""
    flows = str(stopped / "flows.py")
    whole = (stopped / "all.jsonl").read_bytes()
    other = tmp_path / "other.py"
    other.write_text("from perdure import workflow\n@workflow\nasync def another() -> None: ...\n")
    for name, text, code in (
        ("empty", b"", 2),
        ("text", b"hello\n", 2),
        ("json", b"{}\n", 2),
        ("changed", whole.replace(b"ann", b"bob", 1), 1),
        ("cut", whole[: len(whole) // 2], 1),
    ):
        (tmp_path / name).write_bytes(text)
        done = cli("replay", flows, str(tmp_path / name))
        assert done.returncode == code, (name, done)
        assert f"/{name}: " in done.stderr.splitlines()[-1]
        assert done.stdout == ""
    assert cli("replay", flows, str(tmp_path / "missing")).returncode == 2
    assert cli("replay", str(other), str(stopped / "all.jsonl")).returncode == 2


# ------------------------------------------------------------------------------------------------------------------ itself


def test_version() -> None:
    """`perdure version`, `perdure --version` and the package agree."""
    assert cli("version").stdout == cli("--version").stdout == f"{version('perdure')}\n"


def test_help_names_exactly_what_there_is() -> None:
    """Commands that do not exist yet are not there; every one explains itself."""
    told = cli("--help").stdout
    commands = [line.split(":")[0].strip() for line in told.split("Commands:")[1].splitlines() if line.startswith("  ")]
    assert [name for name in commands if not name.startswith("-")] == [
        *("bench", "chaos", "config", "demo", "dev", "doctor", "journal", "key", "lint"),
        *("replay", "rules", "server", "sim", "version", "worker", "workflow"),
    ]
    for command in ("dev", "demo", "workflow start", "workflow history", "replay", "journal export", "sim"):
        done = cli(*command.split(), "--help")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("Usage: perdure")


def test_a_reader_that_leaves_early_is_no_traceback(stopped: Path) -> None:
    """`perdure … | head -1`: no complaint on standard error."""
    command = f"{sys.executable} -m perdure journal export {stopped / 'data'} | head -c 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
