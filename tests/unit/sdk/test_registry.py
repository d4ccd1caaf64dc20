"""The registry: what can be registered, one thing a name, all or nothing."""

import asyncio
import functools
from types import ModuleType

import pytest

from perdure.core.errors import InvalidArgument
from perdure.sdk.activity import activity
from perdure.sdk.registry import Registry
from perdure.sdk.workflow import workflow


@activity
async def charge(order: str) -> str:
    return order


@workflow
async def fulfil(order: str) -> str:
    return await charge(order)


class Payments:
    def __init__(self, shop: str) -> None:
        self.shop = shop

    @activity(name="take")
    async def charge(self, cents: int) -> str:
        return f"{self.shop}:{cents}"

    @activity
    def refund(self) -> str:
        return self.shop

    def plain(self) -> None: ...

    @property
    def loud(self) -> None:
        raise AssertionError("registering must not run properties")


class MorePayments(Payments):
    @activity(name="take")
    async def charge(self, cents: int) -> str:
        return f"more {cents}"


def test_activities_and_workflows_by_name():
    """What was registered is found by its type name in its own kind, and nothing else is."""
    registry = Registry()
    registry.register(charge, fulfil)
    assert registry.activity("charge") is charge
    assert registry.workflow("fulfil") is fulfil
    assert registry.activity("fulfil") is registry.workflow("charge") is registry.activity("other") is None
    assert (dict(registry.activities), dict(registry.workflows)) == ({"charge": charge}, {"fulfil": fulfil})


def test_the_views_cannot_be_written():
    """Only register() puts something in."""
    with pytest.raises(TypeError):
        Registry().activities["charge"] = charge  # type: ignore[index]


def test_objects_bind_their_methods():
    """Activities of the class and of its bases run on the instance given; an overriding one takes the place."""
    registry = Registry()
    registry.register(MorePayments("s"))
    assert sorted(registry.activities) == ["refund", "take"]
    assert asyncio.run(registry.activity("take").fn(3)) == "more 3"
    assert registry.activity("refund").fn() == "s"


def module_of(**members):
    module = ModuleType("shop")
    vars(module).update(members)
    return module


def test_modules_give_what_is_defined_in_them():
    """What a module only imports is not registered by it."""

    @activity
    async def local() -> None: ...

    local.__module__ = "shop"
    registry = Registry()
    registry.register(module_of(local=local, again=local, charge=charge, fulfil=fulfil, other=3))
    assert sorted(registry.activities) == ["local"]
    assert registry.workflows == {}


@pytest.mark.parametrize(
    ("thing", "reason"),
    [
        (Payments, "needs? an instance"),
        (Payments.charge, "register an instance"),
        (charge.fn, "neither @activity nor @workflow"),
        (print, "neither"),
        (int, "neither"),
        (3, "neither"),
        ("charge", "neither"),
        (None, "neither"),
        (module_of(charge=charge), "nothing to register in module "),
        (functools.partial(charge), "neither"),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_what_cannot_be_registered(thing, reason):
    """Each is refused with a reason, and nothing given along with it was taken."""
    registry = Registry()
    with pytest.raises(InvalidArgument, match=reason):
        registry.register(fulfil, thing)
    assert registry.workflows == {}


def test_the_same_thing_again_is_fine():
    """Also with other options, through its module, or as the same instance's method."""
    registry, shop = Registry(), Payments("s")
    registry.register(charge, charge, shop)
    registry.register(charge.options(queue="q"), shop, shop.charge)
    assert registry.activity("charge") is charge
    assert len(registry.activities) == 3


def other_charge():
    @activity(name="charge")
    async def other() -> None: ...

    return other


@pytest.mark.parametrize("make", [other_charge, lambda: workflow(name="charge")(fulfil.fn)], ids=["activity", "workflow"])
def test_two_things_of_one_name(make):
    """Are an error that names both, in one call or two, and across kinds; the first stays."""
    registry = Registry()
    registry.register(charge)
    with pytest.raises(InvalidArgument, match=r"two things are named 'charge': .*\.charge and "):
        registry.register(fulfil, make())
    assert registry.activity("charge") is charge
    assert registry.workflows == {}
    with pytest.raises(InvalidArgument, match="two things"):
        Registry().register(charge, make())


def test_two_instances_are_two_things():
    """A name cannot mean two objects."""
    registry = Registry()
    registry.register(Payments("a"))
    with pytest.raises(InvalidArgument, match="two things are named 'take'"):
        registry.register(Payments("b"))


def test_the_build_id_is_that_of_all_registered_code():
    """The order does not count, what is registered does; it changes when more is registered later."""
    one, other = Registry(), Registry()
    one.register(charge, fulfil)
    other.register(fulfil)
    assert one.build_id() != other.build_id()
    other.register(charge)
    assert one.build_id() == other.build_id() == one.build_id()
    assert Registry().build_id() not in {one.build_id(), ""}


def test_a_build_id_may_be_given():
    """It is an id like any other and replaces the computed one."""
    registry = Registry(build_id="v1")
    registry.register(charge)
    assert registry.build_id() == "v1"
    with pytest.raises(InvalidArgument, match="build id"):
        Registry(build_id="")


def test_kind_and_name_are_part_of_the_build():
    """The same function under another name, or as the other kind, is another build."""
    builds = set()
    for definition in (activity(charge.fn), activity(name="other")(charge.fn), workflow(charge.fn)):
        registry = Registry()
        registry.register(definition)
        builds.add(registry.build_id())
    assert len(builds) == 3
