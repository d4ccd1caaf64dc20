"""Values become JSON by what they are and values again by their hint; what cannot is refused with its path."""

import enum
import math
import os
import subprocess
import sys
import uuid
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Generic, Literal, NamedTuple, TypedDict, TypeVar

import attrs
import msgspec
import pydantic
import pytest
from msgspec import Raw

from perdure.core.errors import InvalidArgument, PayloadTooLarge
from perdure.sdk.payloads import CONVERTER, Converter

T = TypeVar("T")


@dataclass
class Line:
    price: Any


@dataclass
class Order:
    lines: list[Line]


@dataclass
class Card:
    number: str


@dataclass
class Transfer:
    number: str
    bank: str = ""


@dataclass
class Payment:
    by: Card | Transfer
    tries: list[Card | Transfer] = field(default_factory=list)
    after: "Payment | None" = None
    named: dict[int, Card | Transfer] | None = None


@dataclass
class Box(Generic[T]):
    item: T


class Colour(enum.Enum):
    RED = "red"


class Place(enum.Enum):
    HOME = (1, 2)
    WORK = (3, 4)


class Level(enum.IntEnum):
    HIGH = 3


class Point(NamedTuple):
    x: int
    y: int = 0


class Hop(NamedTuple):
    by: Card | Transfer
    n: int = 1


class Options(TypedDict, total=False):
    by: Card | Transfer


class Tagged(msgspec.Struct, rename="camel", tag=True):
    pay_by: Card | Transfer


@attrs.define
class Private:
    _secret: int
    shown: str = ""


@attrs.define
class PrivateUnion:
    _by: Card | Transfer


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    at: datetime
    tags: set[str] = set()
    amount: int = pydantic.Field(default=0, alias="AMOUNT")


@dataclass
class Mixed:
    model: Model
    others: dict[str, Model]


class Text(str):
    __slots__ = ()


class Tree(msgspec.Struct):
    children: "list[Tree]" = []


ROUND_TRIPS: list[tuple[Any, Any]] = [
    (None, None),
    (2**80, int),
    (-0.0, float),
    (b"\0\xff", bytes),
    (Decimal("1.10"), Decimal),
    (uuid.UUID(int=7), uuid.UUID),
    (datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), datetime),
    (date(2026, 1, 2), date),
    (time(1, 2, 3, 4), time),
    (timedelta(days=-1, microseconds=1), timedelta),
    ({1, 2, 3}, set[int]),
    (frozenset({"a"}), frozenset[str]),
    ((1, "a"), tuple[int, str]),
    ((1, 2, 3), tuple[int, ...]),
    ("b", Literal["a", "b"]),
    (Colour.RED, Colour),
    (Level.HIGH, Level),
    (Place.WORK, Place),
    ([Place.WORK], list[Place]),
    (Point(1, 2), Point),
    (Hop(Card("1"), 2), Hop),
    ({"by": Transfer("1", "b")}, Options),
    (Tagged(Transfer("1", "b")), Tagged),
    (Tree([Tree(), Tree([Tree()])]), Tree),
    (Private(5, "s"), Private),
    ([Private(5)], list[Private]),
    (PrivateUnion(Card("1")), PrivateUnion),
    (Model(at=datetime(2026, 1, 1), tags={"a", "b"}, AMOUNT=3), Model),  # noqa: DTZ001
    (Mixed(Model(at=datetime(2026, 1, 1, tzinfo=UTC)), {"k": Model(at=datetime(2026, 1, 1, tzinfo=UTC))}), Mixed),
    (Model(at=datetime(2026, 1, 1, tzinfo=UTC)), Card | Model | None),
    (Card("1"), Transfer | Card),
    (Transfer("1"), Card | Transfer),
    (Payment(Card("1"), [Transfer("2"), Card("3")], Payment(Transfer("4")), {1: Card("5")}), Payment),
    (Box(Card("1")), Box[Card | Transfer]),
    ([Box(Transfer("1"))], list[Box[Card | Transfer]]),
    ((Card("1"), Transfer("2")), tuple[Card | Transfer, ...]),
    ([{"k": Card("1")}], list[dict[str, Card | Transfer]]),
    (uuid.UUID(int=5), uuid.UUID | str),
    ("plain", uuid.UUID | str),
    ({1: "a"}, dict[int, str]),
    ({1.5: "a"}, dict[float, str]),
    ({Colour.RED: 1}, dict[Colour, int]),
    ({uuid.UUID(int=1): 1}, dict[uuid.UUID, int]),
    ({date(2026, 1, 1): 1}, dict[date, int]),
    (OrderedDict(b=1, a=2), OrderedDict[str, int]),
    (Counter("aab"), Counter[str]),
    (deque([Card("1")]), deque[Card]),
    (Text("t"), Text),
    ({"z": [1, None, True, 1.5], "a": "x"}, Any),
]


@pytest.mark.parametrize(("value", "hint"), ROUND_TRIPS, ids=[str(hint) for _, hint in ROUND_TRIPS])
def test_round_trip(value: Any, hint: Any) -> None:
    """What is encoded is read back equal and of the same class by its hint."""
    back = CONVERTER.decode(CONVERTER.encode(value, "value"), hint)
    assert back == value
    assert type(back) is type(value)


def test_order_of_a_dict_is_kept() -> None:
    """A dict comes back in the order it had, also beside a set."""
    back = CONVERTER.decode(CONVERTER.encode({"z": {2, 1}, "a": 1}, "value"))
    assert list(back) == ["z", "a"]


def test_a_subclass_is_encoded_as_it_is() -> None:
    """The hint does not cut a value down: what the value is decides what is written."""

    @dataclass
    class Express(Line):
        fee: int

    assert bytes(CONVERTER.encode(Order([Express(1, 2)]), "o")) == b'{"lines":[{"price":1,"fee":2}]}'
    assert bytes(CONVERTER.encode([Text("t")], "o")) == b'["t"]'


CYCLE: list[Any] = []
CYCLE.append(CYCLE)

BAD: list[tuple[Any, str]] = [
    (
        Order([Line(1), Line(2), Line(3), Line(object())]),
        "charge(order).lines[3].price cannot be encoded: objects of type `object`",
    ),
    (Order([Line(math.nan)]), "charge(order).lines[0].price cannot be encoded: nan"),
    ([None, math.inf], "charge(order)[1] cannot be encoded: inf"),
    (Model(at=datetime(2026, 1, 1), AMOUNT=1).model_copy(update={"tags": {math.nan}}), "charge(order).tags{…}"),  # noqa: DTZ001
    ({"k": "\ud800"}, "charge(order)['k'] cannot be encoded: 'utf-8'"),
    ({"k": {(1, 2): 3}}, "charge(order)['k'] cannot be encoded: the key (1, 2) of type `tuple`"),
    ({True: 1}, "charge(order) cannot be encoded: the key True of type `bool`"),
    (Point(1, object()), "charge(order).y cannot be encoded"),  # type: ignore[arg-type]
    (Private(math.nan), "charge(order)._secret cannot be encoded"),  # type: ignore[arg-type]
    (Private(object()), "charge(order)._secret cannot be encoded"),  # type: ignore[arg-type]
    ({object()}, "charge(order){…} cannot be encoded"),
    (CYCLE, "charge(order) cannot be encoded: nested deeper"),
    (1 + 2j, "charge(order) cannot be encoded: objects of type `complex`"),
    ([Raw(b"[1 2")], "charge(order) cannot be encoded: JSON is malformed"),
    (Raw(b'"\xff"'), "charge(order) cannot be encoded: Invalid UTF-8"),
    ({"a": [Raw(b'{"b\xc3":1}')]}, "charge(order) cannot be encoded: Invalid UTF-8 encoded"),
]


@pytest.mark.scenario(75)
@pytest.mark.parametrize(("value", "message"), BAD, ids=[message for _, message in BAD])
def test_what_cannot_be_encoded_is_named_by_its_path(value: Any, message: str) -> None:
    """The innermost part that has no JSON form is named, with the reason."""
    with pytest.raises(InvalidArgument) as error:
        CONVERTER.encode(value, "charge(order)")
    assert str(error.value).startswith(message)


def test_nesting_has_a_bound() -> None:
    """What nests too deep for any reader is refused where it is written; at the bound it is taken."""
    nested: Any = 1
    for _ in range(200):
        nested = [nested]
    assert CONVERTER.decode(CONVERTER.encode(nested, "value")) == nested
    with pytest.raises(InvalidArgument, match="nested deeper than 200"):
        CONVERTER.encode([[nested]], "value")


@pytest.mark.scenario(72)
def test_too_large_is_refused_at_the_edge() -> None:
    """At the limit a payload is taken; one byte more is refused naming path, size, limit and setting."""
    converter = Converter(limit_bytes=12)
    assert len(bytes(converter.encode("x" * 10, "charge(order)"))) == 12
    with pytest.raises(PayloadTooLarge, match=r"charge\(order\) is 13 bytes, more than the 12 .*limits\.payload_bytes_max"):
        converter.encode("x" * 11, "charge(order)")


UNFIT: list[tuple[bytes, Any, str]] = [
    (b'{"lines":[{"price":1},{}]}', Order, "Object missing required field `price` - at `order.lines[1]`"),
    (b'{"number":5}', Card, "Expected `str`, got `int` - at `order.number`"),
    (
        b'{"by":{"number":"1"},"tries":[{"number":5}]}',
        Payment,
        "Expected `Card | Transfer`, got something that fits none of them - at `order.tries[0]`",
    ),
    (b'{"tries":[]}', Payment, "missing 1 required positional argument: 'by'"),
    (b'[{"number":"1"}]', tuple[Card | Transfer, int], "Expected `array` of length 2 - at `order`"),
    (b'{"at":3}', Model, "Input should be a valid datetime"),
    (b"[9]", Place, "Invalid value of enum `Place`"),
    (b'"1"', int, "Expected `int`, got `str`"),
    (b"[1", Any, "truncated"),
    (b"", Any, "truncated"),
    (b"[" * 100_000 + b"]" * 100_000, Any, "recursion"),
    (b"1", type(print), "nothing can be read as"),
    (b"{}", "Nowhere", "order cannot be read as `Nowhere`"),
]


@pytest.mark.parametrize(("payload", "hint", "message"), UNFIT, ids=[message for *_, message in UNFIT])
def test_what_does_not_fit_its_hint_is_named_by_its_path(payload: bytes, hint: Any, message: str) -> None:
    """Nothing but `InvalidArgument` comes out of reading, and it says where."""
    with pytest.raises(InvalidArgument) as error:
        CONVERTER.decode(Raw(payload), hint, "order")
    assert message in str(error.value)


def test_order_of_a_union_counts_whatever_was_read_before() -> None:
    """Two spellings of one union compare equal, and still each is read in its own order."""
    payload = CONVERTER.encode(uuid.UUID(int=5), "id")
    converter = Converter()
    assert type(converter.decode(payload, uuid.UUID | str)) is uuid.UUID
    assert type(converter.decode(payload, str | uuid.UUID)) is str
    assert type(converter.decode(payload, uuid.UUID | str)) is uuid.UUID


@pytest.mark.scenario(76)
def test_encoding_changes_nothing() -> None:
    """Encoding twice gives the same bytes and leaves the value, with its sets, as it was."""
    value = Mixed(Model(at=datetime(2026, 1, 1), tags={"b", "a"}), {})  # noqa: DTZ001
    first = bytes(CONVERTER.encode([value, {"s": {3, 1}}], "v"))
    assert bytes(CONVERTER.encode([value, {"s": {3, 1}}], "v")) == first
    assert value.model.tags == {"a", "b"}
    assert type(value.model.tags) is set


SETS = """
from dataclasses import dataclass
from perdure.sdk.payloads import CONVERTER
@dataclass(frozen=True, slots=True)
class Bag:
    tags: frozenset[str]
words = "the quick brown fox jumps over a lazy dog".split()
value = [set(words), {"k": Bag(frozenset(words))}, {frozenset(words), frozenset(words[:3])}, {Bag(frozenset(words[:4])), Bag(frozenset())}]
print(bytes(CONVERTER.encode(value, "value")).decode())
"""


def test_bytes_do_not_depend_on_the_hash_seed() -> None:
    """Sets, also within records and within sets, are written in the same order under any PYTHONHASHSEED."""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SETS], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("0", "1", "2", "3")
    }
    assert len(outputs) == 1


def test_ready_made_json_is_put_on_one_line() -> None:
    """A payload never holds a newline: it is a part of a journal line."""
    assert bytes(CONVERTER.encode({"a": Raw(b'[1,\n "x y"]')}, "value")) == b'{"a":[1,"x y"]}'


def test_perdure_does_not_import_pydantic() -> None:
    """pydantic is supported where authors use it, and costs nothing where they do not."""
    code = "import sys, perdure.sdk.payloads as p; p.CONVERTER.decode(p.CONVERTER.encode({1}, ''), set[int]); print('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.strip() == b"False"
