"""Server, workers and clients as processes of their own, killed and stopped where it matters. What activities do is kept in a file: a line each."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Limits

FLOWS = """
import asyncio, multiprocessing, os
from pathlib import Path
from perdure import Retry, activity, workflow

BOOK = Path(__file__).with_name("book.txt")
GATE = Path(__file__).with_name("gate")

def write(*words: object) -> None:
    with BOOK.open("a") as book:
        book.write(" ".join(map(str, words)) + "\\n")

@activity
async def charge(order: str) -> str:
    write("charge", order, activity.info().attempt)
    return f"receipt for {order}"

@activity
async def until_stopping(name: str) -> str:
    write("begun", name, activity.info().attempt)
    while not activity.is_stopping():
        await asyncio.sleep(0.02)
    write("left", name)
    return "left in time"

@activity
async def once_more(name: str) -> int:
    write("begun", name, activity.info().attempt)
    if activity.info().attempt == 1:
        await asyncio.Event().wait()
    return activity.info().attempt

@workflow
async def order(name: str) -> str:
    receipt = await charge(name)
    return receipt + " " + await workflow.receive("go", str)

@workflow
async def pid() -> int:
    return await whose()

@activity
async def whose() -> int:
    return os.getpid()

@activity
async def outlasts(name: str) -> int:
    write("begun", name, activity.info().attempt)
    while not GATE.exists():
        await asyncio.sleep(0.05)
    return activity.info().attempt

@workflow
async def long(name: str) -> int:
    return await outlasts(name)

@workflow
async def waits(name: str) -> str:
    return await until_stopping(name)

@workflow
async def cut(name: str) -> int:
    return await once_more(name)

@activity(retry=Retry(max_attempts=1))
def in_a_pool() -> list[int]:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map(abs, [-1, -2])

@activity(retry=Retry(max_attempts=1))
def forks_on_a_thread() -> str:
    return "parent" if os.fork() else "child"

@activity(retry=Retry(max_attempts=1))
async def forks_on_the_loop() -> str:
    return "parent" if os.fork() else "child"

@workflow
async def forking() -> list[object]:
    return [await in_a_pool(), await forks_on_a_thread(), await forks_on_the_loop(), await whose()]
"""

CLIENT = """
import asyncio, sys
import perdure

async def main() -> None:
    async with await perdure.connect() as client:
        handles = [await client.start("order", f"o{n}", id=f"o{n}") for n in range(20)]
        print("started", flush=True)
        for handle in handles:
            print(await handle.result(timeout=100), flush=True)

asyncio.run(main())
"""


class Process:
    """One `perdure` process (or a script), its first line of JSON, and what it says on standard error, in a file."""

    def __init__(self, folder: Path, name: str, *command: str, script: bool = False, address: str = "", **env: str) -> None:
        self.said_in = folder / f"{name}-{time.monotonic_ns()}.err"
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PERDURE_")}
        if address:
            environment["PERDURE_ADDRESS"] = address
        with self.said_in.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, *command] if script else [sys.executable, "-m", "perdure", *command],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=folder,
                env=environment | env,
            )
        self.facts: dict[str, Any] = {}

    def announced(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.said
        self.facts = json.loads(line)
        return self.facts

    @property
    def said(self) -> str:
        return self.said_in.read_text()

    def stop(self, number: int = signal.SIGTERM, seconds: float = 60) -> int:
        self.process.send_signal(number)
        return self.process.wait(seconds)


class Place:
    """A folder with code, a server and whatever works for it. Leaves nothing running."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.all: list[Process] = []
        (folder / "flows.py").write_text(FLOWS)
        (folder / "client.py").write_text(CLIENT)
        self.address = ""

    def run(self, name: str, *command: str, **more: Any) -> Process:
        process = Process(self.folder, name, *command, **more)
        self.all.append(process)
        return process

    def server(self, port: str = "0", *options: str) -> Process:
        server = self.run("server", "server", "--data", "data", "--port", port, "-o", "json", *options)
        self.address = server.announced()["url"]
        return server

    def worker(self, *options: str) -> Process:
        return self.run("worker", "worker", "flows.py", "-o", "json", *options, address=self.address)

    def cli(self, *command: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PERDURE_")}
        environment["PERDURE_ADDRESS"] = self.address
        return subprocess.run(
            [sys.executable, "-m", "perdure", *command],
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            cwd=self.folder,
            env=environment,
        )

    def result(self, workflow_id: str) -> Any:
        done = self.cli("workflow", "result", workflow_id, "--timeout", "60", seconds=90)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def book(self) -> list[str]:
        path = self.folder / "book.txt"
        return path.read_text().splitlines() if path.exists() else []

    def close(self) -> None:
        for process in reversed(self.all):
            if process.process.poll() is None:
                process.process.kill()
            process.process.communicate(timeout=30)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    try:
        yield made
    finally:
        made.close()


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Wait for something that only looking can tell."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "zombie" not in Path(f"/proc/{pid}/status").read_text()


@pytest.mark.rule("O1")
@pytest.mark.scenario(51)
def test_everything_goes_on_by_itself_over_a_killed_server(place: Place) -> None:
    """A client and two worker processes are connected; the server is killed and started again; nothing is lost, nothing done twice."""
    server = place.server()
    worker = place.worker("--processes", "2")
    facts = worker.announced()
    assert (len(facts["pids"]), facts["address"], facts["queues"]) == (2, place.address, ["default"])
    client = place.run("client", "client.py", script=True, address=place.address)
    assert client.process.stdout is not None
    assert client.process.stdout.readline() == "started\n", client.said
    until(lambda: len(place.book()) == 20)
    server.process.kill()
    server.process.wait(30)
    until(lambda: "waiting for it" in worker.said)
    place.server(place.address.rpartition(":")[2])
    for n in range(20):
        assert place.cli("workflow", "signal", f"o{n}", "go", "--input", '"gone"').returncode == 0
    told, _ = client.process.communicate(timeout=100)
    assert told.splitlines() == [f"receipt for o{n} gone" for n in range(20)]
    assert sorted(place.book()) == sorted(f"charge o{n} 1" for n in range(20))
    until(lambda: "is back" in worker.said)
    assert worker.said.count("waiting for it") == worker.said.count("is back") == 1
    assert worker.stop() == 0


def test_a_killed_worker_process_is_replaced(place: Place) -> None:
    """The other one goes on meanwhile; nobody outlives the process above, however that ends."""
    place.server()
    worker = place.worker("--processes", "2")
    first, second = worker.announced()["pids"]
    os.kill(first, signal.SIGKILL)
    until(lambda: "worker process 1 (pid" in worker.said and ") serves" in worker.said)
    assert f"worker process 1 (pid {first}) was ended by SIGKILL" in worker.said
    assert place.cli("workflow", "start", "pid", "--id", "p", "--wait").returncode == 0
    assert place.result("p") != first
    worker.process.kill()
    worker.process.wait(30)
    until(lambda: not is_alive(second))


def test_activities_may_fork(place: Place) -> None:
    """The end of a pool stops its processes and not the worker; a forked process that returns from an activity ends, and reports nothing."""
    place.server()
    worker = place.worker()
    (pid,) = worker.announced()["pids"]
    assert place.cli("workflow", "start", "forking", "--id", "f", "--wait").returncode == 0
    assert place.result("f") == [[1, 2], "parent", "parent", pid]
    until(lambda: worker.said.count("returned in a process it had forked") == 2)
    assert "stopping" not in worker.said
    assert worker.stop() == 0


@pytest.mark.scenario(55)
def test_stopping_lets_activities_end_within_the_grace_period(place: Place) -> None:
    """SIGTERM: the one that looks leaves in time and its result counts; it is not run again."""
    place.server()
    worker = place.worker("--grace", "50")
    worker.announced()
    assert place.cli("workflow", "start", "waits", "--id", "w", "--input", '"w"').returncode == 0
    until(lambda: "begun w 1" in place.book())
    assert worker.stop() == 0
    other = place.worker()
    other.announced()
    assert place.result("w") == "left in time"
    assert place.book() == ["begun w 1", "left w"]


@pytest.mark.scenario(55)
def test_what_does_not_end_is_cut_and_run_elsewhere_once(place: Place) -> None:
    """The grace period is a bound, and the same signal again ends it; the attempt is reported lost and the next is somebody else's."""
    place.server()
    worker = place.worker("--grace", "600")
    worker.announced()
    assert place.cli("workflow", "start", "cut", "--id", "c", "--input", '"c"').returncode == 0
    until(lambda: place.book() == ["begun c 1"])
    worker.process.send_signal(signal.SIGTERM)
    until(lambda: "stopping" in worker.said)
    other = place.worker()
    other.announced()
    assert worker.stop(seconds=100) == 130
    assert place.result("c") == 2
    assert place.book() == ["begun c 1", "begun c 2"]
    assert other.stop() == 0


@pytest.mark.slow
@pytest.mark.scenario(56)
def test_a_draining_worker_keeps_its_claims(place: Place) -> None:
    """Its signs of life go on until its last activity has ended, so nobody runs that again, however long the grace period is."""
    place.server()
    worker = place.worker("--grace", "100")
    worker.announced()
    assert place.cli("workflow", "start", "long", "--id", "l", "--input", '"l"').returncode == 0
    until(lambda: place.book() == ["begun l 1"])
    worker.process.send_signal(signal.SIGTERM)
    until(lambda: "stopping" in worker.said)
    place.worker().announced()
    time.sleep(1.4 * Limits().claim_lives_s)  # a claim without signs of life would be lost, and run by the other
    (place.folder / "gate").touch()
    assert worker.process.wait(60) == 0
    assert place.result("l") == 1
    assert place.book() == ["begun l 1"]


def test_what_cannot_work_ends_with_a_reason(place: Place) -> None:
    """An import that fails is exit code 2, and told once however many processes tried; a node that is away is waited for."""
    (place.folder / "broken.py").write_text("1 / 0")
    done = place.cli("worker", "broken.py", "--processes", "2")
    assert done.returncode == 2
    assert done.stderr.count("ZeroDivisionError") == 1
    nothing = place.cli("worker", "flows.py", "--processes", "0")
    assert (nothing.returncode, "--processes" in nothing.stderr) == (2, True)
    place.address = "http://127.0.0.1:9"
    patient = place.worker()
    until(lambda: "waiting for it" in patient.said)
    assert patient.process.poll() is None
    assert patient.stop() == 0


def test_reload_runs_the_code_as_it_is_now(place: Place) -> None:
    """A saved change reaches the workers without a restart by hand; a file that cannot be loaded is waited out."""
    place.server()
    worker = place.worker("--reload")
    worker.announced()
    source = place.folder / "flows.py"
    source.write_text("def (")
    until(lambda: "waiting for a change" in worker.said)
    source.write_text(FLOWS.replace('return f"receipt for {order}"', 'return f"new receipt for {order}"'))
    until(lambda: worker.said.count("has changed") == 2 and ") serves" in worker.said)
    assert place.cli("workflow", "start", "order", "--id", "r", "--input", '"r"').returncode == 0
    assert place.cli("workflow", "signal", "r", "go", "--input", '"!"').returncode == 0
    assert place.result("r") == "new receipt for r !"
    assert worker.stop() == 0


def test_keys_and_roles_have_exit_codes(place: Place) -> None:
    """No key, a wrong one, one of the wrong role: 5, for commands and workers alike; beside the node no key needs to be typed."""
    made = json.loads(place.cli("key", "create", "--name", "ci", "--role", "read-only", "-o", "json").stdout)
    (place.folder / "perdure.toml").write_text(f'[access.keys.ci]\nhash = "{made["hash"]}"\nrole = "read-only"\n')
    place.server()
    refused = place.cli("workflow", "list", "-o", "json")
    assert (refused.returncode, json.loads(refused.stderr)["error"]["code"]) == (5, "UNAUTHENTICATED")
    assert place.cli("workflow", "list", "--api-key", "pdk_wrong").returncode == 5
    assert place.cli("workflow", "list", "--api-key", made["key"]).returncode == 0
    forbidden = place.cli("workflow", "start", "order", "--api-key", made["key"], "-o", "json")
    assert (forbidden.returncode, json.loads(forbidden.stderr)["error"]["code"]) == (5, "PERMISSION_DENIED")
    for key in ("", made["key"]):
        worker = place.worker("--api-key", key) if key else place.worker()
        assert worker.process.wait(60) == 5, worker.said
    beside = subprocess.run(
        [sys.executable, "-m", "perdure", "workflow", "list", "--data", "data"],
        cwd=place.folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={key: value for key, value in os.environ.items() if not key.startswith("PERDURE_")},
    )
    assert beside.returncode == 0, beside.stderr
