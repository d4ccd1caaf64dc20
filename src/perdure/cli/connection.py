"""From a data directory to a client: through the socket of the node that runs there, or, when none does, to its journal, read only."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.cli.options import Place
from perdure.core.errors import Unavailable
from perdure.runtime.chance import RealChance
from perdure.runtime.clock import RealClock
from perdure.sdk.client import Client
from perdure.sdk.options import identifier
from perdure.server.local import SOCKET
from perdure.server.local_frontend import LocalFrontend

if TYPE_CHECKING:
    from perdure.cli.stopped import StoppedFrontend


@asynccontextmanager
async def connected(place: Place) -> AsyncIterator[Client]:
    """A client of the runs in a place. Raises `Unavailable` when there is neither a node nor a journal that nobody holds."""
    namespace = identifier(place.namespace, "namespace")
    frontend = await _reached(place.data)
    try:
        yield Client(frontend, RealChance(), namespace)
    finally:
        await frontend.close()


async def _reached(data: Path) -> "LocalFrontend | StoppedFrontend":
    try:
        return await LocalFrontend.connect(data / SOCKET, RealClock())
    except Unavailable:
        from perdure.cli.stopped import StoppedFrontend, holder_of

        holder = holder_of(data)
        if holder is not None:
            raise Unavailable(
                f"{data} is in use by process {holder}, which takes no commands: either it is just starting or stopping, or it is a "
                f"program's own embedded node (commands go to nodes started with `perdure dev`)"
            ) from None
        if not (data / "journal").is_dir():
            raise Unavailable(
                f"there is no node and no journal at {data}; start a node with: perdure dev MODULE --data {data} "
                f"(or say where it is: --data DIR, PERDURE_DATA)"
            ) from None
        return StoppedFrontend(data)
