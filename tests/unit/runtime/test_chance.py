"""Real and seeded chance."""

import os
import uuid

import pytest

from perdure.runtime.chance import RealChance
from perdure.testing.chance import SeededChance


@pytest.mark.parametrize("chance", [RealChance(), SeededChance(7)], ids=["real", "seeded"])
def test_run_ids_are_uuid7_and_sort(chance) -> None:
    """Later ids sort later, also many in one millisecond."""
    ids = [chance.run_id() for _ in range(20_000)]
    assert ids == sorted(set(ids))
    assert {uuid.UUID(text).version for text in ids} == {7}
    assert {uuid.UUID(text).variant for text in ids} == {uuid.RFC_4122}
    assert str(uuid.UUID(ids[0])) == ids[0]


@pytest.mark.parametrize("chance", [RealChance(), SeededChance(7)], ids=["real", "seeded"])
def test_tokens_and_seeds(chance) -> None:
    """128 bits as text, 63 bits as a number, none twice."""
    tokens = [chance.token() for _ in range(2000)]
    assert len(set(tokens)) == 2000
    assert {len(token) for token in tokens} == {32}
    seeds = [chance.seed() for _ in range(2000)]
    assert len(set(seeds)) == 2000
    assert max(seeds) < 1 << 63
    assert max(seeds) > 1 << 61


def test_a_forked_child_draws_other_tokens() -> None:
    """What the parent had read ahead is not given out twice."""
    chance = RealChance()
    chance.token()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, chance.token().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100).decode() != chance.token()
    os.close(reader)
    os.close(writer)


def test_one_seed_one_sequence() -> None:
    """The same seed draws the same, another seed does not."""

    def draw(seed: int) -> list[object]:
        chance = SeededChance(seed)
        return [chance.run_id(), chance.token(), chance.seed(), chance.run_id()]

    assert draw(3) == draw(3)
    assert draw(3) != draw(4)
