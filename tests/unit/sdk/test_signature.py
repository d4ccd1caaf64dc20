"""A call becomes payloads and arguments again, with Python's own rules about what fits a function."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable  # noqa: TC003  read at run time
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec import Raw

from perdure.core.errors import InvalidArgument
from perdure.sdk.payloads import Signature


async def everything(  # type: ignore[empty-body]
    a: int, b: Order | None = None, /, c: int = 3, *rest: Order, k: int, kk: str = "x", **extra: float
) -> Order: ...


async def charge(order: Order) -> str: ...  # type: ignore[empty-body]


def print_label(order_id: str, copies: int = 1, *, express: bool = False) -> bytes: ...  # type: ignore[empty-body]


class Cart:
    async def run(self, user: str, n: int = 1) -> None: ...


@dataclass
class Order:
    id: str
    cents: int = 0


def shown(call: tuple[tuple[Raw, ...], dict[str, Raw]]) -> tuple[list[bytes], dict[str, bytes]]:
    return [bytes(payload) for payload in call[0]], {name: bytes(payload) for name, payload in call[1].items()}


def test_one_argument() -> None:
    """The commonest call: one record, read back as that record by a hint that was only a name when the function was made."""
    signature = Signature.of(charge)
    call = signature.bind((Order("42", 9),), {}, "charge")
    assert shown(call) == ([b'{"id":"42","cents":9}'], {})
    assert signature.unbind(*call) == ([Order("42", 9)], {})


CALLS: list[tuple[tuple[Any, ...], dict[str, Any], tuple[list[bytes], dict[str, bytes]]]] = [
    (("o",), {}, ([b'"o"'], {})),
    (("o", 2), {}, ([b'"o"', b"2"], {})),
    (("o",), {"express": True}, ([b'"o"'], {"express": b"true"})),
    ((), {"order_id": "o"}, ([b'"o"'], {})),
    ((), {"copies": 2, "order_id": "o"}, ([b'"o"', b"2"], {})),
]


@pytest.mark.parametrize(("args", "kwargs", "expected"), CALLS)
def test_defaults_are_left_out(args: tuple[Any, ...], kwargs: dict[str, Any], expected: Any) -> None:
    """Positional parameters travel in order, keyword-only ones by name, and what was not given is left to its default."""
    assert shown(Signature.of(print_label).bind(args, kwargs, "print_label")) == expected


def test_a_default_before_a_given_argument_is_filled_in() -> None:
    """Only a trailing run can be left out of a list."""
    call = Signature.of(everything).bind((1,), {"c": 5, "k": 0}, "everything")
    assert shown(call) == ([b"1", b"null", b"5"], {"k": b"0"})


def test_every_kind_of_parameter() -> None:
    """Positional-only, rest, keyword-only and extra arguments come back where they were, each by its own hint."""
    signature = Signature.of(everything)
    call = signature.bind((1, Order("x"), 4, Order("y"), Order("z")), {"k": 1, "a": 2.5, "z": 3}, "everything")
    assert signature.unbind(*call) == ([1, Order("x"), 4, Order("y"), Order("z")], {"k": 1, "a": 2.5, "z": 3.0})


WRONG: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    (charge, (), {}),
    (charge, (1, 2), {}),
    (charge, (1,), {"order": 2}),
    (print_label, ("o",), {"nope": 1}),
    (print_label, ("o", 1, True), {}),
    (everything, (1,), {}),
    (everything, (), {"a": 1, "k": 1}),
]


@pytest.mark.parametrize(("fn", "args", "kwargs"), WRONG)
def test_wrong_arguments_raise_what_python_raises(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """The same TypeError with the same words as calling the function."""
    with pytest.raises(TypeError) as python:
        fn(*args, **kwargs)
    with pytest.raises(TypeError) as ours:
        Signature.of(fn).bind(args, kwargs, "label")
    assert str(ours.value) == str(python.value)


def test_wrong_arguments_of_a_method() -> None:
    """A method found on its class counts `self` in its errors, as Python does, and takes none."""
    signature = Signature.of(Cart.run, skip_self=True)
    assert signature.unbind(*signature.bind(("ann",), {}, "Cart.run")) == (["ann"], {})
    assert shown(signature.bind((), {"user": "ann", "n": 2}, "Cart.run")) == ([b'"ann"', b"2"], {})
    assert shown(signature.bind((), {"n": 2, "user": "ann"}, "Cart.run")) == ([b'"ann"', b"2"], {})
    assert signature.unbind((Raw(b'"ann"'),), {"n": Raw(b"2")}) == (["ann"], {"n": 2})
    with pytest.raises(TypeError) as python:
        _ = Cart().run("ann", 2, 3)  # type: ignore[call-arg]
    with pytest.raises(TypeError) as ours:
        signature.bind(("ann", 2, 3), {}, "Cart.run")
    assert str(ours.value) == str(python.value)
    assert Signature.of(Cart().run).parameters == signature.parameters


@pytest.mark.parametrize(
    ("input", "keywords", "message"),
    [
        ((), {}, "missing 1 required positional argument: 'order_id'"),
        ((b'"o"', b"1", b"true"), {}, "takes from 1 to 2 positional arguments but 3 were given"),
        ((b'"o"',), {"nope": b"1"}, "unexpected keyword argument 'nope'"),
        ((b'"o"',), {"order_id": b'"o"'}, "multiple values for argument 'order_id'"),
        ((b"5",), {}, "print_label(order_id) does not fit its type: Expected `str`, got `int`"),
        ((b'"o"',), {"express": b"5"}, "print_label(express) does not fit its type"),
    ],
)
def test_input_that_does_not_fit(input: tuple[bytes, ...], keywords: dict[str, bytes], message: str) -> None:
    """Too many, too few, unknown or of another type: `InvalidArgument` saying which."""
    with pytest.raises(InvalidArgument) as error:
        Signature.of(print_label).unbind(tuple(map(Raw, input)), {name: Raw(payload) for name, payload in keywords.items()})
    assert message in str(error.value)


@pytest.mark.scenario(75)
def test_an_argument_that_cannot_be_encoded_is_named() -> None:
    """Function, parameter and the part within it."""
    with pytest.raises(InvalidArgument, match=r"charge\(order\)\.cents cannot be encoded"):
        Signature.of(charge).bind((Order("1", object()),), {}, "charge")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"everything\(rest\)\[1\]\.cents cannot be encoded"):
        Signature.of(everything).bind((1, None, 3, Order("1"), Order("2", object())), {"k": 1}, "everything")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"charge\(\)\[0\] cannot be encoded"):
        Signature.of(charge).encode_result([object()], "charge")


def test_result() -> None:
    """A result is read by the return hint; one that does not fit names the call."""
    signature = Signature.of(everything)
    assert signature.decode_result(signature.encode_result(Order("1"), "everything")) == Order("1")
    with pytest.raises(InvalidArgument, match=r"everything\(\) does not fit its type: .*`everything\(\)\.id`"):
        signature.result(Raw(b'{"id":5}'))


def test_result_of_a_function_that_returns_an_awaitable() -> None:
    """The hint of what awaiting gives counts."""

    def later() -> Awaitable[Order]: ...  # type: ignore[empty-body]

    assert Signature.of(later).result(Raw(b'{"id":"1"}')) == Order("1")


def test_a_hint_that_names_nothing_hurts_only_where_it_is_needed() -> None:
    """Other parameters are read; the one in question is an error that names the hint."""

    def partly(good: int, bad: Nowhere) -> Nowhere: ...  # type: ignore[name-defined]  # noqa: F821

    signature = Signature.of(partly)
    assert shown(signature.bind((1, 2), {}, "partly")) == ([b"1", b"2"], {})
    with pytest.raises(InvalidArgument, match=r"the hint `Nowhere` of partly\(bad\) cannot be resolved"):
        signature.unbind((Raw(b"1"), Raw(b"2")), {})
    with pytest.raises(InvalidArgument, match=r"the hint `Nowhere` of partly\(\) cannot be resolved"):
        signature.result(Raw(b"1"))


def test_a_function_without_hints() -> None:
    """Plain JSON values in, plain JSON values out."""

    def bare(a, b=2):  # type: ignore[no-untyped-def]
        return a, b

    signature = Signature.of(bare)
    assert signature.unbind(*signature.bind(({"x": (1,)},), {}, "bare")) == ([{"x": [1]}], {})
    assert signature.result(Raw(b"[1]")) == [1]


def test_made_once_a_function() -> None:
    """The same function has one signature; a wrapper that copied its attributes has its own."""

    @functools.wraps(charge)
    async def wrapped(*args: Any) -> Any: ...

    assert Signature.of(charge) is Signature.of(charge)
    assert Signature.of(wrapped) is not Signature.of(charge)
    assert Signature.of(wrapped).name == "charge"
