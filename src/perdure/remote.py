"""`perdure.connect` and `perdure.SyncClient`: clients of a node in another process. Loads neither engine nor store."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from perdure.core.errors import InvalidArgument
from perdure.runtime.chance import RealChance
from perdure.runtime.clock import RealClock
from perdure.sdk.client import Client
from perdure.sdk.codecs import Codec
from perdure.sdk.coded import coded
from perdure.sdk.context import refuse_in_workflow
from perdure.sdk.intercepted import intercepted
from perdure.sdk.interceptors import Interceptor, interceptors_of
from perdure.sdk.options import identifier
from perdure.sdk.sync_client import SyncCaller
from perdure.wire.address import DEFAULT, address_of
from perdure.wire.remote_frontend import RemoteFrontend

ADDRESS: Final = "PERDURE_ADDRESS"
API_KEY: Final = "PERDURE_API_KEY"


async def connect(
    address: str | None = None,
    api_key: str | None = None,
    namespace: str = "default",
    *,
    codec: Codec = None,
    interceptors: Sequence[Interceptor] = (),
    timeout: float = 5.0,
    ca: str | Path | None = None,
) -> Client:
    """A client of the node at `address` (`http://host:port` or `https://…`; without one `PERDURE_ADDRESS`, else this machine's port 7373).

    `api_key` (else `PERDURE_API_KEY`) says who is asking; `ca` is a file of certificates to trust for `https`. `codec` encodes and decodes
    every payload, `interceptors` stand around the client's calls (the first outermost).

    The client reconnects by itself, for ever: waits for results outlive restarts of the node, requests are sent again until they are
    answered, each carried out once. Close it with `await client.close()` or use it with `async with`; it belongs to the running loop.

    Raises `Unavailable` when no node has answered for `timeout` seconds, `PermissionDenied` when the key is refused, `InvalidArgument` for
    what can be no address.
    """
    refuse_in_workflow("perdure.connect()")
    _seconds(timeout)
    where = address_of(address or os.environ.get(ADDRESS) or DEFAULT, ca)
    interceptors = interceptors_of(interceptors)
    frontend = RemoteFrontend(where, api_key or os.environ.get(API_KEY) or None, RealClock(), RealChance())
    try:
        await frontend.open(timeout)
        seen: Any = coded(frontend, codec)
        return Client(intercepted(seen, interceptors), RealChance(), namespace, close=frontend.close)
    except BaseException:
        await frontend.close()
        raise


class SyncClient(SyncCaller):
    """The client for code that does not await: the names of `Client` without await, of the node at `address` as `connect` takes it.

    It connects with the first call, or at once as a context manager, and reconnects by itself. Any thread may use it, any number at once;
    `close()` or the `with` block ends it. Calls block: where an event loop runs on the calling thread they raise `RuntimeError`, in
    workflow code `NondeterminismError`. Ctrl-C leaves a waiting call and touches nothing. The child of a fork connects anew.

    Making one raises `InvalidArgument` for what can be no address; calls raise what those of `Client` do, and `Unavailable` when no node
    has answered for `timeout` seconds.
    """

    def __init__(
        self,
        address: str | None = None,
        api_key: str | None = None,
        namespace: str = "default",
        *,
        codec: Codec = None,
        interceptors: Sequence[Interceptor] = (),
        timeout: float = 5.0,
        ca: str | Path | None = None,
    ) -> None:
        refuse_in_workflow("perdure.SyncClient()")
        address_of(address or os.environ.get(ADDRESS) or DEFAULT, ca)
        identifier(namespace, "namespace")
        self._connecting: dict[str, Any] = {
            "address": address,
            "api_key": api_key,
            "namespace": namespace,
            "codec": codec,
            "interceptors": interceptors_of(interceptors),
            "timeout": _seconds(timeout),
            "ca": ca,
        }
        super().__init__()

    async def _open(self) -> Client:
        return await connect(**self._connecting)

    async def _shut(self, client: Client) -> None:
        await client.close()


def _seconds(timeout: Any) -> float:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < float("inf"):
        raise InvalidArgument(f"timeout must be a positive number of seconds, not {timeout!r}")
    return timeout
