"""The client for code that does not await: what `Client` does, each call waiting for its answer on a thread of the client's own.

Everything is done by a `Client` on that thread's loop; here is only the way there and back. A test compares every signature with its twin.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self, TypeVar, Unpack, overload
from weakref import WeakSet, finalize

from perdure.core.errors import NondeterminismError
from perdure.sdk.call import Call
from perdure.sdk.client import Client, Page, RunOptions, StartOptions, StatusName
from perdure.sdk.context import refuse_in_workflow
from perdure.sdk.handle import Handle
from perdure.sdk.handlers import SignalCall
from perdure.sdk.loop_thread import LoopThread, refuse_in_loop
from perdure.sdk.options import identifier
from perdure.sdk.sync_handle import SyncHandle
from perdure.sdk.views import WorkflowSummary
from perdure.sdk.workflow import workflow_of

T = TypeVar("T")
R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")

_ALL: Final["WeakSet[SyncCaller]"] = WeakSet()
_LEFT_TO_THE_PARENT: Final[list[object]] = []
"""What a fork has copied: kept as it is, because its end would touch connections that are the parent's."""


class SyncCaller:
    """The verbs of `Client` without await, over any client that `_open` makes.

    Any thread may use it, any number at once. Its own thread begins with the first call, and ends with `close()` or the `with` block.
    The child of a fork connects anew with its first call. A call raises `RuntimeError` where an event loop runs on the calling thread,
    and `NondeterminismError` in workflow code; Ctrl-C leaves a waiting call, and never touches the run.
    """

    def __init__(self) -> None:
        self._begin()
        _ALL.add(self)

    def _begin(self) -> None:
        self._thread = LoopThread("perdure client")
        self._opened: asyncio.Task[Client] | None = None
        self._forget = finalize(self, self._thread.dismiss)

    def _begin_again(self) -> None:
        """In the child of a fork: thread and connection are the parent's."""
        _LEFT_TO_THE_PARENT.extend((self._thread, self._opened))
        self._forget.detach()
        closed = self._thread.stopped
        self._begin()
        self._thread.stopped = closed

    async def _open(self) -> Client:
        """A client of its own, connected; called on the client's thread."""
        raise NotImplementedError

    async def _shut(self, client: Client) -> None:
        """Let go of what `_open` made."""
        raise NotImplementedError

    async def _client(self) -> Client:
        if self._opened is None:
            self._opened = asyncio.get_running_loop().create_task(self._open(), name="perdure connect")
        opening = self._opened
        try:
            return await asyncio.shield(opening)  # one that gives up waiting leaves it to the others
        except BaseException:
            if opening.done() and self._opened is opening:
                self._opened = None
            raise

    def call(self, name: str, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """Have a client do `work` and wait for it; `name` is what the caller called."""
        refuse_in_workflow(name)
        refuse_in_loop(name)
        return self._thread.run(self._work(work))

    async def _work(self, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        return await work(await self._client())

    def close(self) -> None:
        """Let go of the connection and end the thread. Calls under way raise `Unavailable`, and so do later ones. Idempotent."""
        refuse_in_workflow("client.close()")
        if not self._thread.stopped:
            try:
                self._thread.run(self._closed())
            finally:
                self._thread.stop()

    async def _closed(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None and opened.done() and opened.exception() is None:
            await self._shut(opened.result())

    def __enter__(self) -> Self:
        """Connect now, so that `Unavailable` is raised here."""
        self.call("client.__enter__()", _nothing)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # --------------------------------------------------------------------------------------------------------------- start

    @overload
    def start(self, workflow: Call[R], /, **options: Unpack[StartOptions]) -> SyncHandle[R]: ...
    @overload
    def start(self, workflow: str, /, *args: object, **options: Unpack[StartOptions]) -> SyncHandle[Any]: ...
    @overload
    def start(self, workflow: Callable[[], Call[R]], /, **options: Unpack[StartOptions]) -> SyncHandle[R]: ...
    @overload
    def start(self, workflow: Callable[[A], Call[R]], a: A, /, **options: Unpack[StartOptions]) -> SyncHandle[R]: ...
    @overload
    def start(self, workflow: Callable[[A, B], Call[R]], a: A, b: B, /, **options: Unpack[StartOptions]) -> SyncHandle[R]: ...
    @overload
    def start(
        self, workflow: Callable[[A, B, C], Call[R]], a: A, b: B, c: C, /, **options: Unpack[StartOptions]
    ) -> SyncHandle[R]: ...
    @overload
    def start(
        self, workflow: Callable[[A, B, C, D], Call[R]], a: A, b: B, c: C, d: D, /, **options: Unpack[StartOptions]
    ) -> SyncHandle[R]: ...
    @overload
    def start(
        self, workflow: Callable[[A, B, C, D, E], Call[R]], a: A, b: B, c: C, d: D, e: E, /, **options: Unpack[StartOptions]
    ) -> SyncHandle[R]: ...
    @overload
    def start(
        self,
        workflow: Callable[[A, B, C, D, E, F], Call[R]],
        a: A,
        b: B,
        c: C,
        d: D,
        e: E,
        f: F,
        /,
        **options: Unpack[StartOptions],
    ) -> SyncHandle[R]: ...
    def start(self, workflow: Any, /, *args: Any, **options: Any) -> SyncHandle[Any]:
        """Start a run and return its handle once the start is durable. Takes and raises what `Client.start` does."""
        return self._started("client.start()", workflow, lambda client: client.start(workflow, *args, **options))

    @overload
    def execute(self, workflow: Call[R], /, **options: Unpack[StartOptions]) -> R: ...
    @overload
    def execute(self, workflow: str, /, *args: object, **options: Unpack[StartOptions]) -> Any: ...
    @overload
    def execute(self, workflow: Callable[[], Call[R]], /, **options: Unpack[StartOptions]) -> R: ...
    @overload
    def execute(self, workflow: Callable[[A], Call[R]], a: A, /, **options: Unpack[StartOptions]) -> R: ...
    @overload
    def execute(self, workflow: Callable[[A, B], Call[R]], a: A, b: B, /, **options: Unpack[StartOptions]) -> R: ...
    @overload
    def execute(self, workflow: Callable[[A, B, C], Call[R]], a: A, b: B, c: C, /, **options: Unpack[StartOptions]) -> R: ...
    @overload
    def execute(
        self, workflow: Callable[[A, B, C, D], Call[R]], a: A, b: B, c: C, d: D, /, **options: Unpack[StartOptions]
    ) -> R: ...
    @overload
    def execute(
        self, workflow: Callable[[A, B, C, D, E], Call[R]], a: A, b: B, c: C, d: D, e: E, /, **options: Unpack[StartOptions]
    ) -> R: ...
    @overload
    def execute(
        self,
        workflow: Callable[[A, B, C, D, E, F], Call[R]],
        a: A,
        b: B,
        c: C,
        d: D,
        e: E,
        f: F,
        /,
        **options: Unpack[StartOptions],
    ) -> R: ...
    def execute(self, workflow: Any, /, *args: Any, **options: Any) -> Any:
        """`start` and `result` in one. Takes what `start` takes and raises what either raises."""
        try:
            return self.call("client.execute()", lambda client: client.execute(workflow, *args, **options))
        except NondeterminismError:
            _forget_call(workflow)
            raise

    def signal_with_start(
        self,
        call: Call[R],
        signal: SignalCall | str,
        value: Any = None,
        *,
        id: str,
        signal_id: str | None = None,
        **options: Unpack[RunOptions],
    ) -> SyncHandle[R]:
        """Signal the open run of `id`, or start one whose first message it is. A remembered `signal_id` starts and signals nothing."""
        return self._started(
            "client.signal_with_start()",
            call,
            lambda client: client.signal_with_start(call, signal, value, id=id, signal_id=signal_id, **options),
        )

    def _started(
        self, name: str, workflow: Any, begin: Callable[[Client], Coroutine[Any, Any, Handle[Any]]]
    ) -> SyncHandle[Any]:
        try:
            return SyncHandle.of(self, self.call(name, begin))
        except NondeterminismError:
            _forget_call(workflow)
            raise

    # ------------------------------------------------------------------------------------------------------------- reading

    @overload
    def handle(self, id: str, run_id: str | None = None) -> SyncHandle[Any]: ...
    @overload
    def handle(self, id: str, run_id: str | None = None, *, workflow: Callable[..., Call[R]]) -> SyncHandle[R]: ...
    def handle(self, id: str, run_id: str | None = None, workflow: Any = None) -> SyncHandle[Any]:
        """A handle to a workflow id, or to one run of it. No I/O: whether it exists shows when it is used.

        Raises `InvalidArgument` for what can be no id.
        """
        definition = workflow_of(workflow)
        run = None if run_id is None or run_id == "" else identifier(run_id, "run id")
        return SyncHandle(self, identifier(id, "workflow id"), run, definition)

    def list(
        self,
        query: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        *,
        status: StatusName | Sequence[StatusName] | None = None,
        type: str | None = None,
        started_after: datetime | None = None,
        started_before: datetime | None = None,
    ) -> "SyncListing":
        """Runs, newest first: a page with `.items` and `.cursor`, read now; `for` walks all of them. Takes and raises what `Client.list` does."""

        def page(after: str | None) -> Page:
            async def read(client: Client) -> Page:
                return await client.list(
                    query,
                    limit,
                    after,
                    status=status,
                    type=type,
                    started_after=started_after,
                    started_before=started_before,
                )

            return self.call("client.list()", read)

        return SyncListing(page(cursor), page)

    def count(
        self,
        query: str | None = None,
        *,
        status: StatusName | Sequence[StatusName] | None = None,
        type: str | None = None,
        started_after: datetime | None = None,
        started_before: datetime | None = None,
    ) -> int:
        """How many runs `list` would give for the same arguments."""
        return self.call(
            "client.count()",
            lambda client: client.count(
                query, status=status, type=type, started_after=started_after, started_before=started_before
            ),
        )

    # --------------------------------------------------------------------------------------- activities completed from outside

    def complete_activity(self, task_token: str, result: object = None) -> None:
        """Complete an attempt that was left to be completed from outside, as `Client.complete_activity` does."""
        self.call("client.complete_activity()", lambda client: client.complete_activity(task_token, result))

    def fail_activity(self, task_token: str, exception: BaseException) -> None:
        """Fail such an attempt, as `Client.fail_activity` does."""
        self.call("client.fail_activity()", lambda client: client.fail_activity(task_token, exception))

    def heartbeat_activity(self, task_token: str, *details: object) -> bool:
        """Say that such an attempt goes on, as `Client.heartbeat_activity` does. True when its cancel was asked for."""
        return self.call("client.heartbeat_activity()", lambda client: client.heartbeat_activity(task_token, *details))


class SyncListing(Page):
    """What `SyncClient.list` gives: a page, with `.items` and `.cursor`; `for` walks it and all that come after it."""

    __slots__ = ("_next",)

    def __init__(self, first: Page, next: Callable[[str | None], Page]) -> None:
        super().__init__(first.items, first.cursor)
        self._next = next

    def __iter__(self) -> Iterator[WorkflowSummary]:
        yield from self.items
        cursor = self.cursor
        while cursor is not None:
            page = self._next(cursor)
            yield from page.items
            cursor = page.cursor


async def _nothing(_client: Client) -> None:
    """Whoever asks for this wants the client to be there."""


def _forget_call(workflow: Any) -> None:
    if isinstance(workflow, Call):
        workflow.close()  # nobody forgot to await it


def _begin_again_everywhere() -> None:
    for caller in list(_ALL):
        caller._begin_again()  # pyright: ignore[reportPrivateUsage]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_again_everywhere)
