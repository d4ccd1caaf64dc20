"""`perdure workflow query`: asks a run what its code says of itself, and prints the answer as the JSON it is."""

from perdure.cli.exits import FAILED, OK, complain, say, shown
from perdure.cli.options import Output, Place
from perdure.cli.typed import HERE, TEXT, Json, Run, identified, payloads


async def query(
    id: str,
    name: str,
    /,
    *,
    input: Json = None,
    timeout: float = 10.0,
    run: Run = None,
    place: Place = HERE,
    output: Output = TEXT,
) -> int:
    """Ask a run, open or closed, and print the answer as JSON. Nothing is recorded. Exits with 1 when the query itself raised.

    Args:
        id: The workflow id.
        name: The query's name.
        input: One argument, as JSON. Repeat it for more.
        timeout: Seconds to wait for a worker (exit code 6).
        run: A run of it; the current one when left out.
    """
    from perdure.cli.connection import connected
    from perdure.cli.show import emit, write
    from perdure.core.errors import PerdureError
    from perdure.core.queries import Query
    from perdure.sdk.duration import length
    from perdure.sdk.failures import to_exception
    from perdure.sdk.options import identifier

    values = payloads(input)
    async with connected(place) as client:
        reply = await client.frontend.query(
            Query(
                namespace=client.namespace,
                workflow_id=identified(id),
                run_id="" if run is None else identifier(run, "run id"),
                name=identifier(name, "query name"),
                input=tuple(values),
                timeout=length(timeout, "timeout"),
            )
        )
    if reply.failure is not None:
        raised = to_exception(reply.failure)
        if isinstance(raised, PerdureError) and reply.failure.module == PerdureError.__module__:
            return complain(raised, as_json=output.is_json)
        if output.is_json:
            emit({"workflow_id": id, "failure": reply.failure}, output.output)
        else:
            say(f"perdure: query {shown(name)} raised {shown(reply.failure.type)}: {shown(reply.failure.message)}")
        return FAILED
    if output.is_json:
        emit({"workflow_id": id, "result": reply.result}, output.output)
    else:
        write(bytes(reply.result))
    return OK
