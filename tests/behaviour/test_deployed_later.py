"""Runs that outlive every process and every build that was there when they began."""

from datetime import timedelta
from pathlib import Path

import pytest

from perdure import activity, workflow
from perdure.core.notes import DecidedBy
from perdure.testing.virtual_environment import environment


@activity
async def note_down(text: str) -> str:
    return text


@activity
async def charge(text: str) -> str:
    return f"charged {text}"


@workflow(name="contract")
async def first_build(name: str) -> str:
    await note_down(name)
    signed = await workflow.receive("signed", str)
    return await note_down(f"{name}, signed by {signed}")


@workflow(name="contract")
async def a_year_later(name: str) -> str:
    """Written long after the run began: what it changes is guarded, and what comes behind the wait is new altogether."""
    if workflow.patched("fee first"):
        await charge(name)
    await note_down(name)
    signed = await workflow.receive("signed", str)
    if workflow.patched("fee at last"):
        await charge(name)
    return await note_down(f"{name}, signed by {signed} in another age")


@pytest.mark.rule("F3")
@pytest.mark.rule("F10")
@pytest.mark.rule("F25")
async def test_a_run_parked_for_days_resumes_on_a_build_that_did_not_exist_when_it_began(tmp_path: Path) -> None:
    """All it has is its history: nine days on, on code its first worker never saw, it takes the old path where it has been, and the new
    one where it comes now; both builds are on record."""
    async with environment(data=tmp_path / "data", build_id="monday") as env:
        env.register(first_build, note_down)
        await env.client.start("contract", "rent", id="c1")
        await env.advance(timedelta(days=2))
        assert (await env.client.handle("c1").describe()).build_id == "monday"
        later = env.now() + timedelta(days=7)
    async with environment(data=tmp_path / "data", build_id="wednesday", start=later) as env:
        env.register(a_year_later, note_down, charge)
        handle = env.client.handle("c1")
        assert (await handle.describe()).status == "running"
        await env.advance(timedelta(days=1))
        await handle.signal("signed", "Ann")
        assert await handle.result() == "rent, signed by Ann in another age"
        history = await handle.history()
        markers = [entry.fields()["change_id"] for entry in history if entry.type == "version_marked"]
        assert markers == ["fee at last"]
        assert history[-1].time - history[0].time >= timedelta(days=10)
        record = await env.client.frontend.record("default", "c1")
        assert [note.build_id for note in record.notes if isinstance(note, DecidedBy)] == ["monday", "wednesday"]
