"""An attempt that is cancelled before its first step still answers, and gives its slot back."""

import asyncio

from perdure import activity
from perdure.core.events import ActivityScheduled
from perdure.core.replies import ActivityClaim
from perdure.core.requests import ActivityErred
from perdure.worker.attempts import Attempts


@activity
async def untouched() -> None:
    raise AssertionError("it began all the same")


def test_a_cancel_before_the_first_step_is_reported_as_one():
    """A task cancelled before it has run a line runs none: the attempt must not be lost with it."""

    async def body():
        ended = asyncio.get_running_loop().create_future()
        attempts = Attempts(None, 1, 1, lambda attempt, fact: ended.set_result((attempt.cancelled, fact)))
        claim = ActivityClaim(
            namespace="default",
            workflow_id="w",
            run_id="r",
            scheduled=ActivityScheduled(id=2, time=0, at=1, based_on=1, name="untouched", ordinal=1),
            attempt=1,
            token="t",
            queue="default",
            idempotency_key="k",
            claimed_at=0,
        )
        attempts.start(untouched, claim)
        attempts.cancel("t")
        cancelled, fact = await ended
        assert cancelled
        assert isinstance(fact, ActivityErred)
        assert fact.cancelled
        assert len(attempts) == 0

    asyncio.run(asyncio.wait_for(body(), 5))
