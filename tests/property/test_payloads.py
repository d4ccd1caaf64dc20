"""Round trips of whatever values Hypothesis builds: by hint, pure, on one line."""

import enum
import uuid
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from perdure.sdk.payloads import CONVERTER, Signature


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass(frozen=True)
class Leaf:
    text: str
    count: int | None
    size: Size


class Node(msgspec.Struct, frozen=True):
    leaves: tuple[Leaf, ...]
    tags: frozenset[str]
    when: datetime | None = None


@dataclass(frozen=True)
class Either:
    one: Leaf | Node
    rest: list[Leaf | Node]


text = st.text(st.characters(exclude_categories=["Cs"]))
finite = st.floats(allow_nan=False, allow_infinity=False)
moments = st.datetimes()
leaves = st.builds(Leaf, text=text, count=st.none() | st.integers(), size=st.sampled_from(Size))
nodes = st.builds(Node, leaves=st.lists(leaves, max_size=3).map(tuple), tags=st.frozensets(text), when=st.none() | moments)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(text, parts, max_size=4),
    max_leaves=20,
)

BY_HINT: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (Any, plain),
    (bytes, st.binary()),
    (timedelta, st.timedeltas()),
    (datetime, moments),
    (date, st.dates()),
    (time, st.times()),
    (uuid.UUID, st.uuids()),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (Leaf, leaves),
    (Node, nodes),
    (Either, st.builds(Either, one=leaves | nodes, rest=st.lists(leaves | nodes, max_size=3))),
    (dict[int, set[int]], st.dictionaries(st.integers(), st.sets(st.integers()))),
    (dict[uuid.UUID, Size], st.dictionaries(st.uuids(), st.sampled_from(Size))),
    (set[frozenset[str]], st.sets(st.frozensets(text, max_size=3), max_size=3)),
    (list[tuple[int, str]], st.lists(st.tuples(st.integers(), text))),
]
hinted = st.sampled_from(BY_HINT).flatmap(lambda pair: st.tuples(st.just(pair[0]), pair[1]))


@given(hinted)
def test_round_trip(case: tuple[Any, Any]) -> None:
    """Whatever is encoded is read back equal by its hint, and encoding that again gives the same bytes, on one line."""
    hint, value = case
    payload = CONVERTER.encode(value, "value")
    back = CONVERTER.decode(payload, hint)
    assert back == value
    assert bytes(CONVERTER.encode(back, "value")) == bytes(payload)
    assert b"\n" not in bytes(payload)


@given(st.sets(text, min_size=2), st.randoms(use_true_random=False))
def test_a_set_has_one_form(members: set[str], chance: Any) -> None:
    """Equal sets give equal bytes, in whatever order they were filled."""
    shuffled = sorted(members)
    chance.shuffle(shuffled)
    assert bytes(CONVERTER.encode({"k": set(shuffled)}, "v")) == bytes(CONVERTER.encode({"k": members}, "v"))


def called(a: int, b: str = "b", *rest: int, c: bool = False, **extra: float) -> Any:
    """What was given, to be compared."""
    return a, b, rest, c, extra


@given(
    st.lists(st.integers(), min_size=1, max_size=1),
    st.lists(text, max_size=1),
    st.lists(st.integers(), max_size=3),
    st.fixed_dictionaries({}, optional={"c": st.booleans(), "x": finite, "y": finite}),
)
def test_a_call_means_the_same_after_travelling(a: list[int], b: list[str], rest: list[int], named: dict[str, Any]) -> None:
    """Calling with what came out of the payloads gives what calling directly gives."""
    args = (*a, *b, *(rest if b else ()))
    signature = Signature.of(called)
    out_args, out_kwargs = signature.unbind(*signature.bind(args, named, "called"))
    assert called(*out_args, **out_kwargs) == called(*args, **named)
