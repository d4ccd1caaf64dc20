"""Authors on newer interpreters may write generics and aliases in their newer form: types stay exact, and payloads travel by them.

The text is no file here, because the oldest interpreter that is supported cannot read it.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = """# pyright: strict
import asyncio
from dataclasses import dataclass
from typing import TypedDict, assert_type

import perdure
from perdure import Client, Handle, SyncClient, activity, workflow
from perdure.sdk.call import Call
from perdure.sdk.sync_handle import SyncHandle

type Cents = int
type Pair[T] = tuple[T, T]


@dataclass
class Box[T]:
    thing: T


class Extra(TypedDict, total=False):
    note: str


@activity
async def pack(box: Box[Cents], *, extra: Extra | None = None) -> Pair[str]:
    return str(box.thing), (extra or {}).get("note", "")


@workflow
async def ship(boxes: list[Box[Cents]]) -> Pair[str]:
    first_box = await pack(boxes[0], extra={"note": "n"})
    assert_type(first_box, Pair[str])
    return first_box


def first[T](*given: T) -> T:
    return given[0]


async def calls(client: Client, sync: SyncClient) -> None:
    assert_type(await client.start(ship([Box(1)])), Handle[Pair[str]])
    assert_type(sync.start(ship, [Box(1)]), SyncHandle[Pair[str]])
    assert_type(first(ship([Box(1)]), ship([Box(2)])), Call[Pair[str]])
    await client.start(ship([Box("1")]))  # error
    await pack(Box("1"))  # error
    await pack(Box(1), extra={"colour": "red"})  # error
    print(client.colour)  # error


async def main() -> None:
    async with perdure.testing.environment() as env:
        env.register(ship, pack)
        print(*await env.client.execute(ship([Box(3)])))


asyncio.run(main())
"""
WRONG = {number for number, line in enumerate(SOURCE.splitlines(), 1) if line.endswith("# error")}


def run(*command: str) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[2]
    return subprocess.run([sys.executable, *command], cwd=root, capture_output=True, text=True, check=False, timeout=300)


def mypy(path: Path, version: str) -> set[int]:
    done = run("-m", "mypy", "--strict", "--python-version", version, "--cache-dir", str(path.parent / "cache"), str(path))
    return {int(line) for line in re.findall(r"newer\.py:(\d+): error", done.stdout)}


def pyright(path: Path, version: str) -> set[int]:
    done = run("-m", "pyright", "--outputjson", "--pythonversion", version, str(path))
    told = json.loads(done.stdout)["generalDiagnostics"]
    return {item["range"]["start"]["line"] + 1 for item in told if item["severity"] == "error"}


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.12", "3.13"])
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_newer_forms_are_exact(checker, version, tmp_path):
    """Under both checkers exactly the marked lines are errors."""
    path = tmp_path / "newer.py"
    path.write_text(SOURCE, encoding="utf-8")
    assert checker(path, version) == WRONG


@pytest.mark.skipif(sys.version_info < (3, 12), reason="this interpreter does not read the newer forms")
def test_newer_forms_run(tmp_path):
    """Aliases and generics of that form are hints by which payloads travel."""
    path = tmp_path / "newer.py"
    path.write_text(SOURCE, encoding="utf-8")
    done = run(str(path))
    assert done.stdout == "3 n\n", done.stderr
