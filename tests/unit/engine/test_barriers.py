"""Answers that write nothing and wait for the writes they speak of: given if those stand, whatever becomes of others."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from perdure.core.errors import InvalidArgument, ResourceExhausted, Unavailable
from perdure.core.state import WorkflowState
from perdure.core.transition import Transition
from perdure.engine.committer import Committer
from perdure.engine.live import LiveWorkflow
from perdure.engine.pending import Barrier
from perdure.ports import Lease
from perdure.store.memory import MemoryStore


class Broken(MemoryStore):
    """Refuses every group with one error."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    async def commit(self, lease: Any, batch: Any) -> Any:
        raise self.error


class Write:
    """A write of some workflow id; `then` is done when it has failed."""

    transition = Transition(workflow_id="other")
    is_void = False

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self.then = then

    def __call__(self, error: BaseException | None) -> None:
        assert error is not None
        self.then()


def live() -> LiveWorkflow:
    return LiveWorkflow(WorkflowState(namespace="default", workflow_id="mine"), None)


def answered(error: BaseException, mine: LiveWorkflow, then: Callable[[], None] = lambda: None, refusal: Any = None) -> Any:
    """What a barrier is answered that stands behind a write which fails with `error`."""
    heard: list[tuple[Any, BaseException | None]] = []

    async def run() -> None:
        store = Broken(error)
        committer = Committer(store, Lease(node="n", range_ids={}), lambda _: None)
        committer.append(Write(then))
        committer.append(Barrier(mine, lambda reply, error: heard.append((reply, error)), "reply", refusal))
        await committer.start()
        await committer.stop()

    asyncio.run(run())
    (one,) = heard
    return one


def test_a_full_disk_takes_no_answer_of_others_with_it() -> None:
    """The claim that was given stands in the state: its worker hears of it, else nobody would ever end it. Refusals are told too."""
    full = ResourceExhausted("no room to write")
    assert answered(full, live()) == ("reply", None)
    refusal = InvalidArgument("no")
    assert answered(full, live(), refusal=refusal) == (None, refusal)


def test_what_speaks_of_a_lost_write_is_not_said() -> None:
    """A signal that was sent twice is not acknowledged when its first copy was not written."""
    mine = live()
    reply, error = answered(ResourceExhausted("no room to write"), mine, lambda: setattr(mine, "lost", True))
    assert reply is None
    assert isinstance(error, Unavailable)


def test_nothing_is_said_when_nobody_knows_what_was_written() -> None:
    """After a failed sync even an answer about earlier writes is withheld."""
    reply, error = answered(OSError("sync failed"), live())
    assert reply is None
    assert isinstance(error, Unavailable)
    with pytest.raises(Unavailable, match="sync failed"):
        raise error
