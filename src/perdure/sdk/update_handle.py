"""An accepted update as its caller sees it: its id, and its answer once its handler has ended."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from perdure.core.payload import is_absent
from perdure.sdk.duration import Duration, length
from perdure.sdk.failures import to_exception
from perdure.sdk.payloads import CONVERTER

if TYPE_CHECKING:
    from perdure.core.replies import UpdateResult
    from perdure.sdk.client import Client
    from perdure.sdk.payloads import Signature

R_co = TypeVar("R_co", covariant=True)


class UpdateHandle(Generic[R_co]):
    """`id` is the update id, `workflow_id` and `run_id` say who has accepted it."""

    __slots__ = ("_client", "_signature", "_standing", "id", "run_id", "workflow_id")

    id: str
    workflow_id: str
    run_id: str

    def __init__(self, client: Client, workflow_id: str, standing: UpdateResult, signature: Signature | None) -> None:
        self._client = client
        self._standing = standing
        self._signature = signature
        self.id = standing.update_id
        self.workflow_id = workflow_id
        self.run_id = standing.run_id

    async def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for the handler and return what it returned.

        Raises what the handler raised, as its own class; `Unavailable` when the run ended before the handler did (the update may be
        sent again, under the same id) or the engine is gone; the built-in `TimeoutError` when `timeout` (seconds or a timedelta) passes
        first. Giving up the wait never touches the run.
        """
        if timeout is None:
            return await self._result()
        seconds = length(timeout, "timeout") / 1_000_000
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await self._result()
        except TimeoutError as error:
            if not limit.expired():
                raise
            message = f"update {self.id!r} of workflow {self.workflow_id!r} has not ended within {seconds:g} s; it goes on"
            raise TimeoutError(message) from error

    async def _result(self) -> R_co:
        if self._standing.status == "accepted":
            frontend = self._client.reach("update.result()")
            self._standing = await frontend.update_result(self._client.namespace, self.workflow_id, self.run_id, self.id)
        return answer_of(self._standing, self._signature)  # type: ignore[no-any-return]

    def through(self, client: Client) -> UpdateHandle[R_co]:
        """The same update, reached through another client."""
        return UpdateHandle(client, self.workflow_id, self._standing, self._signature)

    def __repr__(self) -> str:
        return f"<UpdateHandle {self.id!r} of {self.workflow_id!r}>"


def answer_of(standing: UpdateResult, signature: Signature | None) -> Any:
    """What an update gave, by its handler's return hint where that is known here, or raise what it was refused or failed with."""
    if standing.failure is not None:
        raise to_exception(standing.failure)
    if is_absent(standing.result):
        return None
    if signature is not None:
        return signature.result(standing.result)
    return CONVERTER.decode(standing.result, Any, f"result of update {standing.update_id}")
