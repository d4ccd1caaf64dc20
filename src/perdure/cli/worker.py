"""`perdure worker`: processes that run the code of modules for a node elsewhere. What keeps them alive is in `workers`."""

import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from perdure.cli.exits import complain, say
from perdure.cli.options import Module, Output, Remote

if TYPE_CHECKING:
    from perdure.cli.workers import messages as ms

PROCESSES_MAX: Final = 1_000
TEXT: Final = Output()
ANYWHERE: Final = Remote()


async def worker(
    module: Module,
    /,
    *more: Module,
    queue: Annotated[list[str] | None, Parameter(name="--queue")] = None,
    namespace: str = "default",
    processes: int = 1,
    max_activities: int = 100,
    max_processes: int | None = None,
    max_cached_runs: int = 10_000,
    max_cached_mb: int = 512,
    build_id: str | None = None,
    grace: float = 30.0,
    reload: bool = False,
    remote: Remote = ANYWHERE,
    output: Output = TEXT,
) -> int:
    """Run workflows and activities of modules for a node elsewhere, until SIGINT or SIGTERM.

    The processes are watched: one that dies is replaced. Asked to stop they take nothing more and let activities end; asked twice they cut
    short what still runs. While the node is away they wait for it.

    Args:
        module: What the workers can run: a dotted name or a path to a .py file.
        more: More of them.
        queue: A task queue to serve. Repeat it for more. When left out: "default" and those the code names.
        namespace: The namespace asked for when connecting.
        processes: Worker processes, each with a connection and a processor of its own.
        max_activities: Activities each process runs at once.
        max_processes: Child processes each may have for process activities; when left out, as many as there are processors.
        max_cached_runs: Runs each holds warm.
        max_cached_mb: MiB those may weigh together, as it is estimated from their histories.
        build_id: The build its decisions are recorded under; when left out, a hash of the code.
        grace: Seconds running activities may take to end when the workers stop.
        reload: Start again whenever a source file changes.
    """
    from perdure.cli.workers.messages import Plan
    from perdure.cli.workers.supervisor import Supervisor
    from perdure.core.errors import BY_CODE, PerdureError
    from perdure.runtime.signals import heed
    from perdure.sdk.duration import length
    from perdure.sdk.options import identifier, positive, whole

    whole(processes, "--processes", 1, PROCESSES_MAX)
    positive("--max-activities", max_activities)
    positive("--max-cached-runs", max_cached_runs)
    positive("--max-cached-mb", max_cached_mb)
    if max_processes is not None:
        positive("--max-processes", max_processes)
    if build_id is not None:
        identifier(build_id, "--build-id")
    plan = Plan(
        modules=(module, *more),
        address=remote.address,
        api_key=remote.api_key,
        ca=None if remote.ca is None else str(remote.ca),
        namespace=identifier(namespace, "--namespace"),
        queues=tuple(identifier(each, "--queue") for each in queue or ()),
        build_id=build_id,
        max_activities=max_activities,
        max_processes=max_processes,
        max_cached_runs=max_cached_runs,
        max_cached_bytes=max_cached_mb << 20,
        grace=length(grace, "--grace") / 1_000_000,
        reload=reload,
    )
    supervisor = Supervisor(plan, processes, lambda loaded, address, pids: _announce(loaded, address, pids, output))
    for number in (signal.SIGINT, signal.SIGTERM):
        heed(number, supervisor.stop)
    code, fault = await supervisor.run()
    if fault is not None:
        complain(BY_CODE.get(fault.name, PerdureError)(fault.message), as_json=output.is_json)
    return code


def _announce(loaded: "ms.Loaded", address: str, pids: Sequence[int], output: Output) -> None:
    from perdure import __version__
    from perdure.cli.show import emit, text

    facts: dict[str, Any] = {
        "version": __version__,
        "address": address,
        "build_id": loaded.build_id,
        "queues": loaded.queues,
        "workflows": loaded.workflows,
        "activities": loaded.activities,
        "pids": pids,
    }
    if output.is_json:
        emit(facts, "jsonl")
        return
    text(f"perdure {facts['version']} works for {address} (build {loaded.build_id})")
    for name in ("workflows", "activities", "queues", "pids"):
        text(f"  {name:<11}{', '.join(map(str, facts[name])) or '–'}")
    if not loaded.workflows and not loaded.activities:
        say("perdure: the modules hold neither workflows nor activities")
