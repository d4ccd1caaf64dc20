"""A handle: one workflow id (or one run of it) as a caller sees it. Making one does no I/O."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable  # noqa: TC003 – read by whoever asks for the hints of a method
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast, overload

from perdure.core.queries import Query
from perdure.core.requests import PauseWorkflow, RequestCancel, ResetWorkflow, ResumeWorkflow, SignalWorkflow, TerminateWorkflow
from perdure.sdk.duration import Duration, length
from perdure.sdk.failures import to_exception
from perdure.sdk.handlers import QueryCall, QueryHandler
from perdure.sdk.messages import message_of
from perdure.sdk.options import identifier, whole
from perdure.sdk.options import reason as checked_reason
from perdure.sdk.outcome import outcome_of
from perdure.sdk.payload_bound import bounded
from perdure.sdk.payloads import CONVERTER
from perdure.sdk.stack import WorkflowStack, stack_of
from perdure.sdk.update_handle import UpdateHandle, answer_of
from perdure.sdk.views import HistoryEntry, WorkflowDescription, entries_of, view_of

if TYPE_CHECKING:
    from perdure.core.replies import UpdateResult
    from perdure.sdk.client import Client
    from perdure.sdk.handlers import SignalCall, UpdateCall
    from perdure.sdk.workflow import Workflow

R_co = TypeVar("R_co", covariant=True)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
U = TypeVar("U")
T = TypeVar("T")

QUERY_TIMEOUT_S: Final = 10.0
"""So long may a query wait for a worker, unless it says otherwise."""


EVENT_ID_MAX: Final = 2**31 - 1


class Handle(Generic[R_co]):
    """`id` is the workflow id, `run_id` the run that was started or asked for (None: whichever is current).

    A handle made with a run id speaks of that run alone; any other one follows the workflow id's current run, so that messages reach
    the successor when the run has continued as new. `result` begins with `run_id` and follows its continuations.
    """

    __slots__ = ("_client", "_pinned", "_workflow", "id", "run_id")

    id: str
    run_id: str | None

    def __init__(
        self, client: Client, id: str, run_id: str | None, workflow: Workflow[..., Any] | None, *, started: str = ""
    ) -> None:
        self._client = client
        self.id = id
        self.run_id = run_id or started or None
        self._pinned = run_id or ""
        self._workflow = workflow

    async def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for the end and return the result, however often the run continues as new.

        Raises `WorkflowFailed` (the workflow's own exception as `__cause__`), `WorkflowCancelled`, `WorkflowTerminated`,
        `WorkflowTimedOut`, `NotFound`, `Unavailable`; the built-in `TimeoutError` when `timeout` (seconds or a timedelta) passes first.
        Giving up the wait never touches the run.
        """
        frontend, namespace = self._client.reach("handle.result()"), self._client.namespace
        run_id = self.run_id or ""
        if timeout is None:
            found = await frontend.result(namespace, self.id, run_id)
        else:
            seconds = length(timeout, "timeout") / 1_000_000
            limit = asyncio.timeout(seconds)
            try:
                async with limit:
                    found = await frontend.result(namespace, self.id, run_id)
            except TimeoutError as error:
                if not limit.expired():
                    raise
                raise TimeoutError(f"workflow {self.id!r} has not ended within {seconds:g} s; it goes on") from error
        return outcome_of(self.id, found, self._workflow)  # type: ignore[no-any-return]

    @overload
    async def signal(self, signal: SignalCall, /, *, signal_id: str | None = None) -> None: ...
    @overload
    async def signal(self, signal: str, /, value: Any = None, *, signal_id: str | None = None) -> None: ...
    @overload
    async def signal(self, signal: Callable[[], SignalCall], /, *, signal_id: str | None = None) -> None: ...
    @overload
    async def signal(self, signal: Callable[[A], SignalCall], a: A, /, *, signal_id: str | None = None) -> None: ...
    @overload
    async def signal(self, signal: Callable[[A, B], SignalCall], a: A, b: B, /, *, signal_id: str | None = None) -> None: ...
    @overload
    async def signal(
        self, signal: Callable[[A, B, C], SignalCall], a: A, b: B, c: C, /, *, signal_id: str | None = None
    ) -> None: ...
    async def signal(self, signal: Any, /, *args: Any, signal_id: str | None = None, **value: Any) -> None:
        """Send a signal; acknowledged when it is durable. The same `signal_id` to this workflow id is delivered once.

        `signal` is a call (`Cart.add("x")`), a handler with its positional arguments, or a name with one value.

        Raises `WorkflowClosed`, `NotFound`, `LimitExceeded` (too many unread), `InvalidArgument`, `PayloadTooLarge`.
        """
        frontend = self._client.reach("handle.signal()")
        await frontend.call(
            SignalWorkflow(
                namespace=self._client.namespace,
                workflow_id=self.id,
                run_id=self._pinned,
                signal=self._client.signal_body(signal, args, value, signal_id),
            )
        )

    @overload
    async def update(self, update: UpdateCall[U], /, *, update_id: str | None = None) -> U: ...
    @overload
    async def update(self, update: str, /, *args: object, update_id: str | None = None) -> Any: ...
    @overload
    async def update(self, update: Callable[[], UpdateCall[U]], /, *, update_id: str | None = None) -> U: ...
    @overload
    async def update(self, update: Callable[[A], UpdateCall[U]], a: A, /, *, update_id: str | None = None) -> U: ...
    @overload
    async def update(self, update: Callable[[A, B], UpdateCall[U]], a: A, b: B, /, *, update_id: str | None = None) -> U: ...
    @overload
    async def update(
        self, update: Callable[[A, B, C], UpdateCall[U]], a: A, b: B, c: C, /, *, update_id: str | None = None
    ) -> U: ...
    async def update(self, update: Any, /, *args: Any, update_id: str | None = None) -> Any:
        """Ask the run's code for something and return its answer. The same `update_id` to this workflow id is carried out once.

        `update` is a call (`Cart.checkout("code")`), a handler with its positional arguments, or a name with plain values. Raises what
        the validator or the handler raised, as its own class; `InvalidArgument` for an update the code does not have or arguments it
        does not take; `WorkflowClosed`, `NotFound`, `ResourceExhausted` (too many wait), `PayloadTooLarge`; `Unavailable` when the run
        or the engine ended before there was an answer: sent again under the same `update_id` it is not carried out twice.
        """
        return await (await self._update("handle.update()", update, args, update_id)).result()

    @overload
    async def start_update(self, update: UpdateCall[U], /, *, update_id: str | None = None) -> UpdateHandle[U]: ...
    @overload
    async def start_update(self, update: str, /, *args: object, update_id: str | None = None) -> UpdateHandle[Any]: ...
    @overload
    async def start_update(
        self, update: Callable[[], UpdateCall[U]], /, *, update_id: str | None = None
    ) -> UpdateHandle[U]: ...
    @overload
    async def start_update(
        self, update: Callable[[A], UpdateCall[U]], a: A, /, *, update_id: str | None = None
    ) -> UpdateHandle[U]: ...
    @overload
    async def start_update(
        self, update: Callable[[A, B], UpdateCall[U]], a: A, b: B, /, *, update_id: str | None = None
    ) -> UpdateHandle[U]: ...
    @overload
    async def start_update(
        self, update: Callable[[A, B, C], UpdateCall[U]], a: A, b: B, c: C, /, *, update_id: str | None = None
    ) -> UpdateHandle[U]: ...
    async def start_update(self, update: Any, /, *args: Any, update_id: str | None = None) -> UpdateHandle[Any]:
        """As `update`, but return once the run's code has accepted it and that is durable; the answer comes with `result()`."""
        return await self._update("handle.start_update()", update, args, update_id)

    async def _update(self, call: str, update: Any, args: tuple[Any, ...], update_id: str | None) -> UpdateHandle[Any]:
        frontend = self._client.reach(call)
        request, signature = self._client.update_request(self.id, self._pinned, update, args, update_id, self._workflow)
        standing: UpdateResult = await frontend.call(request)
        if standing.status == "rejected":
            answer_of(standing, signature)
        return UpdateHandle(self._client, self.id, standing, signature)

    @overload
    async def query(self, query: QueryCall[T], /, *, timeout: Duration = QUERY_TIMEOUT_S) -> T: ...
    @overload
    async def query(self, query: str, /, *args: object, timeout: Duration = QUERY_TIMEOUT_S) -> Any: ...
    @overload
    async def query(self, query: Callable[[], QueryCall[T]], /, *, timeout: Duration = QUERY_TIMEOUT_S) -> T: ...
    @overload
    async def query(self, query: Callable[[A], QueryCall[T]], a: A, /, *, timeout: Duration = QUERY_TIMEOUT_S) -> T: ...
    @overload
    async def query(
        self, query: Callable[[A, B], QueryCall[T]], a: A, b: B, /, *, timeout: Duration = QUERY_TIMEOUT_S
    ) -> T: ...
    @overload
    async def query(
        self, query: Callable[[A, B, C], QueryCall[T]], a: A, b: B, c: C, /, *, timeout: Duration = QUERY_TIMEOUT_S
    ) -> T: ...
    async def query(self, query: Any, /, *args: Any, timeout: Duration = QUERY_TIMEOUT_S) -> Any:
        """Ask the run, open or closed, and return what its handler answers. It sees every signal that was acknowledged before.

        `query` is a call (`Cart.size()`), a handler with its positional arguments, or a name with them (untyped). What the handler raises
        is raised here, as its own class. Raises `Unavailable` when no worker answers within `timeout` (seconds or a timedelta), `NotFound`
        for a run or query there is not, `InvalidArgument`, `PayloadTooLarge`, and `NondeterminismError` for a handler that did more than
        look, a run that is quarantined, or one that no worker's code reproduces.
        """
        client = self._client
        frontend = client.reach("handle.query()")
        with bounded(client.payload_bytes_max):
            name, values, keywords = message_of(query, args, {}, QueryHandler, QueryCall)
        reply = await frontend.query(
            Query(
                namespace=client.namespace,
                workflow_id=self.id,
                run_id=self._pinned,
                name=name,
                input=values,
                keywords=keywords,
                timeout=length(timeout, "timeout"),
            )
        )
        if reply.failure is not None:
            raise to_exception(reply.failure)
        handler = query.handler if isinstance(query, QueryCall) else query
        if isinstance(query, str) and self._workflow is not None:
            handler = self._workflow.queries.get(query, query)
        if isinstance(handler, QueryHandler):
            return cast("QueryHandler[..., Any]", handler).signature.decode_result(reply.result)
        return CONVERTER.decode(reply.result, Any, f"query {name}")

    async def cancel(self, reason: str | None = None, *, request_id: str | None = None) -> None:
        """Ask the run to stop: its code sees `CancelledError` at its next await and may clean up. Raises `WorkflowClosed`, `NotFound`."""
        frontend = self._client.reach("handle.cancel()")
        await frontend.call(
            RequestCancel(
                namespace=self._client.namespace,
                workflow_id=self.id,
                run_id=self._pinned,
                reason=checked_reason(reason),
                request_id=self._client.fresh_id() if request_id is None else identifier(request_id, "request id"),
            )
        )

    async def terminate(self, reason: str | None = None, *, request_id: str | None = None) -> None:
        """End the run now; its code gets no chance to clean up. Raises `WorkflowClosed`, `NotFound`."""
        frontend = self._client.reach("handle.terminate()")
        await frontend.call(
            TerminateWorkflow(
                namespace=self._client.namespace,
                workflow_id=self.id,
                run_id=self._pinned,
                reason=checked_reason(reason),
                request_id=self._client.fresh_id() if request_id is None else identifier(request_id, "request id"),
            )
        )

    async def reset(self, event_id: int, reason: str | None = None, *, request_id: str | None = None) -> Handle[R_co]:
        """Begin a new run from this one's history up to and including event `event_id`, and return its handle.

        An open run ends `terminated`, its id goes on in the new run; a closed one stays as it is. Up to the point the code is replayed;
        activities open there are dispatched again, with their idempotency keys; signals and accepted updates that came later are
        delivered again, cancels are not. A handle made with a run id resets that run, any other one the id's current or last run.
        Raises `NotFound`, `InvalidArgument` for an event that is not there or is the run's end, `LimitExceeded`.
        """
        frontend, client = self._client.reach("handle.reset()"), self._client
        request = ResetWorkflow(
            namespace=client.namespace,
            workflow_id=self.id,
            run_id=self._pinned,
            event_id=whole(event_id, "event_id", 1, EVENT_ID_MAX),
            reason=checked_reason(reason),
            request_id=client.fresh_id() if request_id is None else identifier(request_id, "request id"),
            **client.fresh_run(),
        )
        reply = await frontend.call(request)
        return Handle(client, self.id, None, self._workflow, started=reply.run_id)

    async def pause(self, reason: str | None = None) -> None:
        """Hold the run where it is: nothing more is decided for it, or for what it continues as, until `resume`.

        What comes meanwhile (signals, results, timers) is kept for then; activities that were scheduled go on, and time limits run. A
        decision that was being made when the pause came may still be taken. Pausing a paused run changes nothing.
        Raises `WorkflowClosed`, `NotFound`.
        """
        frontend = self._client.reach("handle.pause()")
        await frontend.call(
            PauseWorkflow(
                namespace=self._client.namespace,
                workflow_id=self.id,
                run_id=self._pinned,
                reason=checked_reason(reason),
            )
        )

    async def resume(self, reason: str | None = None) -> None:
        """End a pause, or take the run out of quarantine, whatever build failed on it, and offer it again.

        Raises `WorkflowClosed`, `NotFound`.
        """
        frontend = self._client.reach("handle.resume()")
        await frontend.call(
            ResumeWorkflow(
                namespace=self._client.namespace,
                workflow_id=self.id,
                run_id=self._pinned,
                reason=checked_reason(reason),
            )
        )

    async def describe(self) -> WorkflowDescription:
        """How the run stands now, and what it waits for. Raises `NotFound`."""
        return view_of(await self._client.reach("handle.describe()").describe(self._client.namespace, self.id, self._pinned))

    async def stack(self) -> WorkflowStack:
        """Where the run stands, from its history alone, whether a worker is there or not: what it waits for, since when, who holds that,
        and why nobody moves it. Printed as text it reads as `perdure workflow stack` does. Raises `NotFound`."""
        reach = self._client.reach("handle.stack()")
        return stack_of(view_of(await reach.describe(self._client.namespace, self.id, self._pinned)))

    async def history(self, *, notes: bool = False) -> list[HistoryEntry]:
        """Every event of the run in order, each with `.id`, `.time`, `.type` and its fields; with `notes`, notes too, where they fell.

        Of a run whose history is damaged it is what stands before the first entry that is lost, and a `RuntimeWarning` says so. Raises
        `NotFound`.
        """
        record = await self._client.reach("handle.history()").record(self._client.namespace, self.id, self._pinned)
        if record.damage is not None:
            warnings.warn(f"run {record.run_id} of {self.id!r}: {record.damage.reason}", RuntimeWarning, stacklevel=2)
        return entries_of(record, notes=notes)

    def __repr__(self) -> str:
        return f"<Handle {self.id!r}{f' run {self.run_id}' if self.run_id else ''}>"


def refers_to(handle: Handle[Any]) -> tuple[str | None, Workflow[..., Any] | None]:
    """The run a handle speaks of alone (None: it follows the id), and the workflow it was told of."""
    return handle._pinned or None, handle._workflow  # pyright: ignore[reportPrivateUsage]
