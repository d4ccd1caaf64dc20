"""Figures of the node: answered from counters, at once, whatever the number of runs. Changes nothing."""

from collections.abc import Sequence

from msgspec import Struct

from perdure.core.overview import NodeFigures, QueueFigures, ShardFigures, Stats, WorkerFigures
from perdure.ports import Overview
from perdure.server.route import HttpAnswer, HttpRequest, Route, answer


class Whole(Struct, frozen=True, kw_only=True):
    """A list that is always whole: `cursor` is null."""

    cursor: None = None


class QueueList(Whole, frozen=True, kw_only=True):
    """Every line of every task queue."""

    items: Sequence[QueueFigures]


class WorkerList(Whole, frozen=True, kw_only=True):
    """Every worker that is connected."""

    items: Sequence[WorkerFigures]


class ShardList(Whole, frozen=True, kw_only=True):
    """Every shard."""

    items: Sequence[ShardFigures]


class NodeList(Whole, frozen=True, kw_only=True):
    """Every node."""

    items: Sequence[NodeFigures]


class Figures:
    """Routes to what `overview` tells."""

    def __init__(self, overview: Overview) -> None:
        self._overview = overview

    def table(self) -> tuple[Route, ...]:
        """The routes."""
        return (
            Route(
                method="GET",
                path="/api/v1/stats",
                name="stats",
                summary="The node in figures",
                description="Of this life of the node, but for what is open. Costs the same for any number of runs.",
                tag="Node",
                permission="read",
                handler=self.stats,
                answers={200: Stats},
            ),
            Route(
                method="GET",
                path="/api/v1/queues",
                name="queues",
                summary="Task queues: what waits for a worker, and since when",
                tag="Node",
                permission="read",
                handler=self.queues,
                answers={200: QueueList},
            ),
            Route(
                method="GET",
                path="/api/v1/workers",
                name="workers",
                summary="Workers that are connected",
                tag="Node",
                permission="read",
                handler=self.workers,
                answers={200: WorkerList},
            ),
            Route(
                method="GET",
                path="/api/v1/shards",
                name="shards",
                summary="Shards, and who owns them",
                tag="Node",
                permission="read",
                handler=self.shards,
                answers={200: ShardList},
            ),
            Route(
                method="GET",
                path="/api/v1/nodes",
                name="nodes",
                summary="Nodes there are",
                tag="Node",
                permission="read",
                handler=self.nodes,
                answers={200: NodeList},
            ),
        )

    async def stats(self, _: HttpRequest) -> HttpAnswer:
        return answer(self._overview.stats())

    async def queues(self, _: HttpRequest) -> HttpAnswer:
        return answer(QueueList(items=self._overview.queues()))

    async def workers(self, _: HttpRequest) -> HttpAnswer:
        return answer(WorkerList(items=self._overview.workers()))

    async def shards(self, _: HttpRequest) -> HttpAnswer:
        return answer(ShardList(items=self._overview.shards()))

    async def nodes(self, _: HttpRequest) -> HttpAnswer:
        return answer(NodeList(items=[self._overview.node()]))
