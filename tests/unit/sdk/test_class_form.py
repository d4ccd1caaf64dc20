"""The class form as it is written: what a class gives, and what is refused where it is defined."""

import inspect
from dataclasses import dataclass, field
from types import ModuleType

import pytest

from perdure import workflow
from perdure.core.errors import InvalidArgument
from perdure.sdk.call import Call
from perdure.sdk.handlers import NO_QUERIES, NO_SIGNALS, NO_UPDATES, QueryCall, SignalCall, UpdateCall
from perdure.sdk.registry import Registry
from perdure.sdk.workflow import Workflow, workflow_of


@workflow
class Cart:
    """A cart."""

    def __init__(self) -> None:
        self.items: list[str] = []

    @workflow.run
    async def run(self, user: str) -> int:
        return len(user)

    @workflow.signal
    def add(self, item: str, count: int = 1) -> None:
        self.items += [item] * count

    @workflow.query(name="how-many")
    def size(self) -> int:
        return len(self.items)

    @workflow.update
    async def checkout(self, code: str) -> str:
        return code

    @checkout.validator
    def _check(self, code: str) -> None:
        if not code:
            raise ValueError("no code")


@workflow(name="till")
class Till(Cart):
    @workflow.signal
    def add(self, item: str, count: int = 1) -> None: ...


class Undecorated(Cart): ...


@workflow
async def function() -> None: ...


def test_a_class_stays_a_class_and_has_a_definition():
    """Name, signature without self, handlers by the names callers say."""
    definition = workflow_of(Cart)
    assert inspect.isclass(Cart)
    assert isinstance(definition, Workflow)
    assert Cart.run is definition
    assert (definition.name, definition.cls, definition.__doc__) == ("Cart", Cart, "A cart.")
    assert [parameter.name for parameter in definition.signature.parameters] == ["user"]
    assert (list(definition.signals), list(definition.queries), list(definition.updates)) == (
        ["add"],
        ["how-many"],
        ["checkout"],
    )
    assert definition.updates["checkout"].check is vars(Cart)["_check"]
    assert definition.queries["how-many"].fn is vars(Cart)["size"].fn
    assert (definition.signals["add"].is_async, definition.updates["checkout"].is_async) == (False, True)


def test_handler_calls_are_values():
    """On the class a handler makes a call, on an object it is the method."""
    cart = Cart()
    cart.add("x", count=2)
    assert cart.size() == 2
    assert isinstance(Cart.add("x"), SignalCall)
    assert isinstance(Cart.size(), QueryCall)
    assert isinstance(Cart.checkout("c"), UpdateCall)
    assert isinstance(Cart.run("ann"), Call)
    assert repr(Cart.add("x", count=2)) == "<signal add('x', count=2)>"
    assert [bytes(value) for value in Cart.add("x").bind()[0]] == [b'"x"']
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'item'"):
        Cart.add().bind()  # type: ignore[call-arg]


def test_functions_share_one_empty_mapping():
    """No run of a function pays for handlers it has not."""
    assert function.signals is NO_SIGNALS
    assert function.queries is NO_QUERIES
    assert function.updates is NO_UPDATES


def test_a_subclass_is_a_workflow_only_when_decorated():
    """It has its own name and handlers; undecorated it is none, and says so."""
    assert workflow_of(Till).name == "till"
    assert workflow_of(Till).signals["add"].fn is not workflow_of(Cart).signals["add"].fn
    assert workflow_of(Till).queries["how-many"] is workflow_of(Cart).queries["how-many"]
    assert workflow_of(Undecorated) is None
    with pytest.raises(InvalidArgument, match="put @workflow on top of its class"):
        Undecorated.run("ann")
    with pytest.raises(InvalidArgument, match="nothing to register"):
        Registry().register(Undecorated)


def test_classes_register_alone_and_in_modules():
    """Twice is fine; two classes of one name are refused; a module gives its own classes."""
    registry = Registry()
    registry.register(Cart, Cart, Till)
    assert set(registry.workflows) == {"Cart", "till"}
    other = workflow(type("Cart", (Cart,), {}))
    with pytest.raises(InvalidArgument, match="two things are named 'Cart'"):
        registry.register(other)
    module = ModuleType(__name__)
    vars(module).update(Cart=Cart, Till=Till, Undecorated=Undecorated, function=function, alias=Cart, run=Cart.run)
    registry = Registry()
    registry.register(module)
    assert set(registry.workflows) == {"Cart", "till", "function"}


def test_a_dataclass_with_defaults_can_be_a_workflow():
    """Parameters of `__init__` that have defaults need nobody to give them."""

    @workflow
    @dataclass
    class Kept:
        items: list[str] = field(default_factory=list)

        @workflow.run
        async def run(self) -> None: ...

    assert workflow_of(Kept).cls is Kept


def build_id(*things):
    registry = Registry()
    registry.register(*things)
    return registry.build_id()


def make(body="return 1", signal="add", check="pass", init="self.n = 1"):
    """A class from text, so that its code can differ in one place."""
    source = f"""
@workflow
class Made:
    def __init__(self): {init}
    @workflow.run
    async def run(self): return 1
    @workflow.query
    def size(self): {body}
    @workflow.signal(name={signal!r})
    def add(self): pass
    @workflow.update
    async def change(self): pass
    @change.validator
    def _check(self): {check}
"""
    namespace = {"workflow": workflow, "__name__": "made"}
    exec(source, namespace)
    return namespace["Made"]


def test_the_build_id_covers_every_handler():
    """The same code gives the same one; a change in a query, a name, a validator or `__init__` another."""
    same = build_id(make())
    assert same == build_id(make())
    others = [
        build_id(make(body="return 2")),
        build_id(make(signal="put")),
        build_id(make(check="raise ValueError")),
        build_id(make(init="self.n = 2")),
    ]
    assert len({same, *others}) == 5


def refuse(reason):
    return pytest.raises(InvalidArgument, match=reason)


def test_a_class_needs_exactly_one_run_method():
    """None and two are named; one that is not async is no run method."""
    with refuse("exactly one method with @workflow.run: it has none"):

        @workflow
        class Nothing: ...

    with refuse("it has .*first, .*second"):

        @workflow
        class Two:
            @workflow.run
            async def first(self) -> None: ...
            @workflow.run
            async def second(self) -> None: ...

    with refuse("async method"):
        workflow.run(lambda self: None)  # type: ignore[arg-type, return-value]


def test_a_constructor_takes_nothing():
    """A required parameter is named, whatever makes the object; an abstract class cannot be made at all."""
    with refuse("needs 'user'"):

        @workflow
        class Wants:
            def __init__(self, user: str) -> None: ...
            @workflow.run
            async def run(self) -> None: ...

    with refuse("needs 'size'"):

        @workflow
        class WantsToo:
            def __new__(cls, size):
                return super().__new__(cls)

            @workflow.run
            async def run(self) -> None: ...


def test_two_handlers_of_one_name_are_refused():
    """Of one kind or of two."""
    with refuse("two handlers named 'add'"):

        @workflow
        class Twice:
            @workflow.run
            async def run(self) -> None: ...
            @workflow.signal
            def add(self) -> None: ...
            @workflow.query(name="add")
            def added(self) -> int:
                return 1


def test_a_plain_method_must_not_hide_a_handler():
    """A subclass that forgets the decorator would lose the messages."""
    with refuse("hides Cart.add"):

        @workflow
        class Forgets(Cart):
            def add(self, item: str, count: int = 1) -> None: ...


def test_what_cannot_be_a_handler():
    """Each with its reason."""

    async def waits(self) -> int:
        return 1

    def yields(self):
        yield

    def lonely():
        pass

    with refuse("is async: a query answers at once"):
        workflow.query(waits)
    with refuse("does not go with @staticmethod"):
        workflow.signal(staticmethod(lonely))  # type: ignore[call-overload]
    with refuse("yields"):
        workflow.update(yields)
    with refuse("takes no self"):
        workflow.signal(lonely)
    with refuse("signal name"):
        workflow.signal(name="")(yields.__init__ and (lambda self: None))
    with refuse("not 3"):
        workflow.query(3)  # type: ignore[call-overload]


def test_what_cannot_be_a_validator():
    """An async one, and a second one."""
    with refuse("is async"):

        class Waits:
            @workflow.update
            async def change(self) -> None: ...

            @change.validator
            async def check(self) -> None: ...

    with refuse("has a validator already"):

        class Both:
            @workflow.update
            async def change(self) -> None: ...

            @change.validator
            def check(self) -> None: ...

            @change.validator
            def again(self) -> None: ...


def test_names_that_are_no_python_names():
    """A keyword, a dash, another alphabet: a name is text."""

    @workflow
    class Odd:
        @workflow.run
        async def run(self) -> None: ...
        @workflow.signal(name="class")
        def take(self) -> None: ...
        @workflow.signal(name="größe-1")
        def more(self) -> None: ...

    assert set(workflow_of(Odd).signals) == {"class", "größe-1"}
