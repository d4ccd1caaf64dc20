"""What travels: a frontend that counts the events handed to a worker with claims and answers to its reports. It changes none."""

from functools import partial
from typing import Any

from perdure.core.replies import Reported, WorkflowClaimed
from perdure.core.requests import AnyRequest
from perdure.ports import Answer, Frontend


class Handed:
    """Stands before a frontend. `events` counts those handed over so far."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self.events = 0

    def send(self, request: AnyRequest, answer: Answer) -> None:
        self._frontend.send(request, partial(self._count, answer))

    def _count(self, answer: Answer, reply: Any, error: BaseException | None) -> None:
        if isinstance(reply, WorkflowClaimed | Reported):
            self.events += len(reply.events)
        answer(reply, error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._frontend, name)
