"""`perdure workflow update`: ask a run's code for something and print its answer."""

from typing import TYPE_CHECKING, Any

from perdure.cli.exits import FAILED, OK, REFUSED, say, shown
from perdure.cli.options import Output, Place
from perdure.cli.typed import HERE, TEXT, Json, Run, identified, payloads

if TYPE_CHECKING:
    from perdure.core.replies import UpdateResult


async def update(
    id: str,
    name: str,
    /,
    *,
    input: Json = None,
    update_id: str | None = None,
    run: Run = None,
    accepted: bool = False,
    place: Place = HERE,
    output: Output = TEXT,
) -> int:
    """Ask a run's code for something and print its answer, as JSON. Exits with 5 when it refuses, with 1 when it fails.

    Args:
        id: The workflow id.
        name: The update's name.
        input: One argument, as JSON. Repeat it for more.
        update_id: The same update id to the same workflow id is carried out once, and answered the same.
        run: A run of it; the current one when left out.
        accepted: Do not wait for the answer, only until it is accepted and on disk.
    """
    from perdure.cli.connection import connected

    values = payloads(input)
    async with connected(place) as client:
        request, _ = client.update_request(identified(id), run or "", name, tuple(values), update_id, None)
        found: UpdateResult = await client.frontend.call(request)
        if found.status == "accepted" and not accepted:
            found = await client.frontend.update_result(client.namespace, id, found.run_id, found.update_id)
    return _tell(id, name, found, output)


def _tell(id: str, name: str, found: "UpdateResult", output: Output) -> int:
    from perdure.cli.show import emit, write
    from perdure.core.payload import NULL, is_absent

    value = NULL if is_absent(found.result) else found.result
    if output.is_json:
        told: dict[str, Any] = {
            "workflow_id": id,
            "run_id": found.run_id,
            "update_id": found.update_id,
            "status": found.status,
        }
        if found.status == "completed":
            told["result"] = value
        if found.failure is not None:
            told["failure"] = found.failure
        emit(told, output.output)
    elif found.status == "completed":
        write(bytes(value))
    elif found.status == "accepted":
        say(f"{shown(id)}: update {shown(found.update_id)!r} accepted")
    if found.failure is None:
        return OK
    if not output.is_json:
        why = f"{found.failure.type}: {found.failure.message}".removesuffix(": ")
        end = "was refused" if found.status == "rejected" else "has failed"
        say(f"perdure: update {shown(name)!r} of workflow {shown(id)!r} {end}: {shown(why)}")
    return REFUSED if found.status == "rejected" else FAILED
