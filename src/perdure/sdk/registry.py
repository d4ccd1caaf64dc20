"""What one worker can run: activities and workflows by type name, and the build they make up together.

A name stands for one thing. Registering is all or nothing: when one of several things is refused, none was taken.
"""

import inspect
from collections.abc import Sequence
from types import MappingProxyType, MethodType, ModuleType
from typing import Any, TypeAlias

from perdure.core.errors import InvalidArgument
from perdure.sdk.activity import Activity
from perdure.sdk.fingerprint import Fingerprint
from perdure.sdk.importable import place_of
from perdure.sdk.interceptors import Interceptor, around_workflow
from perdure.sdk.options import identifier
from perdure.sdk.workflow import Workflow, workflow_of

Definition: TypeAlias = Activity[..., Any] | Workflow[..., Any]


class Registry:
    """Definitions by type name. `build_id` replaces the one computed from the code."""

    def __init__(self, build_id: str | None = None, interceptors: Sequence[Interceptor] = ()) -> None:
        self.interceptors = tuple(interceptors)
        """They stand around what is run here."""
        self._definitions: dict[str, Definition] = {}
        self._activities: dict[str, Activity[..., Any]] = {}
        self._workflows: dict[str, Workflow[..., Any]] = {}
        self._given_build_id = None if build_id is None else identifier(build_id, "build id")
        self._build_id: str | None = None
        self.activities = MappingProxyType(self._activities)
        self.workflows = MappingProxyType(self._workflows)

    def register(self, *things: object) -> None:
        """Take activities, workflows, modules (everything decorated that is defined in them) and objects with activity methods.

        The same thing again is fine. Raises `InvalidArgument` for a name that stands for something else and for what cannot be run;
        then none of `things` was taken.
        """
        taken: dict[str, Definition] = {}
        for thing in things:
            for definition in _definitions(thing):
                known = self._definitions.get(definition.name) or taken.get(definition.name)
                if known is not None and not _same(known, definition):
                    raise InvalidArgument(f"two things are named {definition.name!r}: {_place(known)} and {_place(definition)}")
                if known is None:
                    taken[definition.name] = definition
        self._take(taken)

    def _take(self, taken: dict[str, Definition]) -> None:
        for name, definition in taken.items():
            self._definitions[name] = definition
            if isinstance(definition, Activity):
                self._activities[name] = definition
            else:
                self._workflows[name] = around_workflow(definition, self.interceptors) if self.interceptors else definition
        if taken:
            self._build_id = None

    def activity(self, name: str) -> Activity[..., Any] | None:
        """The activity of that type name, if registered."""
        return self._activities.get(name)

    def workflow(self, name: str) -> Workflow[..., Any] | None:
        """The workflow of that type name, if registered."""
        return self._workflows.get(name)

    def build_id(self) -> str:
        """The one given, else a fingerprint of all registered code: equal in every process that registered the same."""
        if self._given_build_id is not None:
            return self._given_build_id
        if self._build_id is None:
            fingerprint = Fingerprint()
            for name, definition in sorted(self._definitions.items()):
                fingerprint.text("activity" if isinstance(definition, Activity) else "workflow", name)
                _add_code(fingerprint, definition)
            self._build_id = fingerprint.digest()
        return self._build_id


def _definitions(thing: object) -> list[Definition]:
    found = _found(thing)
    for definition in found:
        if isinstance(definition, Activity) and definition.in_process:
            place_of(definition)
    return found


def _found(thing: object) -> list[Definition]:
    if isinstance(thing, Activity):
        if thing.is_loose:
            raise InvalidArgument(f"{thing.__qualname__} is a method: register an instance of its class")
        return [thing]
    if (workflow := workflow_of(thing)) is not None:
        return [workflow]
    found = _of_module(thing) if isinstance(thing, ModuleType) else _of_object(thing)
    if not found:
        named = f"module {thing.__name__}" if isinstance(thing, ModuleType) else repr(thing)
        raise InvalidArgument(f"nothing to register in {named}: neither @activity nor @workflow")
    return found


def _of_module(module: ModuleType) -> list[Definition]:
    members: list[Definition | None] = [
        member if isinstance(member, Activity) else workflow_of(member) for member in vars(module).values()
    ]
    return [member for member in members if member is not None and member.__module__ == module.__name__]


def _of_object(thing: object) -> list[Definition]:
    if isinstance(thing, type):
        if any(isinstance(inspect.getattr_static(thing, name), Activity) for name in dir(thing)):
            raise InvalidArgument(f"{thing.__qualname__} has activities that need an instance: register {thing.__name__}(…)")
        return []
    cls = type(thing)
    return [getattr(thing, name) for name in dir(cls) if isinstance(inspect.getattr_static(cls, name), Activity)]


def _same(one: Definition, other: Definition) -> bool:
    return type(one) is type(other) and one.fn == other.fn and getattr(one, "cls", None) is getattr(other, "cls", None)


def _add_code(fingerprint: Fingerprint, definition: Definition) -> None:
    if not isinstance(definition, Workflow) or definition.cls is None:
        fingerprint.code_of(definition.fn)
        return
    fingerprint.code_of(definition.cls)
    handlers = [*definition.signals.values(), *definition.queries.values(), *definition.updates.values()]
    for handler in handlers:  # those of a base class in another package too
        fingerprint.text(handler.kind, handler.name)
        fingerprint.code_of(handler.fn)
        fingerprint.code_of(getattr(handler, "check", None))


def _place(definition: Definition) -> str:
    fn = definition.fn
    owner = f" of {fn.__self__!r}" if isinstance(fn, MethodType) else ""
    return f"{definition.__module__}.{definition.__qualname__}{owner}"
