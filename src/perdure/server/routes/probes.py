"""What supervisors and load balancers ask: is the process alive, may it be sent requests. Never needs a key, never waits for anything."""

from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct

import perdure
from perdure.core.overview import Component
from perdure.ports import Overview
from perdure.server.long_poll import LongPolls
from perdure.server.loop_lag import lag_s
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
    """For people: both of the others, the version, and how each part of the node stands that may fail by itself."""

    status: Standing
    version: str
    reason: str = ""
    components: tuple[Component, ...] = ()


LAGGING_S: Final = 0.5
"""A turn of the event loop that takes longer keeps everyone waiting."""
_LOOP: Final = Component(name="loop")


class Probes:
    """`ready` says why the node cannot serve; empty when it can. `overview` knows its parts."""

    def __init__(self, ready: Callable[[], str], polls: LongPolls, overview: Overview | None = None) -> None:
        self._overview = overview
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
                description="503 when it is not ready, or one of its parts has failed: a write that does not get done, say.",
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
        components = await self._components()
        found = Health(status=status, reason=reason, version=perdure.__version__, components=components)
        is_well = status == "ready" and all(component.status != "failed" for component in components)
        return answer(found, 200 if is_well else 503)

    async def _components(self) -> tuple[Component, ...]:
        if self._overview is None:
            return ()
        lag = await lag_s()
        loop = Component(name="loop", status="degraded", details=f"a turn takes {lag:.1f} s") if lag > LAGGING_S else _LOOP
        return (*self._overview.components(), loop)

    def _standing(self) -> tuple[Standing, str]:
        if self._polls.has_ended:
            return "stopping", "the node is stopping"
        reason = self._ready()
        return ("not ready", reason) if reason else ("ready", "")
