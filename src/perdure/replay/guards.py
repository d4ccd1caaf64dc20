"""Clock, chance and ids as workflow code sees them: the run's own, the same on every replay.

Module functions are replaced once a process. Elsewhere they go straight to the original (about 40 ns more). Names that were imported
before (`from time import time`) and what C code reads by itself (`datetime.now()`) cannot be reached: `perdure lint` finds those.
"""

import _thread
import os
import random
import sys
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import Any, Final

from perdure.replay import asyncio_order, audit, collection, loop_tasks
from perdure.replay.activation import ACTIVE, guarded_loop
from perdure.replay.frames import timezone_file, within_import, within_trusted
from perdure.replay.loop import WorkflowLoop

_RANDOM_FUNCTIONS: Final = (
    "betavariate", "binomialvariate", "choice", "choices", "expovariate", "gammavariate", "gauss", "getrandbits", "getstate",
    "lognormvariate", "normalvariate", "paretovariate", "randbytes", "randint", "random", "randrange", "sample", "seed", "setstate",
    "shuffle", "triangular", "uniform", "vonmisesvariate", "weibullvariate",
)  # fmt: skip

_REFUSED_FUNCTIONS: Final[tuple[tuple[Any, str], ...]] = (
    (time, "sleep"),
    (os, "urandom"),
    (os, "getrandom"),
    (os, "stat"),
    (os, "lstat"),
    (os, "access"),
    (_thread, "start_new_thread"),
    (ThreadPoolExecutor, "submit"),
)

# RFC 9562 counts from 1582, when the Gregorian calendar began.
_UUID_EPOCH: Final = 0x01B21DD213814000

_installed: Final[list[bool]] = []


def install() -> None:
    """Raise every guard of the process: clock, chance, ids, the audit hook, order of sets, the collector. Idempotent."""
    if not _installed:
        _installed.append(True)
        _install_clock()
        _install_random()
        _install_uuid()
        _install_refusals()
        loop_tasks.install()
        asyncio_order.install()
        collection.install()
        audit.install()


def _inside() -> WorkflowLoop | None:
    """The loop whose values to give, unless a module being imported asks: what it keeps must not depend on the run that came first."""
    loop = guarded_loop()
    if loop is not None and loop.importing and within_import(sys._getframe(2)):
        return None
    return loop


# ---------------------------------------------------------------------------------------------------------------------- clock


def _now_us(loop: WorkflowLoop) -> int:
    """Microseconds since the epoch; without a context, since the run's start."""
    context = loop.workflow_context
    now: int = context.now() if context is not None else round(loop.time() * 1e6)
    return now


def _install_clock() -> None:
    module: Any = time
    module.time = _clock(time.time, lambda loop: _now_us(loop) / 1e6)
    module.time_ns = _clock(time.time_ns, lambda loop: _now_us(loop) * 1000)
    for name in ("monotonic", "perf_counter", "process_time", "thread_time"):
        if hasattr(module, name):
            setattr(module, name, _clock(getattr(module, name), WorkflowLoop.time))
            setattr(module, f"{name}_ns", _clock(getattr(module, f"{name}_ns"), lambda loop: round(loop.time() * 1e6) * 1000))
    localtime = time.localtime
    module.localtime = _calendar(time.localtime, 0, lambda seconds: seconds)
    module.gmtime = _calendar(time.gmtime, 0, lambda seconds: seconds)
    module.ctime = _calendar(time.ctime, 0, lambda seconds: seconds)
    module.asctime = _calendar(time.asctime, 0, localtime)
    module.strftime = _calendar(time.strftime, 1, localtime)


def _clock(original: Callable[[], Any], inside: Callable[[WorkflowLoop], Any]) -> Callable[[], Any]:
    @wraps(original)
    def clock() -> Any:
        if ACTIVE and (loop := _inside()) is not None:
            return inside(loop)
        return original()

    return clock


def _calendar(original: Callable[..., Any], place: int, moment: Callable[[float], Any]) -> Callable[..., Any]:
    """A function whose argument at `place` means "now" when it is left out."""

    @wraps(original)
    def calendar(*args: Any) -> Any:
        if ACTIVE and (len(args) == place or args[place:] == (None,)) and (loop := _inside()) is not None:
            args = (*args[:place], moment(_now_us(loop) / 1e6))
        return original(*args)

    return calendar


# --------------------------------------------------------------------------------------------------------------------- chance


def _random_of(loop: WorkflowLoop, what: str) -> random.Random:
    if loop.workflow_context is None:
        raise loop.refuse(what)
    source: random.Random = loop.workflow_context.random()
    return source


def _install_random() -> None:
    for name in _RANDOM_FUNCTIONS:
        if hasattr(random, name):
            setattr(random, name, _chance(getattr(random, name), name))
    any_random: Any = random
    any_random.Random.seed = _seed(random.Random.seed)


def _chance(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    @wraps(original)
    def chance(*args: Any, **keywords: Any) -> Any:
        if ACTIVE and (loop := _inside()) is not None:
            return getattr(_random_of(loop, f"random.{name}()"), name)(*args, **keywords)
        return original(*args, **keywords)

    return chance


def _seed(original: Callable[..., None]) -> Callable[..., None]:
    """`random.Random()` without a seed takes one from the run."""

    @wraps(original)
    def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        if a is None and ACTIVE and (loop := _inside()) is not None:
            a = _random_of(loop, "random.Random()").getrandbits(256)
        original(self, a, version)

    return seed


# ------------------------------------------------------------------------------------------------------------------- refusals


def _install_refusals() -> None:
    """What has no audit event on every supported version; and entropy: a secret that can be computed from a history is none."""
    module: Any
    for module, name in _REFUSED_FUNCTIONS:
        if hasattr(module, name):
            original = getattr(module, name)
            guarded = _refused(original, f"{module.__name__}.{name}()")
            setattr(module, name, guarded)
            for capable in (os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks, os.supports_effective_ids):
                if original in capable:
                    capable.add(guarded)
    any_random: Any = random
    any_random._urandom = os.urandom
    any_threading: Any = threading
    if hasattr(any_threading, "_start_new_thread"):
        any_threading._start_new_thread = _thread.start_new_thread


def _refused(original: Callable[..., Any], what: str) -> Callable[..., Any]:
    @wraps(original)
    def refused(*args: Any, **keywords: Any) -> Any:
        if ACTIVE and (loop := guarded_loop()) is not None and not _allowed(args):
            raise loop.refuse(what)
        return original(*args, **keywords)

    return refused


def _allowed(args: tuple[Any, ...]) -> bool:
    return timezone_file(args) or within_trusted(sys._getframe(2))


# ------------------------------------------------------------------------------------------------------------------------ ids


def _install_uuid() -> None:
    module: Any = uuid
    module.uuid1 = _identity(uuid.uuid1, _uuid1)
    module.uuid4 = _identity(uuid.uuid4, _uuid4)
    for name, inside in (("uuid6", _uuid6), ("uuid7", _uuid7)):
        if hasattr(module, name):
            setattr(module, name, _identity(getattr(module, name), inside))


def _identity(original: Callable[..., uuid.UUID], inside: Callable[..., uuid.UUID]) -> Callable[..., uuid.UUID]:
    @wraps(original)
    def identity(*args: Any, **keywords: Any) -> uuid.UUID:
        if ACTIVE and (loop := _inside()) is not None:
            return inside(loop, *args, **keywords)
        return original(*args, **keywords)

    return identity


def _uuid4(loop: WorkflowLoop) -> uuid.UUID:
    return uuid.UUID(int=_random_of(loop, "uuid.uuid4()").getrandbits(128), version=4)


def _uuid1(loop: WorkflowLoop, node: int | None = None, clock_seq: int | None = None) -> uuid.UUID:
    source = _random_of(loop, "uuid.uuid1()")
    ticks = _now_us(loop) * 10 + _UUID_EPOCH
    # A node made of chance has the multicast bit set, so that no network card has it.
    node = source.getrandbits(48) | 1 << 40 if node is None else node
    clock_seq = source.getrandbits(14) if clock_seq is None else clock_seq
    fields = (ticks & 0xFFFFFFFF, ticks >> 32 & 0xFFFF, ticks >> 48 & 0x0FFF, clock_seq >> 8 & 0x3F, clock_seq & 0xFF, node)
    return uuid.UUID(fields=fields, version=1)


def _uuid6(loop: WorkflowLoop, node: int | None = None, clock_seq: int | None = None) -> uuid.UUID:
    first = _uuid1(loop, node, clock_seq)
    high = first.time >> 12
    return uuid.UUID(int=high << 80 | 6 << 76 | (first.time & 0xFFF) << 64 | (first.int & (1 << 64) - 1))


def _uuid7(loop: WorkflowLoop) -> uuid.UUID:
    chance = _random_of(loop, "uuid.uuid7()").getrandbits(74)
    return uuid.UUID(int=_now_us(loop) // 1000 << 80 | 7 << 76 | chance >> 62 << 64 | 2 << 62 | chance & (1 << 62) - 1)
