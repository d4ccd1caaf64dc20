"""A whole node under one seed: fresh seeds and those that ever failed, the same digest everywhere, and bugs put in on purpose are found."""

import io
import logging
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from perdure.core.machine import reports
from perdure.engine.owner import ShardOwner
from perdure.testing import simulation
from perdure.testing.disk import SimulatedFile
from perdure.testing.simulation import explain, main, plan, simulate
from perdure.testing.workloads import WORKLOADS

KNOWN = [
    (int(number), reason)
    for number, _, reason in (
        line.partition(" ")
        for line in (Path(__file__).parent / "seeds.txt").read_text().splitlines()
        if not line.startswith("#")
    )
]
FIRST = int(os.environ.get("PERDURE_SIM_SEED", "1000"))
SEEDS = int(os.environ.get("PERDURE_SIM_SEEDS", "500"))
BLOCK = 25


@pytest.fixture(autouse=True)
def quiet():
    """What a node says of its faults would bury what the simulation says."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(level)


def check(seeds):
    """Fail with what the seeds have found; the first line says how to see it again."""
    broken = [verdict for verdict in map(simulate, seeds) if verdict.fault]
    if broken:
        pytest.fail("\n\n".join(explain(verdict) for verdict in broken), pytrace=False)


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, BLOCK))
@pytest.mark.rule("O4", "O6", "O20", "O21")
@pytest.mark.scenario(49)
def test_worlds_come_to_rest_with_every_law_kept(first):
    """Workloads, crashes, a bad disk, an unkind broker: all runs end as they must, effects happen once, histories replay."""
    check(range(first, min(first + BLOCK, FIRST + SEEDS)))


@pytest.mark.parametrize("seed", [number for number, _ in KNOWN], ids=str)
def test_what_was_found_once_stays_mended(seed):
    """Every seed that ever failed runs again, as it was before workers could outlive their node and as it is; seeds.txt says what it found."""
    check([seed])
    if plan(seed).setup.far and (fault := simulate(seed, far=False)).fault:
        pytest.fail(explain(fault), pytrace=False)


def test_every_workload_takes_part():
    """Whatever a node can be asked for is played in many of the seeds, alone and beside others."""
    played = Counter(kind for seed in range(1000, 1500) for kind in {kind for kind, _ in plan(seed).plays})
    assert sorted(played) == list(range(len(WORKLOADS)))
    assert min(played.values()) >= 30


@pytest.mark.rule("O21")
def test_the_outside_world_absorbs_duplicates():
    """Activities really are tried again after their effect: without idempotency keys these worlds would show it."""
    assert sum(simulate(seed).absorbed for seed in range(1, 15)) > 20


def test_a_seed_says_the_same_in_every_process():
    """The digest of what was committed depends on the seed alone: not on the process, not on the hash seed, not on what ran before."""
    here = io.StringIO()
    assert main(7, 6, out=here, err=io.StringIO()) == 0
    program = "from perdure.testing.simulation import main; raise SystemExit(main(7, 6))"
    for hash_seed in ("1", "2"):
        ran = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        )
        assert ran.stdout == here.getvalue()
    digests = {line.split("digest ")[1].split()[0] for line in here.getvalue().splitlines()}
    assert len(digests) == 6


# ------------------------------------------------------------------------------------------------- bugs put in on purpose


def found(seeds):
    """The first seed of these that finds the bug, told as users are told."""
    for seed in seeds:
        verdict = simulate(seed)
        if verdict.fault:
            return explain(verdict)
    return None


@pytest.mark.rule("O20")
def test_an_acknowledgement_before_the_commit_is_found(monkeypatch):
    """Law `ordered`: an engine that answers before the write loses signals it has acknowledged."""
    write = ShardOwner._write

    def hasty(self, live, request, outcome, transition, answer):
        if answer is not None and type(request).__name__ == "SignalWorkflow":
            answer(outcome.reply, None)
            answer = None
        write(self, live, request, outcome, transition, answer)

    monkeypatch.setattr(ShardOwner, "_write", hasty)
    story = found(range(1, 300))
    assert story
    first = story.splitlines()[0]
    with pytest.raises(pytest.fail.Exception) as failed:  # as the tests above tell it
        check([int(first.split()[-1])])
    assert str(failed.value).splitlines()[0] == first
    assert first.startswith("perdure sim --seed ")


def test_fused_commands_without_an_exact_prefix_are_found(monkeypatch):
    """Law `replayed`: commands that followed a fact are wrong when something else came in between."""
    judge = reports._Judge.__init__

    def lax(self, *args):
        judge(self, *args)
        self.exact = True

    monkeypatch.setattr(reports._Judge, "__init__", lax)
    assert found(range(1, 300))


def test_a_disk_that_lies_about_syncing_is_found(monkeypatch):
    """Law `kept`: what was acknowledged and never synced is missed after the power was cut."""
    append = SimulatedFile.append

    async def lying(self, data):
        durable = self._contents.durable
        await append(self, data)
        self._contents.durable = min(durable, 4096)

    monkeypatch.setattr(SimulatedFile, "append", lying)
    assert found(range(1, 300))


def test_signals_delivered_twice_are_found(monkeypatch):
    """Law `once`: an engine that forgets signal ids delivers what is sent again."""
    from perdure.core.machine import signals

    decide = signals.signal

    def forgetful(state, request, now):
        remembered, state.signal_ids = state.signal_ids, {}
        try:
            return decide(state, request, now)
        finally:
            state.signal_ids = remembered

    monkeypatch.setitem(simulation_table(), type_of_signal(), forgetful)
    assert found(range(1, 300))


def simulation_table():
    from perdure.core import machine

    return machine._DECIDE


def type_of_signal():
    from perdure.core.requests import SignalWorkflow

    return SignalWorkflow


def test_a_failure_says_first_how_to_see_it_again(monkeypatch):
    """The seed is in the first line; then what broke, what was done to the machine, and the history at fault."""

    def broken(*_):
        raise simulation.BrokenWorldError("the moon is gone", ("event 1", "event 2"))

    monkeypatch.setattr(simulation.World, "digest", lambda _: "0")
    monkeypatch.setattr(simulation, "check_world", broken)
    out, err = io.StringIO(), io.StringIO()
    assert main(41, 1, out=out, err=err) == 1
    lines = err.getvalue().splitlines()
    assert lines[:2] == ["perdure sim --seed 41", "the moon is gone"]
    assert "boot of node 1" in lines[2]
    assert lines[-2:] == ["  event 2", "1 seeds, 1 broken, " + lines[-1].split(", ")[2]]
