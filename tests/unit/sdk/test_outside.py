"""Verbs of `workflow` and `activity` where nothing runs."""

import asyncio
from datetime import UTC, datetime

import pytest

from perdure import activity, workflow
from perdure.core.errors import OutsideContext

VERBS = {
    "workflow.info": workflow.info,
    "workflow.now": workflow.now,
    "workflow.time": workflow.time,
    "workflow.random": workflow.random,
    "workflow.uuid4": workflow.uuid4,
    "workflow.uuid7": workflow.uuid7,
    "workflow.sleep": lambda: asyncio.run(workflow.sleep(1)),
    "workflow.sleep_until": lambda: asyncio.run(workflow.sleep_until(datetime.now(UTC))),
    "workflow.receive": lambda: asyncio.run(workflow.receive("x")),
    "workflow.version": lambda: workflow.version("x", 0, 1),
    "workflow.side_effect": lambda: workflow.side_effect(dict),
    "workflow.continue_as_new": workflow.continue_as_new,
    "workflow.is_replaying": workflow.is_replaying,
    "activity.info": activity.info,
    "activity.heartbeat": activity.heartbeat,
    "activity.is_cancelled": activity.is_cancelled,
    "activity.is_stopping": activity.is_stopping,
}


@pytest.mark.parametrize("verb", VERBS)
def test_the_error_names_the_verb(verb):
    """Whoever reads the message knows which call is in the wrong place, without the traceback."""
    with pytest.raises(OutsideContext) as caught:
        VERBS[verb]()
    assert str(caught.value).startswith(f"{verb}() can only be called in ")
