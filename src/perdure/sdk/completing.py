"""What a client says of activities that are completed from outside: it needs a task token and nothing else."""

from asyncio import CancelledError
from typing import TYPE_CHECKING, Any

from msgspec import structs

from perdure.core.errors import InvalidArgument, NotFound
from perdure.core.payload import ABSENT
from perdure.core.requests import FinishActivity, HeartbeatActivity
from perdure.ports import Frontend
from perdure.sdk import task_token
from perdure.sdk.failures import to_failure
from perdure.sdk.payload_bound import bounded
from perdure.sdk.payloads import CONVERTER

if TYPE_CHECKING:
    from perdure.core.replies import Beaten


class ActivityCompletion:
    """The part of `Client` that finishes attempts by their task token."""

    namespace: str
    payload_bytes_max: int
    """Bytes one payload may have, as the engine behind the frontend says."""

    def reach(self, call: str) -> Frontend:
        """The frontend, for this call."""
        raise NotImplementedError(call)

    async def complete_activity(self, task_token: str, result: object = None) -> None:
        """Complete an attempt that was left to be completed from outside (`activity.complete_later`), from any process.

        Acknowledged when it is durable. Raises `NotFound` when the token was used or the attempt has ended otherwise (a bound was
        passed, its run was closed), `InvalidArgument` for what is no task token, `PayloadTooLarge`.
        """
        frontend = self.reach("client.complete_activity()")
        of = self._claim_of(task_token)
        with bounded(self.payload_bytes_max):
            payload = CONVERTER.encode(result, "result of the activity")
        await frontend.call(FinishActivity(**of, result=payload))

    async def fail_activity(self, task_token: str, exception: BaseException) -> None:
        """Fail such an attempt: its retry policy says whether there is another one. A `CancelledError` says that it was cancelled.

        Raises as `complete_activity` does.
        """
        frontend = self.reach("client.fail_activity()")
        if not isinstance(exception, BaseException):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidArgument(f"fail_activity takes an exception, not {exception!r}")
        of = self._claim_of(task_token)
        cancelled = isinstance(exception, CancelledError)
        await frontend.call(FinishActivity(**of, failure=to_failure(exception), cancelled=cancelled))

    async def heartbeat_activity(self, task_token: str, *details: object) -> bool:
        """Say that such an attempt goes on; `details` are kept for the next one. True when its cancel was asked for.

        Raises `NotFound` when the claim is gone, `InvalidArgument` for what is no task token.
        """
        frontend = self.reach("client.heartbeat_activity()")
        of = self._claim_of(task_token)
        with bounded(self.payload_bytes_max):
            encoded = CONVERTER.encode(list(details), "heartbeat") if details else ABSENT
        beaten: Beaten = await frontend.call(HeartbeatActivity(**of, details=encoded))
        if not beaten.wanted:
            raise NotFound("the task token names a claim that is gone: it was used, or the attempt has ended otherwise")
        return beaten.cancelled

    def _claim_of(self, text: str) -> dict[str, Any]:
        token = task_token.read(text)
        if token.namespace != self.namespace:
            raise NotFound(f"the task token is not of namespace {self.namespace!r}")
        return structs.asdict(token)
