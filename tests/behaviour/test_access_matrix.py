"""Every route of a node, asked over real HTTP by every role, by nobody and by somebody with a wrong key.

The list is the application's own route table: a route that is new is asked in the same way without a line here.
"""

import asyncio
import itertools
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
import websockets

from perdure.core.principal import ROLES, Role
from perdure.node import embedded
from perdure.runtime.api_key import hash_of, new_api_key
from perdure.runtime.chance import RealChance
from perdure.runtime.settings.tree import AccessSettings, KeySettings, ServerSettings, Settings
from perdure.server.front_door import FrontDoor
from perdure.server.route import Route

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Shared by all requests: loading certificates for each would take most of the time."""
OPEN = {"healthz", "readyz", "health", "openapi", "docs"}
"""Routes before which the gate does not stand: probes and the API's description."""
ANY_ROLE = {"wire"}
"""Those that let in whoever has a key, and look at each thing asked by itself."""
KEYS = {role: new_api_key() for role in ROLES}
ADDRESSES = (f"127.{a}.{b}.{c}" for a, b, c in itertools.product(range(1, 200), range(1, 200), range(1, 200)))
"""One of its own for each wrong key, so that none of them is made to wait."""


@asynccontextmanager
async def opened(data: Path, *, with_keys: bool = True, origins: tuple[str, ...] = ()) -> AsyncIterator[FrontDoor]:
    node = embedded(data)
    keys = {role: KeySettings(hash=hash_of(key), role=role) for role, key in KEYS.items()} if with_keys else {}
    settings = Settings(server=ServerSettings(port=0, grace_s=1.0, origins=origins), access=AccessSettings(keys=keys))
    door = FrontDoor.of_engine(node.frontend, settings, node.clock, RealChance(), data=data)
    async with node, door:
        yield door


async def status(door: FrontDoor, route: Route, headers: dict[str, str]) -> int:
    """What a request is answered with; 101 for a WebSocket that was let in, 200 for a stream that began."""
    url = door.url + re.sub(r"\{\w+\}", "x", route.path)
    if route.method == "WEBSOCKET":
        try:
            async with websockets.connect(url.replace("http", "ws", 1), additional_headers=headers):
                return 101
        except websockets.InvalidStatus as refused:
            return refused.response.status_code
    transport = httpx2.AsyncHTTPTransport(local_address=next(ADDRESSES), verify=NO_TLS)
    body = {"json": {}} if route.body is not None else {}
    async with (
        httpx2.AsyncClient(transport=transport) as client,
        client.stream(route.method, url, headers=headers, **body) as response,
    ):
        return response.status_code


def needs_key(route: Route) -> bool:
    return route.name not in OPEN


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def test_every_role_reaches_what_it_may_and_nothing_else(tmp_path: Path) -> None:
    """403 for a role that lacks the route's permission, 401 without a key or with a wrong one; probes ask for none."""
    async with opened(tmp_path) as door:
        assert len(door.app.routes) > 20
        assert {route.name for route in door.app.routes if route.permission is None} == OPEN | ANY_ROLE
        wrong: list[object] = []
        for route in door.app.routes:
            for role in ROLES:
                found = await status(door, route, bearer(KEYS[role]))
                is_let_in = found not in {401, 403, 429, 500}
                if is_let_in != (route.permission is None or route.permission in ROLES[role]) or found == 500:
                    wrong.append((route.method, route.path, role, found))
            for name, headers in {"nobody": {}, "stranger": bearer(new_api_key())}.items():
                found = await status(door, route, headers)
                if (found == 401) != needs_key(route):
                    wrong.append((route.method, route.path, name, found))
        assert wrong == []


async def test_a_page_of_another_origin_reaches_nothing(tmp_path: Path) -> None:
    """Neither without keys, nor under a name that was made to lead here; probes tell nothing worth keeping."""
    async with opened(tmp_path, with_keys=False) as door:
        for route in door.app.routes:
            expected = needs_key(route)
            for headers in ({"origin": "http://evil.example"}, {"host": "evil.example"}):
                if route.method == "WEBSOCKET" and "host" in headers:
                    continue  # the client sends its own
                assert ((await status(door, route, headers)) == 403) == expected, (route.path, headers)
            assert await status(door, route, {"origin": door.url}) != 403


async def test_pages_of_an_origin_that_was_named_may_ask_and_read(tmp_path: Path) -> None:
    """The browser asks first, and is told yes; for any other page it is not."""
    path, origin = "/api/v1/workflows/x", "https://ui.example"
    async with opened(tmp_path, origins=(origin,)) as door, httpx2.AsyncClient(base_url=door.url) as client:
        asks = {"access-control-request-method": "GET", "access-control-request-headers": "authorization"}
        assert (await client.options(path, headers={"origin": origin, **asks})).status_code == 200
        assert (await client.options(path, headers={"origin": "https://evil.example", **asks})).status_code == 400
        told = await client.get(path, headers={"origin": origin, **bearer(KEYS["admin"])})
        assert (told.status_code, told.headers["access-control-allow-origin"]) == (404, origin)
        refused = await client.get(path, headers={"origin": "https://evil.example", **bearer(KEYS["admin"])})
        assert (refused.status_code, "access-control-allow-origin" in refused.headers) == (403, False)


async def test_unknown_keys_in_a_row_are_answered_with_when_to_come_back(tmp_path: Path) -> None:
    """429, the code of whatever is overloaded, and Retry-After in whole seconds; the known key from the same address goes through."""
    async with opened(tmp_path) as door, httpx2.AsyncClient(base_url=door.url) as client:
        path = "/api/v1/workflows/x"
        found = [(await client.get(path, headers=bearer("pdk_wrong"))) for _ in range(6)]
        assert [one.status_code for one in found] == [401] * 5 + [429]
        assert found[0].headers["www-authenticate"] == "Bearer"
        assert int(found[-1].headers["retry-after"]) >= 1
        assert found[-1].json()["error"]["code"] == "RESOURCE_EXHAUSTED"
        assert (await client.get(path, headers=bearer(KEYS["admin"]))).status_code == 404


@pytest.mark.parametrize("role", ROLES)
async def test_who_may_not_is_told_what_it_takes(tmp_path: Path, role: Role) -> None:
    """The name of the key, its role, and the roles that may; nothing of the key itself."""
    async with opened(tmp_path) as door, httpx2.AsyncClient(base_url=door.url) as client:
        told = await client.get("/api/v1/workflows/x", headers=bearer(KEYS[role]))
        if "read" in ROLES[role]:
            assert told.status_code == 404
        else:
            assert told.json()["error"]["message"] == (
                f"the key {role!r} has the role {role}, which may not read: it takes admin or operator or read-only"
            )
        assert KEYS[role][4:] not in told.text


async def test_the_local_key_is_an_admin_s(tmp_path: Path) -> None:
    """For commands of whoever may read the directory, and only for this life of the node."""
    async with opened(tmp_path) as door, httpx2.AsyncClient(base_url=door.url) as client:
        first = door.local_key
        assert (await client.get("/api/v1/workflows/x", headers=bearer(first))).status_code == 404
    async with opened(tmp_path) as door, httpx2.AsyncClient(base_url=door.url) as client:
        assert (await client.get("/api/v1/workflows/x", headers=bearer(first))).status_code == 401


async def test_a_node_that_cannot_listen_leaves_nothing(tmp_path: Path) -> None:
    """Neither the word in its directory, nor a task."""
    from perdure.errors import Unavailable

    before = asyncio.all_tasks()
    async with opened(tmp_path / "one") as door:
        node = embedded(tmp_path / "two")
        other = FrontDoor.of_engine(
            node.frontend, Settings(server=ServerSettings(port=door.port)), node.clock, RealChance(), data=tmp_path / "two"
        )
        async with node:
            with pytest.raises(Unavailable, match="is taken by a perdure node"):
                await other.start()
            await other.stop()
            assert not (tmp_path / "two" / "server.json").exists()
    assert asyncio.all_tasks() == before
