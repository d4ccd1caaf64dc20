"""Every rule finds what it is for, and leaves alone what only looks like it."""

import ast
from pathlib import Path

import pytest

from perdure.lint.linter import lint
from perdure.lint.rules import RULES

HEAD = """\
import asyncio, contextlib, logging, os, random, secrets, subprocess, threading, time, uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from pathlib import Path
from random import choice
from uuid import uuid4
import datetime as dt
import httpx
import numpy as np
from perdure import activity, workflow

TOTALS = {}
SEEN: list[str] = []
LIMIT = 3
log = logging.getLogger(__name__)

class Settings:
    depth = 1

@activity
async def charge(order: str) -> str: ...

@workflow
async def other(order: str) -> str: ...

"""


def found(folder: Path, body: str, head: str = HEAD) -> list[str]:
    """The rules that a workflow with this body breaks, in order."""
    indented = "\n".join(f"    {line}" for line in body.splitlines())
    text = f"{head}@workflow\nasync def flow(order: str, hooks=None):\n{indented}\n"
    ast.parse(text)
    (folder / "flows.py").write_text(text, encoding="utf-8")
    return [finding.rule for finding in lint([str(folder / "flows.py")])]


BAD = [
    ("clock", "datetime.now(UTC)"),
    ("clock", "dt.datetime.utcnow()"),
    ("clock", "date.today()"),
    ("clock", "return datetime.now(tz=UTC).date()"),
    ("early-name", "return uuid4()"),
    ("early-name", "return choice([1, 2])"),
    ("chance", "secrets.token_hex()"),
    ("chance", "os.urandom(8)"),
    ("chance", "np.random.rand()"),
    ("chance", "random.SystemRandom().random()"),
    ("environment", "os.getenv('HOME')"),
    ("environment", "os.environ['HOME']"),
    ("environment", "os.environ.get('HOME')"),
    ("environment", "for name in os.environ: await charge(name)"),
    ("environment", "return {**os.environ}"),
    ("environment", "from os import environ\nreturn environ['HOME']"),
    ("io", "open('x').read()"),
    ("io", "with open('x') as file: pass"),
    ("io", "Path('x').write_text('y')"),
    ("io", "return Path('x').exists()"),
    ("io", "file = Path('x') / order\nreturn (file / 'y').open()"),
    ("io", "httpx.get('http://x')"),
    ("io", "async with httpx.AsyncClient() as client: pass"),
    ("io", "import requests\nrequests.post('x')"),
    ("io", "from urllib.request import urlopen\nurlopen('x')"),
    ("io", "subprocess.run(['ls'])"),
    ("io", "os.listdir('.')"),
    ("io", "os.path.exists('x')"),
    ("io", "await asyncio.open_connection('x', 1)"),
    ("thread", "threading.Thread(target=print).start()"),
    ("thread", "ThreadPoolExecutor()"),
    ("thread", "await asyncio.to_thread(len, 'x')"),
    ("thread", "await asyncio.get_running_loop().run_in_executor(None, len, 'x')"),
    ("blocking-sleep", "time.sleep(1)"),
    ("print", "print('hello')"),
    ("logging", "log.info('hello')"),
    ("logging", "logging.warning('hello')"),
    ("logging", "logging.getLogger('x').error('hello')"),
    ("logging", "log.getChild('x').log(20, 'hello')"),
    ("logging", "mine = logging.getLogger('x')\nmine.exception('hello')"),
    ("logging", "from logging import info\ninfo('hello')"),
    ("set-order", "for x in {'a', 'b'}: await charge(x)"),
    ("set-order", "for x in set(order): await charge(x)"),
    ("set-order", "ids = {x.id for x in hooks}\nfor x in ids: await charge(x)"),
    ("set-order", "return [x for x in frozenset(order)]"),
    ("set-order", "left: set[str] = set()\nreturn list(left)"),
    ("set-order", "left = set(order)\nreturn left.pop()"),
    ("set-order", "return ','.join(set(order) | set('x'))"),
    ("set-order", "await asyncio.gather(*{charge('a'), charge('b')})"),
    ("set-order", "for n, x in enumerate(set(order)): await charge(x)"),
    ("identity", "return id(order)"),
    ("identity", "return hash(order) % 10"),
    ("module-state", "global LIMIT\nLIMIT = 4"),
    ("module-state", "SEEN.append(order)"),
    ("module-state", "TOTALS[order] = 1"),
    ("module-state", "TOTALS[order]['x'] += 1"),
    ("module-state", "del TOTALS[order]"),
    ("module-state", "Settings.depth = 2"),
    ("replaying-branch", "if not workflow.is_replaying(): await charge(order)"),
    ("replaying-branch", "return 1 if workflow.is_replaying() else 2"),
    ("naive-datetime", "await workflow.sleep_until(datetime(2030, 1, 1))"),
    ("naive-datetime", "return datetime.fromtimestamp(0)"),
    ("naive-datetime", "return workflow.now().astimezone()"),
    ("swallowed-cancel", "try:\n    await charge(order)\nexcept:\n    pass"),
    ("swallowed-cancel", "try:\n    await charge(order)\nexcept (ValueError, BaseException) as error:\n    return str(error)"),
    ("swallowed-cancel", "with contextlib.suppress(BaseException):\n    await charge(order)"),
    ("not-awaited", "charge(order)"),
    ("not-awaited", "charge.options(queue='x')(order)"),
    ("not-awaited", "other(order)"),
    ("not-awaited", "asyncio.sleep(3)"),
    ("not-awaited", "workflow.sleep(3)"),
    ("activity-body", "await charge.fn(order)"),
    ("clock", "def inner():\n    return datetime.now(UTC)\nreturn inner()"),
    ("clock", "return [*map(lambda _: datetime.now(UTC), 'ab')]"),
]

GOOD = [
    "return time.time() + time.monotonic()",
    "return random.random() + random.Random().random(), uuid.uuid4(), uuid.uuid1()",
    "return workflow.now(), workflow.random().choice([1, 2])",
    "return workflow.side_effect(lambda: datetime.now(UTC).isoformat())",
    "return workflow.side_effect(lambda: os.environ['HOME'])",
    "return os.path.join('a', 'b'), os.sep",
    "return Path('a') / 'b'",
    "workflow.logger.info('hello')",
    "log = workflow.logger\nlog.info('hello')",
    "return hooks.log(order), hooks.info(order), log.name, log.isEnabledFor(logging.INFO)",
    "for x in sorted({'a', 'b'}): await charge(x)",
    "for x in sorted(y.lower() for y in set(order)): await charge(x)",
    "return 'a' in {'a', 'b'}, len(set(order)), any(x for x in set(order))",
    "for x in {1, 2, 3}: await charge(str(x))",
    "for x in set(range(3)): await charge(str(x))",
    "left: set[int] = set()\nfor x in left: await charge(str(x))",
    "tasks = {asyncio.create_task(charge(x)) for x in order}\nfor task in tasks: await task",
    "tasks = set()\ntasks.add(asyncio.create_task(charge(order)))\nfor task in tasks: await task",
    "done, rest = await asyncio.wait([asyncio.create_task(charge(order))])\nfor task in done: await task",
    "return TOTALS.get(order), LIMIT, SEEN[0], Settings.depth",
    "SEEN = []\nSEEN.append(order)\nreturn SEEN",
    "print = workflow.logger.info\nprint('hello')",
    "async with workflow.saga() as saga:\n    saga.add(charge(order))",
    "call = charge(order)\nreturn await call",
    "await asyncio.gather(charge(order), other(order), asyncio.sleep(1))",
    "async with asyncio.TaskGroup() as group:\n    group.create_task(charge(order))",
    "return datetime(2030, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, 0, 0, 0, 0, UTC), datetime.fromtimestamp(0, UTC)",
    "return workflow.now().astimezone(UTC)",
    "try:\n    await charge(order)\nexcept Exception:\n    pass",
    "try:\n    await charge(order)\nexcept BaseException:\n    await charge('undo')\n    raise",
    "try:\n    await charge(order)\nexcept asyncio.CancelledError:\n    return 'stopped'",
    "try:\n    return int(order)\nexcept:\n    return 0",
    "try:\n    await charge(order)\nexcept httpx.HTTPError as error:\n    raise httpx.HTTPError('x') from error",
    "logged = workflow.is_replaying()\nworkflow.logger.info('%s', logged)",
    "return asyncio.get_running_loop().time()",
    "return await other.fn(order)",
    "return order.replace('a', 'b'), hooks.open(), hooks.exists()",
]


@pytest.mark.parametrize(("rule", "body"), BAD, ids=[f"{rule}-{number}" for number, (rule, _body) in enumerate(BAD)])
@pytest.mark.rule("F24")
@pytest.mark.rule("O8")
def test_what_is_wrong_is_found(rule: str, body: str, tmp_path: Path) -> None:
    """The rule, and no other, speaks."""
    assert set(found(tmp_path, body)) == {rule}


@pytest.mark.parametrize("body", GOOD)
def test_what_is_right_is_left_alone(body: str, tmp_path: Path) -> None:
    """No rule speaks."""
    assert found(tmp_path, body) == []


def test_every_rule_has_a_case_that_shows_it() -> None:
    """No rule that nothing breaks; each says why and how to mend it."""
    assert {rule for rule, _body in BAD} == RULES.keys()
    assert len({rule.code for rule in RULES.values()}) == len(RULES)
    assert all(len(rule.why.split()) > 4 and len(rule.mend.split()) > 2 for rule in RULES.values())


def test_activities_may_do_as_they_like(tmp_path: Path) -> None:
    """Only workflow code is read."""
    body = (
        "from perdure import activity\n@activity\ndef clock():\n    import time, os\n    time.sleep(1)\n    return os.environ\n"
    )
    assert found(tmp_path, "return 1", HEAD + body) == []


def test_a_logger_of_another_file_is_one_too(tmp_path: Path) -> None:
    """As projects keep it; what is no logger there is none."""
    (tmp_path / "logs.py").write_text(
        "import logging\nlog: logging.Logger = logging.getLogger('x')\nother = object()\n", encoding="utf-8"
    )
    head = "import logs\nfrom logs import log, other\nfrom perdure import workflow\n"
    assert found(tmp_path, "log.info('x')\nlogs.log.error('x')\nother.info('x')", head) == ["logging", "logging"]
