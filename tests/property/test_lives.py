"""The models' space on the real machine: racing, dying, lagging and redeployed workers never make a history that does not replay.

Each seed is one life (see `perdure.testing.machine.lives`). By hand, a hundred thousand:
`PERDURE_LIVES=100000 python -m pytest tests/property/test_lives.py -m slow`.
"""

import os
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from perdure.core.events import CancelRequested
from perdure.core.machine import closing, reports
from perdure.core.requests import ActivitySucceeded
from perdure.testing.machine.lives import LifeError, live
from perdure.testing.machine.toy import ToyRunner
from perdure.testing.machine.toy_updates import ToyUpdates

BLOCK = 250
BULK = int(os.environ.get("PERDURE_LIVES", "20000"))


@pytest.mark.rule("O1")
@pytest.mark.rule("F4")
@pytest.mark.rule("F5")
@pytest.mark.rule("F8")
@pytest.mark.rule("F9")
@pytest.mark.rule("F10")
@pytest.mark.scenario(17)
@pytest.mark.scenario(30)
@pytest.mark.parametrize("block", range(8))
def test_every_history_of_a_life_replays_and_no_message_is_lost(block: int, record_property: Any) -> None:
    """2,000 lives: histories replay, signals are taken or counted once, cancels carry over, closes are refused at most three times."""
    counts: Counter[str] = Counter()
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        counts += play(seed, record_property)
    rare = {"runs": 300, "dropped": 200, "cut": 40, "fused": 20, "close refused": 8, "old build": 2, "reset": 10, "paused": 20}
    rare |= {"updates": 40, "updates refused": 20, "taken over": 100, "lost unwritten": 8, "beat": 20}
    assert {what: counts[what] for what in rare if counts[what] < rare[what]} == {}, "these lives show too little"


MANNERS: dict[str, dict[str, Any]] = {
    "always cold": {"cold": True},
    "never fused": {"fuses": False},
    "cold and never fused": {"cold": True, "fuses": False},
}


@pytest.mark.scenario(19)
@pytest.mark.parametrize("manner", MANNERS)
def test_lives_the_hard_way(manner: str, record_property: Any) -> None:
    """The same laws when runs are replayed at every claim, and when nothing is fed before it is recorded."""
    counts: Counter[str] = Counter()
    for seed in range(20_000, 20_000 + BLOCK):
        counts += play(seed, record_property, **MANNERS[manner])
    rare = {"runs": 150, "dropped": 20, "reset": 5, "paused": 5, "updates": 10}
    assert {what: counts[what] for what in rare if counts[what] < rare[what]} == {}, "these lives show too little"


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_bulk_of_lives(record_property: Any) -> None:
    """As above, for seeds the quick test does not reach."""
    for seed in range(1_000_000, 1_000_000 + BULK):
        play(seed, record_property)


def play(seed: int, record_property: Any, **manner: Any) -> Counter[str]:
    try:
        return live(seed, **manner)
    except LifeError:
        record_property("seed", seed)
        raise


# ---------------------------------------------------------------------------------------- the search finds broken rules


def by_the_fence_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows a fact is accepted although others appended something meanwhile."""
    init = reports._Judge.__init__

    def lenient(self: Any, *args: Any) -> None:
        init(self, *args)
        self.exact = True

    monkeypatch.setattr(reports._Judge, "__init__", lenient)


def owners_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fused fact gets the owner's time instead of the one it was fed at."""
    succeeded = reports._Judge._succeeded

    def stamped(self: Any, fact: ActivitySucceeded) -> None:
        draft = self.draft
        last = draft.events[-1].time if draft.events else self.run.last_time
        succeeded(self, replace(fact, fed_at=max(draft.now, last)) if fact.fed_at else fact)

    monkeypatch.setattr(reports._Judge, "_succeeded", stamped)


def no_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions are accepted whatever was decided since."""
    init = reports._Judge.__init__

    def lenient(self: Any, *args: Any) -> None:
        init(self, *args)
        self.fence = self.right = self.report.based_on > 0

    monkeypatch.setattr(reports._Judge, "__init__", lenient)


def drift_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancel answered on the spot moves what follows, and nobody minds."""
    commands = reports._Judge._commands

    def blind(self: Any, step: Any) -> None:
        commands(self, step)
        self.drifted = False

    monkeypatch.setattr(reports._Judge, "_commands", blind)


def carry(monkeypatch: pytest.MonkeyPatch, keep: Any) -> None:
    carried = closing._carried

    def fewer(draft: Any, report: Any, wanted: Any, **after: int) -> Any:
        kept = [event for event in carried(draft, report, wanted, **after) if keep(event, report, wanted)]
        return [replace(event, id=number) for number, event in enumerate(kept, 2)]

    monkeypatch.setattr(closing, "_carried", fewer)


def cancels_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancel requests do not follow a run that continues."""
    carry(monkeypatch, lambda event, _report, _wanted: not isinstance(event, CancelRequested))


def signals_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only signals the worker had not been sent are carried over."""
    carry(
        monkeypatch, lambda event, report, _wanted: isinstance(event, CancelRequested) or event.carried_from > report.based_on
    )


def untaken_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signals that were fed and not taken stay with the old run."""
    carry(
        monkeypatch,
        lambda event, _report, wanted: isinstance(event, CancelRequested) or event.carried_from not in wanted,
    )


def new_path_when_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change takes its new path although a decision without commands has covered the input."""
    monkeypatch.setattr(ToyRunner, "is_news", lambda _self, following: following is None)


def updates_covered_by_their_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """An update that is taken now counts as covered when the input before it is."""
    offer = ToyUpdates.offer

    def covered(self: Any, update: Any, now: int) -> Any:
        runner = self._runner
        monkeypatch.setattr(runner, "is_news", lambda following: following is None and runner.at > runner.covered)
        return offer(self, update, now)

    monkeypatch.setattr(ToyUpdates, "offer", covered)


def updates_at_the_workers_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replay shows a handler the time of its input, not the one at which it was taken."""
    take_up = ToyUpdates.take_up
    monkeypatch.setattr(ToyUpdates, "take_up", lambda self, accepted: take_up(self, replace(accepted, fed_at=0)))


def updates_before_their_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replay takes an update as soon as it meets it, before the input it came after has run."""
    run = ToyRunner._run

    def early(self: Any, event: Any) -> None:
        self._take_up()
        run(self, event)

    monkeypatch.setattr(ToyRunner, "_run", early)


def refusals_of_anyone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever was offered an update may refuse it, whatever was decided since."""
    judge = reports._Judge.judge

    def lenient(self: Any) -> Any:
        refused, self.report = self.report.refused, replace(self.report, refused=())
        outcome = judge(self)
        if refused:
            outcome.reply.accepted = True
        return outcome

    monkeypatch.setattr(reports._Judge, "judge", lenient)


def results_cut_a_continuation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result reported together with continue-as-new cuts it off, after its commands have covered what it would carry."""
    closes = reports._Judge._closes
    monkeypatch.setattr(reports._Judge, "_closes", lambda self, closing: not self.cut and closes(self, closing))


def claims_that_outlive_their_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision under a claim of the owner before is accepted when nothing was decided since: the fence counts events, it does not read them."""
    init = reports._Judge.__init__

    def lenient(self: Any, *args: Any) -> None:
        init(self, *args)
        self.right = self.right or (self.run.claim is None and bool(self.report.token))

    monkeypatch.setattr(reports._Judge, "__init__", lenient)


BROKEN = [
    by_the_fence_alone,
    owners_own_time,
    no_fence,
    drift_unseen,
    cancels_left_behind,
    signals_left_behind,
    untaken_left_behind,
    new_path_when_nothing_is_left,
    results_cut_a_continuation,
    updates_covered_by_their_input,
    updates_at_the_workers_time,
    updates_before_their_input,
    refusals_of_anyone,
    claims_that_outlive_their_owner,
]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda rule: rule.__name__)
def test_the_search_finds_a_broken_rule(broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each simpler rule that was tried and failed is found out within 8,000 lives; the failure names its seed first."""
    broken(monkeypatch)
    for seed in range(8_000):
        if (line := found(seed)) is not None:
            assert line.startswith(f"seed {seed}: ")
            assert not any(kind in line for kind in ("AttributeError", "NameError", "TypeError")), f"the test is broken: {line}"
            return
    pytest.fail(f"nothing is wrong without this rule: {broken.__doc__}")


def found(seed: int) -> str | None:
    try:
        live(seed, checked=False)
    except LifeError as error:
        return str(error).splitlines()[0]
    return None
