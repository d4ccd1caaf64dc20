"""From what was typed to a client: through the node that is named, or runs on a data directory; else from its journal, read only.

The first of these that there is: `--address`, a node that runs on the data directory, a journal that nobody holds there, and, when no
directory was named either, this machine's usual port.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from perdure.cli.options import Place
from perdure.core.errors import Unavailable
from perdure.remote import connect
from perdure.runtime.chance import RealChance
from perdure.sdk.client import Client
from perdure.sdk.options import identifier
from perdure.server.place import announced
from perdure.wire.address import DEFAULT
from perdure.wire.remote_frontend import RemoteFrontend

HERE: Final = Path("perdure-data")
CONNECT_S: Final = 5.0
GUESS_S: Final = 0.5
"""So long may a node take to answer that nobody has named."""
GONE_S: Final = 10.0
"""So long does a command that waits for a result wait for a node that went away: a restart is shorter."""


@asynccontextmanager
async def connected(place: Place) -> AsyncIterator[Client]:
    """A client of the runs in a place. Raises `Unavailable` when there is neither a node nor a journal that nobody holds, and what a
    node's gate says."""
    client = await _reached(place, identifier(place.namespace, "namespace"))
    try:
        yield client
    finally:
        await client.close()


async def _reached(place: Place, namespace: str) -> Client:
    if place.address is not None:
        return await _connected(place, place.address, namespace, CONNECT_S)
    from perdure.cli.stopped import StoppedFrontend, holder_of

    data = place.data or HERE
    holder, said = holder_of(data), announced(data)
    if holder is not None and said is not None and said.pid == holder:
        return await _connected(place, said.url, namespace, CONNECT_S, key=said.key, ca=said.ca)
    if holder is not None:
        raise Unavailable(
            f"{data} is in use by process {holder}, which takes no commands: either it is just starting or stopping, or it is a "
            f"program's own embedded node (commands go to nodes started with `perdure dev` or `perdure server`)"
        )
    if (data / "journal").is_dir():
        stopped = StoppedFrontend(data)
        return Client(stopped, RealChance(), namespace, close=stopped.close)
    advice = f"start a node with: perdure dev MODULE --data {data} (or say where it is: --address URL, --data DIR)"
    if place.data is not None:
        raise Unavailable(f"there is no node and no journal at {data}; {advice}")
    try:
        return await _connected(place, DEFAULT, namespace, GUESS_S)
    except Unavailable:
        raise Unavailable(f"there is no node and no journal at {data}, and no node at {DEFAULT}; {advice}") from None


async def _connected(place: Place, address: str, namespace: str, timeout: float, *, key: str = "", ca: str = "") -> Client:
    """`key` and `ca` are what a node's own directory says; what was typed counts elsewhere."""
    client = await connect(address, key or place.api_key, namespace, ca=ca or place.ca, timeout=timeout)
    frontend = client.frontend
    if isinstance(frontend, RemoteFrontend):
        frontend.result_patience_s = GONE_S
        frontend.asker.stands = _unheard
    return client


def _unheard(_why: str, _refused: bool) -> None:
    """A command says one thing, at its end."""
