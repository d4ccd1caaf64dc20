"""A run that answers from a script, so that the author API can be tried without replay: commands are kept, answers given at once."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from perdure.core.commands import ContinueAsNew, ScheduleActivity
from perdure.core.events import ActivityCompleted, Attribute, SignalReceived
from perdure.core.payload import Payload
from perdure.sdk.context import ActivityAnswer, WorkflowInfo


class Continued(BaseException):
    """What this run raises for `continue_as_new`; like the real one it is no Exception."""


class ScriptedRun:
    """A `WorkflowContext`: `answers` are given to activities in order, `signals` to receivers, everything asked for is kept."""

    def __init__(self) -> None:
        self.at = 7
        self.time = 1_700_000_000_000_000
        self.replaying = False
        self.generator = random.Random(5)
        self.scheduled: list[ScheduleActivity] = []
        self.answers: list[ActivityAnswer] = []
        self.signals: dict[str, list[SignalReceived]] = {}
        self.slept: list[tuple[int, str]] = []
        self.asked: list[tuple[str, int, int]] = []
        self.taken_version = 0
        self.effects: list[Payload] = []
        self.continued: ContinueAsNew | None = None
        self.memo: dict[str, Payload] = {}
        self.parent: tuple[str, str] | None = None
        self.attributes: dict[str, Attribute] = {}
        self.datetimes: tuple[str, ...] = ()
        self.details = ""

    def info(self) -> WorkflowInfo:
        return WorkflowInfo(
            namespace="default",
            workflow_id="order-1",
            run_id="run-1",
            type="fulfil",
            queue="default",
            attempt=1,
            started_at=1_600_000_000_000_000,
            parent=self.parent,
            memo=self.memo,
            attributes={"customer": "c1", **self.attributes},
            datetimes=self.datetimes,
            history_length=self.at,
            history_bytes=900,
            continue_as_new_suggested=False,
        )

    def set_attributes(self, attributes: dict[str, Attribute], datetimes: tuple[str, ...]) -> None:
        self.attributes, self.datetimes = attributes, datetimes

    def set_details(self, details: str) -> None:
        self.details = details

    def now(self) -> int:
        return self.time

    def random(self) -> random.Random:
        return self.generator

    async def activity(self, command: ScheduleActivity) -> ActivityAnswer:
        self.scheduled.append(command)
        await asyncio.sleep(0)
        return self.answers.pop(0)

    def complete(self, value: object) -> None:
        """Let the next activity give this value."""
        self.answers.append(ActivityCompleted(id=9, time=0, command=8, result=msgspec.Raw(msgspec.json.encode(value))))

    async def sleep(self, delay: int, summary: str = "") -> None:
        self.slept.append((delay, summary))
        await asyncio.sleep(0)

    def receive(self, name: str) -> asyncio.Future[SignalReceived]:
        future = asyncio.get_running_loop().create_future()
        if self.signals.get(name):
            future.set_result(self.signals[name].pop(0))
        return future

    def version(self, change_id: str, lowest: int, highest: int) -> int:
        self.asked.append((change_id, lowest, highest))
        return self.taken_version

    def side_effect(self, produce: Callable[[], Payload]) -> Payload:
        if not self.replaying:
            self.effects.append(produce())
        return self.effects[-1]

    def continue_as_new(self, command: ContinueAsNew) -> Any:
        self.continued = command
        raise Continued

    def is_replaying(self) -> bool:
        return self.replaying

    def run(self, code: Coroutine[Any, Any, Any]) -> Any:
        """Run `code` as workflow code of this run."""

        async def main() -> Any:
            asyncio.get_running_loop().workflow_context = self  # type: ignore[attr-defined]
            return await code

        return asyncio.run(main())


@pytest.fixture
def scripted() -> ScriptedRun:
    return ScriptedRun()


@pytest.fixture
def continued() -> type[BaseException]:
    return Continued
