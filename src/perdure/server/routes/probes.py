"""What supervisors and load balancers ask: is the process alive, may it be sent requests. Never needs a key, never waits for anything."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

import perdure
from perdure.server.long_poll import LongPolls
from perdure.server.route import HttpAnswer, HttpRequest, Route, answer

Standing = Literal["ready", "not ready", "stopping"]


class Alive(Struct, frozen=True, kw_only=True):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Readiness(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether the node takes requests, and if not, why."""

    status: Standing
    reason: str = ""


class Health(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """For people: both of the others, and the version."""

    status: Standing
    version: str
    reason: str = ""


class Probes:
    """`ready` says why the node cannot serve; empty when it can."""

    def __init__(self, ready: Callable[[], str], polls: LongPolls) -> None:
        self._ready = ready
        self._polls = polls

    def table(self) -> tuple[Route, ...]:
        """The routes."""
        return (
            Route(
                method="GET",
                path="/healthz",
                name="healthz",
                summary="Is the process alive?",
                tag="Probes",
                permission=None,
                handler=self.healthz,
                answers={200: Alive},
            ),
            Route(
                method="GET",
                path="/readyz",
                name="readyz",
                summary="May requests be sent here?",
                description="503 while the node starts or stops, and once it can write nothing more.",
                tag="Probes",
                permission=None,
                handler=self.readyz,
                answers={200: Readiness, 503: Readiness},
            ),
            Route(
                method="GET",
                path="/health",
                name="health",
                summary="How does the node stand?",
                tag="Probes",
                permission=None,
                handler=self.health,
                answers={200: Health, 503: Health},
            ),
        )

    async def healthz(self, _: HttpRequest) -> HttpAnswer:
        return answer(Alive())

    async def readyz(self, _: HttpRequest) -> HttpAnswer:
        status, reason = self._standing()
        return answer(Readiness(status=status, reason=reason), 200 if status == "ready" else 503)

    async def health(self, _: HttpRequest) -> HttpAnswer:
        status, reason = self._standing()
        found = Health(status=status, reason=reason, version=perdure.__version__)
        return answer(found, 200 if status == "ready" else 503)

    def _standing(self) -> tuple[Standing, str]:
        if self._polls.has_ended:
            return "stopping", "the node is stopping"
        reason = self._ready()
        return ("not ready", reason) if reason else ("ready", "")
