"""What is common to frontends that only workers use, in simulations: they send requests and take tasks; they await nothing and read nothing."""

from typing import Any

from perdure.core.description import Description
from perdure.core.queries import Query, QueryReply
from perdure.core.replies import RunResult, UpdateResult
from perdure.core.requests import AnyRequest
from perdure.ports import Record, RunFilter, RunPage


class WorkersFrontend:
    """The parts of `ports.Frontend` that no worker calls: a simulation in which one does is wrong, and is told so."""

    def call(self, request: AnyRequest) -> Any:
        raise NotImplementedError("workers use send")

    async def result(self, namespace: str, workflow_id: str, run_id: str = "", *, follow: bool = True) -> RunResult:
        raise NotImplementedError("a worker reads nothing over its wire")

    async def update_result(self, namespace: str, workflow_id: str, run_id: str, update_id: str) -> UpdateResult:
        raise NotImplementedError("a worker reads nothing over its wire")

    async def query(self, query: Query) -> QueryReply:
        raise NotImplementedError("a worker asks nothing over its wire")

    async def record(self, namespace: str, workflow_id: str, run_id: str = "") -> Record:
        raise NotImplementedError("a worker reads nothing over its wire")

    async def describe(self, namespace: str, workflow_id: str, run_id: str = "") -> Description:
        raise NotImplementedError("a worker reads nothing over its wire")

    async def runs(self, filter: RunFilter, limit: int, cursor: str = "") -> RunPage:
        raise NotImplementedError("a worker reads nothing over its wire")

    async def count(self, filter: RunFilter) -> int:
        raise NotImplementedError("a worker reads nothing over its wire")
