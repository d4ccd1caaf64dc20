"""`perdure journal …`: what a data directory holds. Works through the node that runs there, or on its files when none does."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from perdure.cli.exits import OK

app = App(name="journal", help="Work with a data directory.")


@app.command
async def export(
    data: Path,
    id: str | None = None,
    /,
    *,
    run: Annotated[str | None, Parameter(name="--run")] = None,
    namespace: str = "default",
) -> int:
    """Print runs as lines under checksums, for `replay` and for keeping: one run's header, events, notes and footer after the other.

    Args:
        data: The data directory.
        id: A workflow id; every run of the namespace when left out.
        run: One run of it; its current one when left out.
        namespace: The namespace the runs are in.
    """
    from perdure.cli.connection import connected
    from perdure.cli.options import Place
    from perdure.cli.show import write
    from perdure.core.errors import InvalidArgument, NotFound
    from perdure.sdk.options import identifier
    from perdure.store.export import lines_of

    if run is not None and id is None:
        raise InvalidArgument("--run needs the workflow id it is a run of")
    if not (data / "journal").is_dir():
        raise NotFound(f"there is no journal at {data}")
    async with connected(Place(data=data, namespace=namespace)) as client:
        if id is not None:
            wanted = [(identifier(id, "workflow id"), run or "")]
        else:
            wanted = [(row.workflow_id, row.run_id) async for row in client.list(limit=1_000)]
        for workflow_id, run_id in reversed(wanted):
            for line in lines_of(namespace, await client.frontend.record(namespace, workflow_id, run_id)):
                write(line)
    return OK
