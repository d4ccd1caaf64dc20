"""Messages between runs, on the real machine: whatever is late, repeated or lost in a crash, each has its one effect and nobody waits for ever.

Each seed is one family (see `perdure.testing.machine.family`). By hand, a hundred thousand:
`PERDURE_FAMILIES=100000 python -m pytest tests/property/test_families.py -m slow`.
"""

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from perdure.core.machine import messages, runs
from perdure.core.machine.applying import commands
from perdure.testing.machine import sole_owner
from perdure.testing.machine.family import FamilyError, raise_family

BLOCK = 200
BULK = int(os.environ.get("PERDURE_FAMILIES", "5000"))


@pytest.mark.scenario(9)
@pytest.mark.scenario(14)
@pytest.mark.parametrize("block", range(4))
def test_every_message_has_its_one_effect(block: int, record_property: Any) -> None:
    """800 families: children start once, end as their parents' chains owe them, are heard of, and signals arrive once and in order."""
    counts: Counter[str] = Counter()
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        counts += play(seed, record_property)
    rare = {"runs": 800, "children": 700, "signals": 700, "crashes": 500, "resets": 400, "superseded": 5}
    assert {what: counts[what] for what in rare if counts[what] < rare[what]} == {}, "these families show too little"


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_bulk_of_families(record_property: Any) -> None:
    """As above, for seeds the quick test does not reach."""
    for seed in range(1_000_000, 1_000_000 + BULK):
        play(seed, record_property)


def play(seed: int, record_property: Any) -> Counter[str]:
    try:
        return raise_family(seed)
    except FamilyError:
        record_property("seed", seed)
        raise


@pytest.mark.scenario(98)
@pytest.mark.parametrize("seed", [1_000_598, 1_000_643])
def test_an_answer_older_than_a_reset_does_not_stand_for_a_new_one(seed: int) -> None:
    """The child has started, its answer is under way, it ends while its parent is closed, and the parent is reset: the new run asks anew."""
    raise_family(seed, checked=True)


# ---------------------------------------------------------------------------------------- the search finds broken rules


def nobody_ends_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run closes and says nothing to its children."""
    monkeypatch.setattr(messages, "_end_child", lambda *_: None)


def starts_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that comes again is taken for another one once its child's chain is not the last of its id."""
    monkeypatch.setattr(runs, "_known_child", lambda *_: None)


def children_do_not_outlive_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that continues as new forgets its children."""
    monkeypatch.setattr(commands, "_hand_down", lambda *_: None)


def nobody_asks_after_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a child said when the node died is not asked for again."""
    plain = messages.deliveries_of
    monkeypatch.setattr(sole_owner, "deliveries_of", lambda state, **_: plain(state))


def only_open_runs_deliver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages of a run that closed die with the node."""

    def forgetful(state: Any, **asking: Any) -> Any:
        left = set(state.outgoing or ())
        return [delivery for delivery in messages.deliveries_of(state, **asking) if delivery.key not in left]

    monkeypatch.setattr(sole_owner, "deliveries_of", forgetful)


@pytest.mark.parametrize(
    "break_rule",
    [
        nobody_ends_children,
        starts_are_forgotten,
        children_do_not_outlive_runs,
        nobody_asks_after_a_crash,
        only_open_runs_deliver,
    ],
)
def test_a_broken_rule_is_found(break_rule: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rule is needed: without it some family goes wrong within a few hundred seeds."""
    break_rule(monkeypatch)
    assert any(found(seed) for seed in range(2_000)), f"nothing is wrong without this rule: {break_rule.__doc__}"


def found(seed: int) -> bool:
    try:
        raise_family(seed, checked=False)
    except FamilyError as error:
        if any(kind in str(error) for kind in ("AttributeError", "NameError", "TypeError")):
            raise  # it is the test that is broken
        return True
    return False
