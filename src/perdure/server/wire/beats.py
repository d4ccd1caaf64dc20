"""Signs of life from workers in other processes, as requests to the owners of what they have in hand."""

import asyncio
from functools import partial
from typing import Any

from perdure.core.replies import Beaten
from perdure.core.requests import AnyRequest, HeartbeatActivity, HeartbeatWorkflow
from perdure.ports import Frontend
from perdure.wire.messages import Beat, BeatAnswer, HeldClaim


class BeatsHeard:
    """Of one connection."""

    def __init__(self, frontend: Frontend, lives_for: int) -> None:
        self._frontend = frontend
        self._lives_for = lives_for

    async def take(self, beat: Beat) -> BeatAnswer:
        """Bring each claim's sign of life to its owner; what they say to it. One whose owner cannot say is taken to stand."""
        if not beat.claims:
            return BeatAnswer()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        replies: dict[str, Any] = {}

        def told(token: str, reply: Any, _error: BaseException | None) -> None:
            replies[token] = reply
            if len(replies) == wanted and not done.done():
                done.set_result(None)

        wanted = len({claim.token for claim in beat.claims})
        for claim in beat.claims:
            self._frontend.send(self._request(claim), partial(told, claim.token))
        await done
        beaten = {token: reply for token, reply in replies.items() if isinstance(reply, Beaten)}
        return BeatAnswer(
            gone=tuple(token for token, reply in beaten.items() if not reply.wanted),
            cancelled=tuple(token for token, reply in beaten.items() if reply.wanted and reply.cancelled),
        )

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
