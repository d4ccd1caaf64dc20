"""Clock, chance, ids and the outside world as workflow code meets them."""

# Users call what these rules advise against, and it must be refused as well.
# ruff: noqa: PTH102, PTH110, PTH123, PTH208, SIM115

import asyncio
import datetime as dt
import linecache
import logging
import os
import random
import secrets
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.request
import uuid
import warnings
import zoneinfo
from concurrent.futures import ThreadPoolExecutor

import pytest

from perdure.core.errors import NondeterminismError
from perdure.replay import guards
from perdure.replay.activation import ACTIVE, unguarded


def test_clocks_are_the_runs_own(stage):
    """Epoch clocks give the recorded time, the others the time since the run's start."""

    async def main():
        await asyncio.sleep(90.5)
        epoch = time.time(), time.time_ns(), time.gmtime(), time.ctime(), time.strftime("%Y-%m-%d %H:%M:%S")
        return epoch, (time.monotonic(), time.perf_counter_ns(), time.process_time())

    epoch, since_start = stage.run(main())
    assert epoch[:2] == (1_700_000_090.5, 1_700_000_090_500_000_000)
    assert epoch[2] == time.gmtime(1_700_000_090.5)
    assert epoch[3:] == (time.ctime(1_700_000_090), time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(1_700_000_090)))
    assert since_start == (90.5, 90_500_000_000, 90.5)


def test_chance_and_ids_come_from_the_run(stage, other):
    """Every module function, unseeded generators and uuids repeat exactly; the process's own generator is not moved."""

    async def main():
        values = [random.random(), random.randint(1, 100), random.choice("abc"), random.sample(range(100), 3), random.gauss()]
        values += [random.Random().random(), random.getrandbits(64), random.randbytes(4)]
        shuffled = list(range(10))
        random.shuffle(shuffled)
        random.seed()
        return values, shuffled, [uuid.uuid4(), uuid.uuid1(), uuid.uuid1(node=5)], random.random()

    state = random.getstate()
    first = stage.run(main())
    assert first == other.run(main())
    assert random.getstate() == state
    four, one, with_node = first[2]
    assert (four.version, one.version, with_node.node) == (4, 1, 5)
    assert (one.time - 0x01B21DD213814000) // 10 == stage.now_us


def test_outside_workflow_code_everything_is_real():
    """Installed guards change nothing on other threads and between activations; installing again changes nothing."""
    guards.install()
    before = time.time, random.random, uuid.uuid4, asyncio.wait
    guards.install()
    assert before == (time.time, random.random, uuid.uuid4, asyncio.wait)
    assert abs(time.time() - time.time_ns() / 1e9) < 5
    assert uuid.uuid4() != uuid.uuid4()
    assert len(os.urandom(8)) == 8
    assert ACTIVE == []


POOL = ThreadPoolExecutor(1)
REFUSED = {
    "open": lambda: open("/etc/hostname"),
    "os.listdir": lambda: os.listdir("/"),
    "os.mkdir": lambda: os.mkdir("/tmp/never-made"),
    "os.system": lambda: os.system("true"),
    "socket.__new__": lambda: socket.socket(),  # noqa: PLW0108
    "socket.getaddrinfo": lambda: socket.getaddrinfo("localhost", 80),
    "subprocess.Popen": lambda: subprocess.run(["true"], check=False),
    "sqlite3.connect": lambda: sqlite3.connect(":memory:"),
    "time.sleep": lambda: time.sleep(0.01),
    "_thread.start_": lambda: threading.Thread(target=print).start(),
    "tempfile.mkdtemp": lambda: tempfile.mkdtemp(),  # noqa: PLW0108
    "urllib.Request": lambda: urllib.request.urlopen("http://127.0.0.1:9"),
    "os.urandom()": lambda: os.urandom(4),
    "os.urandom() ": lambda: secrets.token_hex(4),
    "os.stat()": lambda: os.path.exists("/etc/hostname"),
    "ThreadPoolExecutor.submit()": lambda: POOL.submit(print),
    "builtins.input": lambda: input(),  # noqa: PLW0108
}


@pytest.mark.rule("O8")
@pytest.mark.parametrize("name", REFUSED)
def test_the_world_is_refused_with_call_and_line(stage, name):
    """The error names the call and the user's line, and is recorded even when the code catches everything."""
    call = REFUSED[name]
    reached = []

    async def main():
        try:
            call()
        except NondeterminismError as error:
            return str(error)
        finally:
            reached.append(True)

    message = stage.run(main())
    assert message.startswith(name.strip())
    line = call.__code__.co_firstlineno
    assert f"({__file__}:{line}: {linecache.getline(__file__, line).strip()})" in message
    assert stage.loop.violations == [message]
    assert reached == [True]


def test_a_refusal_quotes_the_users_line_even_the_first_time(stage, tmp_path):
    """The source is read inside the activation, past the guards; it is cut where it is long, and left out where there is none."""
    long = "names = os.listdir('/'), " + ", ".join(f"'{number}'" for number in range(50))
    (tmp_path / "mist.py").write_text(f"import os\ndef short():\n    os.stat('/')\ndef wide():\n    {long}\n")
    linecache.clearcache()
    names = {}
    exec(compile((tmp_path / "mist.py").read_text(), str(tmp_path / "mist.py"), "exec"), names)
    exec(compile("import os\ndef nowhere():\n    os.stat('/')\n", "<typed>", "exec"), names)

    quotes = []
    for name in ("short", "wide", "nowhere"):
        with pytest.raises(NondeterminismError) as caught:
            stage.loop.call_inside(names[name])
        quotes.append(str(caught.value).partition(" is not allowed in workflow code ")[2])
    assert quotes == [
        f"({tmp_path}/mist.py:3: os.stat('/')): move it into an activity",
        f"({tmp_path}/mist.py:5: {long[:79]}…): move it into an activity",
        "(<typed>:3): move it into an activity",
    ]
    assert len(stage.loop.violations) == 3


def test_fork_is_refused(stage):
    """A child process would be a second run of the same id."""

    async def main():
        os.fork()

    with pytest.raises(NondeterminismError, match=r"os\.fork"):
        stage.run(main())


def test_a_module_may_be_imported_inside_a_workflow(stage, tmp_path, monkeypatch):
    """Its files are read, and what its top level takes of clock and chance is the process's, so the run's own is not moved."""
    (tmp_path / "lazy_friend.py").write_text(
        "import random, time, os, colorsys\nSTARTED = time.time()\nCHANCE = random.random()\nLIST = os.listdir('/')\nID = os.urandom(4)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    async def main():
        import lazy_friend

        return lazy_friend.STARTED, random.random()

    started, drawn = stage.run(main())
    assert started > stage.now_us / 1e6
    assert drawn == random.Random(7).random()
    assert stage.loop.violations == []
    sys.modules.pop("lazy_friend")


def test_reporting_may_read_sources_and_write_logs(stage, tmp_path):
    """Tracebacks, warnings and logging to a file trip nothing."""
    import linecache

    logger = logging.getLogger("perdure.test.guards")
    handler = logging.FileHandler(tmp_path / "log.txt", delay=True)
    logger.addHandler(handler)

    async def main():
        linecache.clearcache()
        try:
            1 / 0  # noqa: B018
        except ZeroDivisionError:
            text = traceback.format_exc()
            logger.exception("written to a file that opens now")
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("shown", stacklevel=1)
        return text

    with warnings.catch_warnings(record=True):
        assert "1 / 0" in stage.run(main())
    logger.removeHandler(handler)
    handler.close()
    assert "ZeroDivisionError" in (tmp_path / "log.txt").read_text()
    assert stage.loop.violations == []


def test_time_zones_may_be_loaded(stage):
    """The time zone database is as good as code."""
    zoneinfo.ZoneInfo.clear_cache()

    async def main():
        instant = dt.datetime.fromtimestamp(time.time(), zoneinfo.ZoneInfo("Europe/Madrid"))
        return instant.utcoffset()

    assert stage.run(main()) == dt.timedelta(hours=1)
    assert stage.loop.violations == []


def test_unguarded_work_inside_an_activation_is_real(stage):
    """perdure's own work may read clock and disk; the guards are back after it, also on errors, also nested."""

    async def main():
        with unguarded():
            with unguarded():
                pass
            real = time.time(), os.listdir("/")
        try:
            with unguarded():
                raise KeyError  # noqa: TRY301
        except KeyError:
            pass
        return real[0] != time.time(), time.time()

    assert stage.run(main()) == (True, stage.now_us / 1e6)
    with unguarded():
        assert ACTIVE == []


def test_guards_hold_in_code_called_straight(stage):
    """Queries and validators run by `call_inside` see the same clock and the same refusals."""
    assert stage.loop.call_inside(time.time) == stage.now_us / 1e6
    with pytest.raises(NondeterminismError):
        stage.loop.call_inside(os.listdir, "/")


def test_read_only_code_starts_and_wakes_nothing(stage):
    """In queries, validators and predicates tasks, timers and waking are errors; the run is not blamed, but this memory of it is."""

    async def main():
        event = asyncio.Event()
        asyncio.get_running_loop().event = event
        await event.wait()
        return "woken"

    def make_task():
        asyncio.get_running_loop().create_task(asyncio.sleep(1))

    task = stage.start(main())
    loop = stage.loop
    assert not loop.spoiled
    for attempt in (make_task, lambda: loop.call_later(1, print), loop.event.set):
        with pytest.raises(NondeterminismError, match=r"query, validator or predicate"):
            loop.call_inside(loop.read_only, "a query, validator or predicate", attempt)
    assert (loop.violations, stage.count, task.done(), loop.spoiled) == ([], 0, False, True)
    assert loop.call_inside(loop.read_only, "a query", time.time) == stage.now_us / 1e6


def test_another_thread_is_free_while_a_workflow_runs(stage):
    """The hook refuses by thread, not by process."""
    go, done = threading.Event(), threading.Event()
    seen = []

    def work():
        go.wait(10)
        seen.append((len(os.listdir("/")) > 0, time.time() > stage.now_us / 1e6, len(os.urandom(3))))
        done.set()

    thread = threading.Thread(target=work)
    thread.start()

    async def main():
        go.set()
        assert done.wait(10)

    stage.run(main())
    thread.join()
    assert seen == [(True, True, 3)]
    assert stage.loop.violations == []
