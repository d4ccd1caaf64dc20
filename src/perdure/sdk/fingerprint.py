"""A fingerprint of code: the same over processes, hash seeds and machines, another one when what the code does was changed.

Goes by compiled code, so comments, formatting and line numbers do not count. It follows the plain functions and classes of the same
top-level package that code names, because a mended helper is a mended workflow. It never runs any of it and reads no values of modules.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from hashlib import blake2b
from types import CodeType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any, Final, cast

DIGEST_BYTES: Final = 8
SCALARS: Final = (NoneType, bool, int, float, complex, str, bytes)


class Fingerprint:
    """Gathers code; `digest()` gives the sum as 16 hex digits."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=DIGEST_BYTES)
        self._seen: set[int] = set()

    def digest(self) -> str:
        """What was gathered so far."""
        return self._hash.hexdigest()

    def text(self, *words: str) -> None:
        """Words that are part of the meaning, such as the kind and name under which code is registered."""
        for word in words:
            data = word.encode("utf-8", "surrogatepass")
            self._hash.update(len(data).to_bytes(4, "big") + data)

    def code_of(self, thing: object) -> None:
        """A function, method or class, and what it names of its own package; anything else only as far as it wraps one of these."""
        match thing:
            case MethodType():
                self.code_of(type(thing.__self__))
                self.code_of(thing.__func__)
            case FunctionType():
                self._function(thing)
            case type():
                self._class(thing)
            case partial():
                self.code_of(cast("object", thing.func))
            case _:
                wrapped: object = getattr(thing, "__wrapped__", None)
                if wrapped is not None:
                    self.code_of(wrapped)

    def _function(self, function: FunctionType) -> None:
        if not self._first_time(function):
            return
        self.text("function", function.__qualname__)
        self._code(function.__code__)
        self._constant(function.__defaults__)
        self._constant(function.__kwdefaults__)
        for name in sorted(set(_names(function.__code__))):
            self._named(function.__globals__.get(name), function)
        self.code_of(getattr(function, "__wrapped__", None))

    def _named(self, thing: object, by: FunctionType) -> None:
        if isinstance(thing, ModuleType):
            for name in sorted(set(_names(by.__code__))):
                self._own(vars(thing).get(name), by)
        else:
            self._own(thing, by)

    def _own(self, thing: object, by: FunctionType) -> None:
        if isinstance(thing, (FunctionType, type)) and _package(thing) == _package(by):
            self.code_of(thing)

    def _class(self, cls: type) -> None:
        if not self._first_time(cls):
            return
        self.text("class", cls.__qualname__)
        for base in cls.__bases__:
            if _package(base) == _package(cls):
                self._class(base)
        for name, member in sorted(vars(cls).items()):
            self.text(name)
            if isinstance(member, SCALARS) and not name.startswith("__"):
                self._constant(member)
            for part in _parts(member):
                self.code_of(part)

    def _first_time(self, thing: FunctionType | type) -> bool:
        if id(thing) in self._seen:
            return False
        self._seen.add(id(thing))
        return True

    def _code(self, code: CodeType) -> None:
        self.text("code", code.co_name, *code.co_names, "", *code.co_varnames, "", *code.co_freevars, "", *code.co_cellvars)
        self.text(f"{code.co_argcount} {code.co_posonlyargcount} {code.co_kwonlyargcount} {code.co_flags}")
        self.text(code.co_code.hex(), code.co_exceptiontable.hex())
        self._constant(code.co_consts)

    def _constant(self, value: Any) -> None:
        self.text(type(value).__qualname__)
        if isinstance(value, CodeType):
            self._code(value)
        elif isinstance(value, SCALARS):
            self.text(repr(value))
        elif isinstance(value, (tuple, list)):
            self._constants(cast("Iterable[Any]", value))
        elif isinstance(value, (set, frozenset)):  # their own order depends on the hash seed
            self._constants(sorted(cast("Iterable[Any]", value), key=repr))
        elif isinstance(value, dict):
            self._constants(sorted(cast("Mapping[Any, Any]", value).items(), key=repr))
        # Of anything else the type has to do: a repr may hold an address.

    def _constants(self, values: Iterable[Any]) -> None:
        for value in values:
            self._constant(value)
        self.text("end")


def _names(code: CodeType) -> Iterator[str]:
    """Names a function and the functions inside it look up."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _package(thing: object) -> str:
    return str(getattr(thing, "__module__", "")).partition(".")[0]


def _parts(member: object) -> Iterator[object]:
    if isinstance(member, property):
        yield from (part for part in (member.fget, member.fset, member.fdel) if part is not None)
    else:
        yield getattr(member, "__func__", member)  # static and class methods
