"""`perdure journal verify`, `repair` and `export` as people use them, on the journal of a stopped node with a changed byte in it."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

import perdure
from perdure import workflow


@workflow
async def listens(name: str) -> str:
    return name + await workflow.receive("go")


def cli(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "perdure", "journal", *words], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Five parked runs, and a flipped bit in the line that started "w2"."""

    async def run() -> None:
        async with perdure.embedded(tmp_path) as app:
            app.register(listens)
            for number in range(5):
                await app.client.start(listens(str(number)), id=f"w{number}")

    asyncio.run(run())
    path = tmp_path / "journal" / "00000001.jsonl"
    content = bytearray(path.read_bytes())
    content[content.index(b'"workflow_id":"w2"') + 60] ^= 1
    path.write_bytes(content)
    return tmp_path


def test_verify_reports_repair_mends_and_the_run_stays_named(data: Path) -> None:
    """Exit code 1 while a fault is not dealt with; repair keeps the old segment, says so, and is not needed again."""
    old = (data / "journal" / "00000001.jsonl").read_bytes()
    found = cli("verify", str(data))
    assert found.returncode == 1
    assert "damaged at segment 1, byte" in found.stdout
    assert "of workflow 'w2' (default), told by chain" in found.stdout
    told = json.loads(cli("verify", str(data), "-o", "json").stdout)
    assert [run["workflow_id"] for fault in told["faults"] for run in fault["runs"]] == ["w2"]
    exported = cli("export", str(data))
    assert exported.returncode == 1
    assert "is not whole" in exported.stderr
    assert exported.stdout.count('"history":') == 5
    assert exported.stdout.count('"damaged":') == 1
    asked = subprocess.run(
        [sys.executable, "-m", "perdure", "workflow", "result", "w2", "--data", str(data)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (asked.returncode, "part of its history is lost" in asked.stderr) == (1, True)
    mended = cli("repair", str(data))
    assert mended.returncode == 0
    assert "is kept in journal/00000001.jsonl.damaged-1" in mended.stderr
    assert (data / "journal" / "00000001.jsonl.damaged-1").read_bytes() == old
    assert cli("verify", str(data)).returncode == 0
    assert "there was nothing to repair" in cli("repair", str(data)).stderr

    async def look() -> dict[str, str]:
        async with perdure.embedded(data) as app:
            app.register(listens)
            await app.client.handle("w1").signal("go", "!")
            assert await app.client.handle("w1").result(timeout=20) == "1!"
            await app.client.handle("w2").terminate("lost")
            assert cli("repair", str(data)).returncode == 6
            assert cli("verify", str(data)).returncode == 0
            return {row.workflow_id: row.status async for row in app.client.list()}

    assert asyncio.run(look()) == {
        "w0": "running",
        "w1": "completed",
        "w2": "terminated",
        "w3": "running",
        "w4": "running",
    }


def test_where_there_is_no_journal_there_is_nothing_to_verify(tmp_path: Path) -> None:
    """Not found is exit code 3, and nothing is made."""
    assert cli("verify", str(tmp_path / "none")).returncode == 3
    assert cli("repair", str(tmp_path / "none")).returncode == 3
    assert not (tmp_path / "none").exists()


def test_compact_drops_what_is_past_its_keep_time(tmp_path: Path) -> None:
    """Closed runs older than asked for are gone from the journal and from listings; the others stay. Refused while a node runs."""

    async def run() -> None:
        async with perdure.embedded(tmp_path) as app:
            app.register(listens)
            for number in range(3):
                handle = await app.client.start(listens(str(number)), id=f"w{number}")
                if number:
                    await handle.signal("go", "!")
                    await handle.result(timeout=20)
            assert cli("compact", str(tmp_path)).returncode == 6

    async def left() -> set[str]:
        async with perdure.embedded(tmp_path) as app:
            app.register(listens)
            return {row.workflow_id async for row in app.client.list()}

    asyncio.run(run())
    kept = cli("compact", str(tmp_path))
    assert kept.returncode == 0, kept.stderr
    assert kept.stdout.startswith("0 runs dropped")
    assert asyncio.run(left()) == {"w0", "w1", "w2"}
    done = cli("compact", str(tmp_path), "--retention", "0s", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["runs"] == 2
    assert asyncio.run(left()) == {"w0"}
    assert cli("verify", str(tmp_path)).returncode == 0
