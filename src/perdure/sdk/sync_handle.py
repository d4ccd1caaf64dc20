"""A handle for code that does not await: what `Handle` and `UpdateHandle` do, each call waiting for its answer."""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003 – read by whoever asks for the hints of a method
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from perdure.sdk.handle import QUERY_TIMEOUT_S, Handle, refers_to

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from perdure.sdk.client import Client
    from perdure.sdk.duration import Duration
    from perdure.sdk.handlers import QueryCall, SignalCall, UpdateCall
    from perdure.sdk.stack import WorkflowStack
    from perdure.sdk.sync_client import SyncCaller
    from perdure.sdk.update_handle import UpdateHandle
    from perdure.sdk.views import HistoryEntry, WorkflowDescription
    from perdure.sdk.workflow import Workflow

R_co = TypeVar("R_co", covariant=True)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
U = TypeVar("U")
T = TypeVar("T")


class SyncHandle(Generic[R_co]):
    """`id` is the workflow id, `run_id` the run that was started or asked for (None: whichever is current), as with `Handle`."""

    __slots__ = ("_client", "_pinned", "_workflow", "id", "run_id")

    id: str
    run_id: str | None

    def __init__(
        self, client: SyncCaller, id: str, run_id: str | None, workflow: Workflow[..., Any] | None, *, started: str = ""
    ) -> None:
        self._client = client
        self.id = id
        self.run_id = run_id or started or None
        self._pinned = run_id
        self._workflow = workflow

    def _call(self, name: str, work: Callable[[Handle[Any]], Coroutine[Any, Any, T]]) -> T:
        """Made for each call, the handle is of the connection there is now."""

        async def done(client: Client) -> T:
            started = "" if self._pinned else self.run_id or ""
            return await work(Handle(client, self.id, self._pinned, self._workflow, started=started))

        return self._client.call(f"handle.{name}()", done)

    def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for the end and return the result. Raises what `Handle.result` does; `TimeoutError` when `timeout` passes first."""
        return self._call("result", lambda handle: handle.result(timeout))  # type: ignore[no-any-return]

    @overload
    def signal(self, signal: SignalCall, /, *, signal_id: str | None = None) -> None: ...
    @overload
    def signal(self, signal: str, /, value: Any = None, *, signal_id: str | None = None) -> None: ...
    @overload
    def signal(self, signal: Callable[[], SignalCall], /, *, signal_id: str | None = None) -> None: ...
    @overload
    def signal(self, signal: Callable[[A], SignalCall], a: A, /, *, signal_id: str | None = None) -> None: ...
    @overload
    def signal(self, signal: Callable[[A, B], SignalCall], a: A, b: B, /, *, signal_id: str | None = None) -> None: ...
    @overload
    def signal(self, signal: Callable[[A, B, C], SignalCall], a: A, b: B, c: C, /, *, signal_id: str | None = None) -> None: ...
    def signal(self, signal: Any, /, *args: Any, signal_id: str | None = None, **value: Any) -> None:
        """Send a signal; acknowledged when it is durable. Takes and raises what `Handle.signal` does."""
        self._call("signal", lambda handle: handle.signal(signal, *args, signal_id=signal_id, **value))

    @overload
    def update(self, update: UpdateCall[U], /, *, update_id: str | None = None) -> U: ...
    @overload
    def update(self, update: str, /, *args: object, update_id: str | None = None) -> Any: ...
    @overload
    def update(self, update: Callable[[], UpdateCall[U]], /, *, update_id: str | None = None) -> U: ...
    @overload
    def update(self, update: Callable[[A], UpdateCall[U]], a: A, /, *, update_id: str | None = None) -> U: ...
    @overload
    def update(self, update: Callable[[A, B], UpdateCall[U]], a: A, b: B, /, *, update_id: str | None = None) -> U: ...
    @overload
    def update(self, update: Callable[[A, B, C], UpdateCall[U]], a: A, b: B, c: C, /, *, update_id: str | None = None) -> U: ...
    def update(self, update: Any, /, *args: Any, update_id: str | None = None) -> Any:
        """Ask the run's code for something and return its answer. Takes and raises what `Handle.update` does."""
        return self._call("update", lambda handle: handle.update(update, *args, update_id=update_id))

    @overload
    def start_update(self, update: UpdateCall[U], /, *, update_id: str | None = None) -> SyncUpdateHandle[U]: ...
    @overload
    def start_update(self, update: str, /, *args: object, update_id: str | None = None) -> SyncUpdateHandle[Any]: ...
    @overload
    def start_update(self, update: Callable[[], UpdateCall[U]], /, *, update_id: str | None = None) -> SyncUpdateHandle[U]: ...
    @overload
    def start_update(
        self, update: Callable[[A], UpdateCall[U]], a: A, /, *, update_id: str | None = None
    ) -> SyncUpdateHandle[U]: ...
    @overload
    def start_update(
        self, update: Callable[[A, B], UpdateCall[U]], a: A, b: B, /, *, update_id: str | None = None
    ) -> SyncUpdateHandle[U]: ...
    @overload
    def start_update(
        self, update: Callable[[A, B, C], UpdateCall[U]], a: A, b: B, c: C, /, *, update_id: str | None = None
    ) -> SyncUpdateHandle[U]: ...
    def start_update(self, update: Any, /, *args: Any, update_id: str | None = None) -> SyncUpdateHandle[Any]:
        """As `update`, but return once the run's code has accepted it and that is durable; the answer comes with `result()`."""
        standing = self._call("start_update", lambda handle: handle.start_update(update, *args, update_id=update_id))
        return SyncUpdateHandle(self._client, standing)

    @overload
    def query(self, query: QueryCall[T], /, *, timeout: Duration = QUERY_TIMEOUT_S) -> T: ...
    @overload
    def query(self, query: str, /, *args: object, timeout: Duration = QUERY_TIMEOUT_S) -> Any: ...
    @overload
    def query(self, query: Callable[[], QueryCall[T]], /, *, timeout: Duration = QUERY_TIMEOUT_S) -> T: ...
    @overload
    def query(self, query: Callable[[A], QueryCall[T]], a: A, /, *, timeout: Duration = QUERY_TIMEOUT_S) -> T: ...
    @overload
    def query(self, query: Callable[[A, B], QueryCall[T]], a: A, b: B, /, *, timeout: Duration = QUERY_TIMEOUT_S) -> T: ...
    @overload
    def query(
        self, query: Callable[[A, B, C], QueryCall[T]], a: A, b: B, c: C, /, *, timeout: Duration = QUERY_TIMEOUT_S
    ) -> T: ...
    def query(self, query: Any, /, *args: Any, timeout: Duration = QUERY_TIMEOUT_S) -> Any:
        """Ask the run, open or closed, and return what its handler answers. Takes and raises what `Handle.query` does."""
        return self._call("query", lambda handle: handle.query(query, *args, timeout=timeout))

    def cancel(self, reason: str | None = None, *, request_id: str | None = None) -> None:
        """Ask the run to stop, as `Handle.cancel` does."""
        self._call("cancel", lambda handle: handle.cancel(reason, request_id=request_id))

    def terminate(self, reason: str | None = None, *, request_id: str | None = None) -> None:
        """End the run now, as `Handle.terminate` does."""
        self._call("terminate", lambda handle: handle.terminate(reason, request_id=request_id))

    def reset(self, event_id: int, reason: str | None = None, *, request_id: str | None = None) -> SyncHandle[R_co]:
        """Begin a new run from this one's history up to and including event `event_id`, as `Handle.reset` does."""
        return SyncHandle.of(
            self._client, self._call("reset", lambda handle: handle.reset(event_id, reason, request_id=request_id))
        )

    def pause(self, reason: str | None = None) -> None:
        """Hold the run where it is, as `Handle.pause` does."""
        self._call("pause", lambda handle: handle.pause(reason))

    def resume(self, reason: str | None = None) -> None:
        """End a pause or a quarantine, as `Handle.resume` does."""
        self._call("resume", lambda handle: handle.resume(reason))

    def describe(self) -> WorkflowDescription:
        """How the run stands now, and what it waits for. Raises `NotFound`."""
        return self._call("describe", lambda handle: handle.describe())

    def stack(self) -> WorkflowStack:
        """Where the run stands, from its history alone, as `Handle.stack` tells it."""
        return self._call("stack", lambda handle: handle.stack())

    def history(self, *, notes: bool = False) -> list[HistoryEntry]:
        """Every event of the run in order, as `Handle.history` gives them."""
        return self._call("history", lambda handle: handle.history(notes=notes))

    @classmethod
    def of(cls, client: SyncCaller, handle: Handle[Any]) -> SyncHandle[Any]:
        """The twin of a handle."""
        pinned, workflow = refers_to(handle)
        return cls(client, handle.id, pinned, workflow, started=handle.run_id or "")

    def __repr__(self) -> str:
        return f"<SyncHandle {self.id!r}{f' run {self.run_id}' if self.run_id else ''}>"


class SyncUpdateHandle(Generic[R_co]):
    """`id` is the update id, `workflow_id` and `run_id` say who has accepted it."""

    __slots__ = ("_client", "_update", "id", "run_id", "workflow_id")

    id: str
    workflow_id: str
    run_id: str

    def __init__(self, client: SyncCaller, update: UpdateHandle[Any]) -> None:
        self._client = client
        self._update = update
        self.id = update.id
        self.workflow_id = update.workflow_id
        self.run_id = update.run_id

    def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for the handler and return what it returned. Raises what `UpdateHandle.result` does."""

        async def done(client: Client) -> Any:
            return await self._update.through(client).result(timeout)

        return self._client.call("update.result()", done)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<SyncUpdateHandle {self.id!r} of {self.workflow_id!r}>"
