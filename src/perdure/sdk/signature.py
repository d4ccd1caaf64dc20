"""The signature of an author's function: its arguments to payloads in the caller, payloads to arguments in the worker, its result.

Everything that needs `inspect` happens once per function. Binding that is not plainly positional is done by Python itself, by a
generated function of the same parameters, so wrong arguments raise the very `TypeError` the author's own function would.
"""

import inspect
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

from perdure.core.errors import InvalidArgument
from perdure.core.payload import Payload
from perdure.core.texts import fault_of_text
from perdure.sdk.converter import CONVERTER, Converter, read
from perdure.sdk.hints import Unresolved, awaited, find_hints, resolved
from perdure.sdk.readers import Reader

NAME_CHARS_MAX: Final = 1_000
"""Characters of one keyword's name."""
_CACHED: Final = "__perdure_signatures__"


class _Missing:
    """Stands for an argument the caller left out."""


_MISSING: Final = _Missing()


class Signature:
    """How one function is called with payloads. Make it with `Signature.of`; hints are looked up when they are first needed."""

    __slots__ = (
        "_call",
        "_converter",
        "_hints",
        "_limit",
        "_names",
        "_readers",
        "_required",
        "_rest",
        "_result_reader",
        "_simple",
        "_suffixes",
        "fn",
        "name",
        "parameters",
        "skip_self",
    )

    def __init__(self, fn: Callable[..., Any], *, skip_self: bool = False, converter: Converter = CONVERTER) -> None:
        self.fn = fn
        self.name: str = getattr(fn, "__name__", type(fn).__name__)
        self.skip_self = skip_self
        self._converter = converter
        everything = tuple(inspect.signature(fn).parameters.values())
        self.parameters: tuple[inspect.Parameter, ...] = everything[1:] if skip_self else everything
        positional = [p for p in self.parameters if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}]
        keyword_only = [p for p in self.parameters if p.kind is p.KEYWORD_ONLY]
        self._rest: str | None = next((p.name for p in self.parameters if p.kind is p.VAR_POSITIONAL), None)
        self._names: tuple[str, ...] = tuple(p.name for p in positional)
        self._suffixes: tuple[str, ...] = tuple(f"({name})" for name in self._names)
        self._limit = len(positional)
        self._required = sum(p.default is p.empty for p in positional)
        self._simple = all(p.default is not p.empty for p in keyword_only)
        self._call = _binder(everything, getattr(fn, "__qualname__", self.name), skip_self=skip_self)
        self._hints: dict[str, Any] | None = None
        self._readers: dict[str, Reader] = {}
        self._result_reader: Reader | None = None

    @classmethod
    def of(cls, fn: Callable[..., Any], *, skip_self: bool = False) -> "Signature":
        """The signature of `fn`, made once per function; `skip_self` leaves the first parameter out (a method found on its class)."""
        bound = getattr(fn, "__func__", None)
        if bound is not None:
            return cls.of(bound, skip_self=True)
        cache: dict[bool, Signature] = getattr(fn, "__dict__", {}).get(_CACHED, {})
        known = cache.get(skip_self)
        if known is not None and known.fn is fn:  # functools.wraps copies attributes to another function
            return known
        signature = cls(fn, skip_self=skip_self)
        if hasattr(fn, "__dict__") and not isinstance(fn, type):
            kept = {flag: other for flag, other in cache.items() if other.fn is fn}
            fn.__dict__[_CACHED] = kept | {skip_self: signature}
        return signature

    # ------------------------------------------------------------------------------------------------------------------ arguments

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any], label: str) -> tuple[tuple[Payload, ...], dict[str, Payload]]:
        """The payloads of a call: positional ones in order (`*args` appended), keyword-only ones and `**kwargs` by name.

        Parameters left at their default are left out where that is unambiguous. `label` is the call's name in errors. Raises `TypeError` for
        wrong arguments, exactly as the function itself would, `InvalidArgument` for a value that cannot be encoded, `PayloadTooLarge`.
        """
        count = len(args)
        if kwargs or not self._simple or count > self._limit or count < self._required:
            return self._bind_any(args, kwargs, label)
        encode = self._converter.encode
        if count == 1:
            return (encode(args[0], label + self._suffixes[0]),), {}
        return tuple([encode(value, label + suffix) for value, suffix in zip(args, self._suffixes, strict=False)]), {}

    def _bind_any(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], label: str
    ) -> tuple[tuple[Payload, ...], dict[str, Payload]]:
        given, rest, named, extra = self._call(*args, **kwargs) if not self.skip_self else self._call(None, *args, **kwargs)
        while given and given[-1] is _MISSING:
            given.pop()
        encode = self._converter.encode
        payloads = [
            encode(self._default(name) if value is _MISSING else value, f"{label}({name})")
            for name, value in zip(self._names, given, strict=False)
        ]
        if rest:
            payloads += [encode(value, f"{label}({self._rest})[{index}]") for index, value in enumerate(rest)]
        named.update(extra)
        return tuple(payloads), {
            _name(name, label): encode(value, f"{label}({name})") for name, value in named.items() if value is not _MISSING
        }

    def _default(self, name: str) -> Any:
        return next(p.default for p in self.parameters if p.name == name)

    def unbind(
        self,
        input: tuple[Payload, ...],
        keywords: dict[str, Payload],
        label: str = "",
    ) -> tuple[list[Any], dict[str, Any]]:
        """Arguments to call the function with, read by its hints; what was left out is left to its defaults.

        Raises `InvalidArgument` for too many or too few, and for a payload that does not fit its hint, naming the path.
        """
        label = label or self.name
        names, count = self._names, len(input)
        args = [
            read(payload, self._readers.get(name) or self._reader(name, label), f"{label}({name})")
            for name, payload in zip(names, input, strict=False)
        ]
        if not keywords and self._simple and self._required <= count <= self._limit:
            return args, {}
        for index, payload in enumerate(input[self._limit :]):
            args.append(self._read_rest(payload, index, label))
        kwargs = {name: self._read_keyword(name, payload, label) for name, payload in keywords.items()}
        try:
            _ = self._call(None, *args, **kwargs) if self.skip_self else self._call(*args, **kwargs)
        except TypeError as error:
            raise InvalidArgument(f"{label} was given arguments that do not fit: {error}") from error
        return args, kwargs

    def _read_rest(self, payload: Payload, index: int, label: str) -> Any:
        """One of `*args`; a payload too many is read without a hint, to be refused with all the others counted."""
        if self._rest is None:
            return read(payload, self._converter.reader(Any), label)
        return read(payload, self._reader(self._rest, label), f"{label}({self._rest})[{index}]")

    def _read_keyword(self, name: str, payload: Payload, label: str) -> Any:
        extra = next((p.name for p in self.parameters if p.kind is p.VAR_KEYWORD), name)
        known = any(p.name == name and p.kind in {p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY} for p in self.parameters)
        return read(payload, self._reader(name if known else extra, label), f"{label}({name})")

    # --------------------------------------------------------------------------------------------------------------------- result

    def encode_result(self, value: object, label: str) -> Payload:
        """The payload of what the function returned, called `label()` in errors. Raises `InvalidArgument`, `PayloadTooLarge`."""
        return self._converter.encode(value, label + "()")

    def decode_result(self, payload: Payload) -> Any:
        """What the function returned, read by its return hint. Raises `InvalidArgument`."""
        reader = self._result_reader
        if reader is None:
            hint = awaited(self.hints().get("return", Any))
            reader = self._result_reader = self._converter.reader(resolved(hint, f"{self.name}()"), f"{self.name}()")
        return read(payload, reader, f"{self.name}()")

    result = decode_result

    # ---------------------------------------------------------------------------------------------------------------------- hints

    def hints(self) -> dict[str, Any]:
        """Every parameter's hint by name, and `return`; looked up at first use, so that classes may be defined after the function.

        A hint that names something unknown is an `Unresolved`, and only an error where it is needed.
        """
        if self._hints is None:
            hints = find_hints(self.fn)
            if any(isinstance(hint, Unresolved) for hint in hints.values()):
                return hints  # perhaps the module is still being imported
            self._hints = hints
        return self._hints

    def _reader(self, name: str, label: str) -> Reader:
        reader = self._readers.get(name)
        if reader is None:
            path = f"{label}({name})"
            hint = resolved(self.hints().get(name, Any), path)
            reader = self._readers[name] = self._converter.reader(hint, path)
        return reader


def _name(name: str, label: str) -> str:
    """A keyword's name as it travels; `**kwargs` takes any text there is."""
    if fault := fault_of_text(name, NAME_CHARS_MAX):
        raise InvalidArgument(f"{label} was given a keyword whose name {fault}: {name[:100]!r}")
    return str.__str__(name)


def _binder(parameters: tuple[inspect.Parameter, ...], qualname: str, *, skip_self: bool) -> Callable[..., Any]:
    """A function of the same parameters that gives (positional, rest, keyword-only, extra), with `_MISSING` for what was left out.

    With `skip_self` it takes the first parameter, so that errors count it, and does not give it back.
    """
    text: list[str] = []
    groups: dict[Any, list[str]] = defaultdict(list)
    for parameter in parameters:
        bare = parameter.replace(annotation=parameter.empty, default=parameter.empty)
        optional = parameter.default is not parameter.empty
        if groups[parameter.POSITIONAL_ONLY] and parameter.kind is not parameter.POSITIONAL_ONLY and "/" not in text:
            text.append("/")
        if parameter.kind is parameter.KEYWORD_ONLY and not groups[parameter.VAR_POSITIONAL] and "*" not in text:
            text.append("*")
        text.append(f"{bare}=__missing__" if optional else str(bare))
        groups[parameter.kind].append(parameter.name)
    if groups[inspect.Parameter.POSITIONAL_ONLY] and "/" not in text:
        text.append("/")
    positional = groups[inspect.Parameter.POSITIONAL_ONLY] + groups[inspect.Parameter.POSITIONAL_OR_KEYWORD]
    if skip_self:
        del positional[:1]
    rest = (groups[inspect.Parameter.VAR_POSITIONAL] or ["()"])[0]
    named = ", ".join(f"{name!r}: {name}" for name in groups[inspect.Parameter.KEYWORD_ONLY])
    extra = (groups[inspect.Parameter.VAR_KEYWORD] or ["{}"])[0]
    source = f"def bind({', '.join(text)}): return [{', '.join(positional)}], {rest}, {{{named}}}, {extra}"
    namespace: dict[str, Any] = {"__missing__": _MISSING}
    exec(source, namespace)  # noqa: S102  the names come from a signature that Python itself accepted; no value is in the text
    bind: Callable[..., Any] = namespace["bind"]
    bind.__name__ = qualname.rpartition(".")[2]
    bind.__qualname__ = qualname
    return bind
