"""`perdure server` as an operator meets it: a process that says where it is, lets in who may, and ends cleanly or says why not."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2
import pytest

import perdure
from perdure.runtime.api_key import hash_of, new_api_key

PATIENCE_S = 30
Make = Callable[..., tuple[Path, Path]]


class Server:
    """One process. Used with `with`, it is ready inside and gone after."""

    def __init__(self, folder: Path, *options: str, **variables: str) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
        self.folder = folder
        self.errors = folder / "stderr"
        port = () if "--port" in options else ("--port", "0")
        with self.errors.open("ab") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "perdure", "server", *port, "-o", "json", *options],
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**own, **variables},
            )
        self.facts: dict[str, Any] = {}

    def __enter__(self) -> Self:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.__exit__(None, None, None)
            raise AssertionError(self.said())
        self.facts = json.loads(line)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait(PATIENCE_S)
        if self.process.stdout is not None:
            self.process.stdout.close()

    @property
    def url(self) -> str:
        return self.facts["url"]

    @property
    def place(self) -> Path:
        return self.folder / "perdure-data" / "server.json"

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def said(self) -> str:
        return self.errors.read_text(encoding="utf-8")

    def start_run(self, name: str, **headers: str) -> httpx2.Response:
        body = {"type": "nothing", "id": name, "input": []}
        return httpx2.post(f"{self.url}/api/v1/workflows", json=body, headers=headers, timeout=PATIENCE_S)


@contextlib.contextmanager
def under_way(server: Server, name: str) -> Iterator[socket.socket]:
    """A start of a run that is sent but for its last byte."""
    body = json.dumps({"type": "nothing", "id": name, "input": []}).encode()
    head = (
        f"POST /api/v1/workflows HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    )
    with socket.create_connection(("127.0.0.1", server.facts["port"]), PATIENCE_S) as connection:
        connection.sendall(head.encode() + b"\r\nexpect: 100-continue\r\n\r\n")
        assert connection.recv(1024).startswith(b"HTTP/1.1 100")  # so the application is at it
        connection.sendall(body[:-1])
        yield connection


def wait_for(condition: Callable[[], bool]) -> None:
    """Asks over HTTP, each answer being a round trip: no clock decides."""
    for _ in range(10_000):
        if condition():
            return
    raise AssertionError("it never came to be")


# ------------------------------------------------------------------------------------------------------------------ start and end


@pytest.mark.rule("O24")
@pytest.mark.rule("O27")
def test_a_start_over_its_quota_is_refused_whichever_way_it_comes(tmp_path: Path) -> None:
    """429 with `Retry-After`, `ResourceExhausted` in a connected client, exit code 5 of a command: each says why and when to come back,
    and is counted. Starts of other origins are taken."""
    (tmp_path / "perdure.toml").write_text("[admission.origins.visitor]\nstarts_per_second = 0.01\n")
    why = "origin 'visitor' has used up its quota of 0.01 new starts a second (admission.origins.visitor.starts_per_second)"

    async def by_client(url: str) -> perdure.errors.ResourceExhausted:
        async with await perdure.connect(url) as client:
            with pytest.raises(perdure.errors.ResourceExhausted) as caught:
                await client.start("nothing", id="c", origin="visitor")
            await client.start("nothing", id="b", origin="benchmark")
            return caught.value

    with Server(tmp_path) as server:
        body = {"type": "nothing", "id": "a", "input": [], "origin": "visitor"}
        assert httpx2.post(f"{server.url}/api/v1/workflows", json=body).status_code == 201
        assert httpx2.post(f"{server.url}/api/v1/workflows", json=body | {"on_conflict": "attach"}).status_code == 200
        refused = httpx2.post(f"{server.url}/api/v1/workflows", json=body | {"id": "h"})
        assert refused.status_code == 429
        error = refused.json()["error"]
        assert (error["code"], error["message"]) == ("RESOURCE_EXHAUSTED", why)
        assert 50 < error["details"]["retry_after"] <= int(refused.headers["retry-after"]) <= 100

        raised = asyncio.run(by_client(server.url))
        assert raised.message == why
        assert 50 < raised.retry_after <= 100

        start = ["workflow", "start", "nothing", "--id", "d", "--origin", "visitor", "--address", server.url]
        done = subprocess.run(
            [sys.executable, "-m", "perdure", *start],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert (done.returncode, done.stdout) == (5, "")
        assert re.fullmatch(rf"perdure: {re.escape(why)}; try again after [5-9]\d\.\d+ s\n", done.stderr)

        assert httpx2.get(f"{server.url}/api/v1/stats").json()["refused"] == {"visitor": {"quota": 3}}
        told = 'perdure_starts_refused_total{origin="visitor",reason="quota"} 3.0'
        assert told in httpx2.get(f"{server.url}/metrics").text.splitlines()
        assert server.said().count("new starts are refused: origin 'visitor'") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_is_serves_and_ends_cleanly(tmp_path: Path, number: int) -> None:
    """A line on standard output, a file only its user may read; at the end exit code 0, no file, and what was taken is on disk."""
    with Server(tmp_path) as server:
        assert set(server.facts) == {"version", "pid", "url", "port", "data"}
        assert json.loads(server.place.read_text())["url"] == server.url
        assert server.place.stat().st_mode & 0o777 == 0o600
        assert server.start_run("a").status_code == 201
        assert server.stop(number) == 0
        assert not server.place.exists()
        assert "Traceback" not in server.said()
    with Server(tmp_path) as server:
        assert httpx2.get(f"{server.url}/api/v1/workflows/a").json()["status"] == "running"


def test_at_a_stop_readiness_goes_first_and_what_is_under_way_is_answered(tmp_path: Path) -> None:
    """Long polls end with what is known, a request half sent is taken, new ones are refused; then the process ends with 0."""
    with Server(tmp_path) as server, under_way(server, "late") as connection:
        assert server.start_run("a").status_code == 201
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: httpx2.get(f"{server.url}/readyz").status_code == 503)
        assert httpx2.get(f"{server.url}/readyz").json()["status"] == "stopping"
        assert httpx2.get(f"{server.url}/healthz").status_code == 200
        assert server.start_run("b").status_code == 503
        connection.sendall(b"}")
        assert connection.recv(1024).startswith(b"HTTP/1.1 201")
        assert server.process.wait(PATIENCE_S) == 0
    with Server(tmp_path) as server:
        assert httpx2.get(f"{server.url}/api/v1/workflows/late").json()["status"] == "running"
        assert httpx2.get(f"{server.url}/api/v1/workflows/b").status_code == 404


def test_a_long_poll_ends_with_what_is_known(tmp_path: Path) -> None:
    """202, the run goes on; the stop waits for no poll."""
    with Server(tmp_path) as server:
        assert server.start_run("a").status_code == 201
        with socket.create_connection(("127.0.0.1", server.facts["port"]), PATIENCE_S) as poll:
            poll.sendall(b"GET /api/v1/workflows/a/result?wait=60 HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            httpx2.get(f"{server.url}/healthz")
            assert server.stop() == 0
            told = poll.recv(4096)
        assert told.startswith((b"HTTP/1.1 202", b"HTTP/1.1 503"))  # 503: it came after the signal
        assert b"connection: close" in told


def test_the_same_signal_again_ends_it_at_once(tmp_path: Path) -> None:
    """Though a request is under way that would have been waited for."""
    with Server(tmp_path) as server, under_way(server, "never"):
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: httpx2.get(f"{server.url}/readyz").status_code == 503)
        assert server.stop() == 130


def test_what_a_killed_node_left_is_replaced(tmp_path: Path) -> None:
    """The word in the directory is that of the life that serves."""
    with Server(tmp_path) as server:
        first = server.place.read_bytes()
        server.process.kill()
        server.process.wait(PATIENCE_S)
        assert server.place.read_bytes() == first
    with Server(tmp_path) as server:
        assert json.loads(server.place.read_text())["pid"] == server.process.pid
        assert server.stop() == 0


def test_a_node_that_can_write_nothing_more_ends(tmp_path: Path) -> None:
    """Exit code 1 and the reason, however it would rather go on."""
    with Server(tmp_path) as server:
        assert server.start_run("a").status_code == 201
        (segment,) = (tmp_path / "perdure-data" / "journal").iterdir()
        segment.unlink()
        with contextlib.suppress(httpx2.HTTPError):
            assert server.start_run("b").status_code == 503
        assert server.process.wait(PATIENCE_S) == 1
        assert "can write nothing more" in server.said()


def test_a_service_manager_is_told(tmp_path: Path) -> None:
    """systemd's Type=notify: ready when it serves, stopping when it ends."""
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(address)
        channel.settimeout(PATIENCE_S)
        with Server(tmp_path, NOTIFY_SOCKET=address) as server:
            assert channel.recv(100) == b"READY=1"
            assert server.stop() == 0
            assert channel.recv(100) == b"STOPPING=1"


# ---------------------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("options", "variables", "code", "said"),
    [
        (["--host", "0.0.0.0"], {}, 2, "perdure key create"),
        (["--port", "70000"], {}, 2, "--port: expected `int` <= 65535"),
        (["--config", "none.toml"], {}, 2, "there is no configuration file none.toml"),
        ([], {"PERDURE_SERVER__PRT": "1"}, 2, "did you mean PERDURE_SERVER__PORT?"),
        (["--tls-certificate", "none.pem", "--tls-key", "none.key"], {}, 2, "none.pem cannot be read"),
        (["--tls-certificate", "none.pem"], {}, 2, "tls_key is missing"),
        (["--host", "192.0.2.1", "--insecure"], {}, 6, "cannot listen on 192.0.2.1"),
        (["--data", "/dev/null/x"], {}, 6, "cannot be used as a data directory"),
    ],
)
def test_a_start_that_cannot_be_says_why(
    tmp_path: Path, options: list[str], variables: dict[str, str], code: int, said: str
) -> None:
    """Exit code 2 for what was typed or written, 6 for what is in the way; no traceback."""
    server = Server(tmp_path, *options, **variables)
    with contextlib.closing(server.process.stdout):
        assert server.process.wait(PATIENCE_S) == code
    assert said in server.said()
    assert "Traceback" not in server.said()


def test_a_directory_or_port_that_is_taken_is_unavailable(tmp_path: Path) -> None:
    """Exit code 6 with the other's process named; the one that runs is not disturbed."""
    with Server(tmp_path) as server:
        second = Server(tmp_path)
        with contextlib.closing(second.process.stdout):
            assert second.process.wait(PATIENCE_S) == 6
        assert f"pid {server.process.pid}" in second.said()
        third = Server(tmp_path, "--data", "other", "--port", str(server.facts["port"]))
        with contextlib.closing(third.process.stdout):
            assert third.process.wait(PATIENCE_S) == 6
        assert json.loads(server.place.read_text())["pid"] == server.process.pid
        assert httpx2.get(f"{server.url}/readyz").status_code == 200


# ------------------------------------------------------------------------------------------------------------------- keys and TLS


def test_nothing_of_a_key_is_ever_written(tmp_path: Path) -> None:
    """Known, unknown and local keys: in no log line at the lowest level, nor in an answer; every line is a JSON document."""
    key, unknown = new_api_key(), new_api_key()
    text = f'[access.keys.shop]\nhash = "{hash_of(key)}"\nrole = "operator"\n[log]\nlevel = "debug"\nformat = "json"\n'
    (tmp_path / "perdure.toml").write_text(text, encoding="utf-8")
    with Server(tmp_path) as server:
        local = json.loads(server.place.read_text())["key"]
        answers = [server.start_run("a", authorization=f"Bearer {one}") for one in (key, unknown, local)]
        assert [answer.status_code for answer in answers] == [201, 401, 409]
        assert server.start_run("b").status_code == 401
        assert server.stop() == 0
        lines = [json.loads(line) for line in server.said().splitlines()]
        assert {"shop", "local"} <= {line.get("principal") for line in lines}
        written = server.said() + "".join(answer.text + str(answer.headers) for answer in answers)
        for secret in (key[4:], unknown[4:], local[4:], hash_of(key)[7:]):
            assert secret not in written


def test_with_keys_it_may_listen_beyond_loopback(tmp_path: Path) -> None:
    """With a warning when there is no TLS; the word in the directory names an address that can be connected to."""
    key = new_api_key()
    variables = {"PERDURE_ACCESS__KEYS__SHOP__HASH": hash_of(key), "PERDURE_ACCESS__KEYS__SHOP__ROLE": "operator"}
    with Server(tmp_path, "--host", "0.0.0.0", **variables) as server:
        assert server.url.startswith("http://127.0.0.1:")
        assert server.start_run("a", authorization=f"Bearer {key}").status_code == 201
        assert "without TLS" in server.said()
        assert server.stop() == 0


def test_with_a_certificate_it_speaks_tls_only(tmp_path: Path, make_certificate: Make) -> None:
    """To whoever trusts the certificate, which is named in the directory; not to others, nor in clear."""
    certificate, key = make_certificate()
    with Server(tmp_path, "--tls-certificate", str(certificate), "--tls-key", str(key)) as server:
        assert server.url.startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context(cafile=json.loads(server.place.read_text())["ca"])
        assert httpx2.get(f"{server.url}/readyz", verify=trusting).status_code == 200
        with pytest.raises(httpx2.ConnectError, match="certificate verify failed"):
            httpx2.get(f"{server.url}/readyz")
        with pytest.raises(httpx2.HTTPError):
            httpx2.get(server.url.replace("https", "http") + "/readyz")
        assert server.stop() == 0


# ----------------------------------------------------------------------------------------------------------------------- streams


def test_whoever_is_connected_does_not_keep_it_from_ending_and_finds_the_next_one(tmp_path: Path) -> None:
    """A client that waits for a result and a reader of events: the node ends with 0, and the wait goes on at the node that follows."""

    async def wait_over_a_restart() -> str:
        with Server(tmp_path) as server:
            client = await perdure.connect(server.url)
            handle = await client.start("nothing", id="a")
            waiting = asyncio.create_task(handle.result())
            async with httpx2.AsyncClient() as reader, reader.stream("GET", f"{server.url}/api/v1/stream") as events:
                assert events.status_code == 200
                assert await asyncio.to_thread(server.stop) == 0
        assert not waiting.done()
        with Server(tmp_path, "--port", str(server.facts["port"])) as server:
            await handle.terminate("enough")
            try:
                await waiting
            except perdure.errors.WorkflowTerminated:
                return await asyncio.to_thread(lambda: str(server.stop())) + " terminated"
            finally:
                await client.close()
        return "it did not end"

    assert asyncio.run(asyncio.wait_for(wait_over_a_restart(), 2 * PATIENCE_S)) == "0 terminated"
