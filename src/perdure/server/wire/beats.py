"""Signs of life from workers in other processes, as requests to the owners of what they have in hand."""

import asyncio
from functools import partial
from typing import Any, Final

from perdure.core.replies import Beaten
from perdure.core.requests import AnyRequest, HeartbeatActivity, HeartbeatWorkflow
from perdure.ports import Frontend
from perdure.wire.messages import Beat, BeatAnswer, HeldClaim

CLAIMS_AT_ONCE: Final = 500
"""Claims of one beat that are brought to their owners before others get a turn."""


class BeatsHeard:
    """Of one connection."""

    def __init__(self, frontend: Frontend, lives_for: int) -> None:
        self._frontend = frontend
        self._lives_for = lives_for

    async def take(self, beat: Beat) -> BeatAnswer:
        """Bring each claim's sign of life to its owner; what they say to it. One whose owner cannot say is taken to stand."""
        replies: dict[str, Any] = {}
        for first in range(0, len(beat.claims), CLAIMS_AT_ONCE):
            await self._bring(beat.claims[first : first + CLAIMS_AT_ONCE], replies)
        beaten = {token: reply for token, reply in replies.items() if isinstance(reply, Beaten)}
        return BeatAnswer(
            gone=tuple(token for token, reply in beaten.items() if not reply.wanted),
            cancelled=tuple(token for token, reply in beaten.items() if reply.wanted and reply.cancelled),
        )

    async def _bring(self, claims: tuple[HeldClaim, ...], replies: dict[str, Any]) -> None:
        """Bring some of them, and wait for what is said to all of these."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        missing = len(claims)

        def told(token: str, reply: Any, _error: BaseException | None) -> None:
            nonlocal missing
            replies[token] = reply
            missing -= 1
            if not missing and not done.done():
                done.set_result(None)

        for claim in claims:
            self._frontend.send(self._request(claim), partial(told, claim.token))
        await done
        await asyncio.sleep(0)  # others get a turn, also where everything was answered at once

    def _request(self, claim: HeldClaim) -> AnyRequest:
        head: dict[str, Any] = {
            "namespace": claim.namespace,
            "workflow_id": claim.workflow_id,
            "run_id": claim.run_id,
            "token": claim.token,
        }
        if not claim.command:
            return HeartbeatWorkflow(**head)
        return HeartbeatActivity(
            **head,
            command=claim.command,
            attempt=claim.attempt,
            worker=claim.worker,
            claimed_at=claim.claimed_at,
            lives_for=self._lives_for,
        )
