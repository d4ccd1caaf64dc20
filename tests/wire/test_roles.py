"""Every request there is, sent over the wire by every role: made from the unions themselves, so that a new one is in it by itself."""

import asyncio
import gc
import types
from functools import partial
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
import pytest
from msgspec import Raw, Struct

import perdure
from perdure.core import requests as rq
from perdure.core.principal import ROLES, Principal, Role
from perdure.errors import PermissionDenied
from perdure.runtime.api_key import hash_of
from perdure.runtime.clock import RealClock
from perdure.server.access import Gate, KnownKey

CLIENTS: set[type[Struct]] = {*get_args(rq.ClientRequest)}
WORKERS: set[type[Struct]] = {*get_args(rq.WorkerRequest)}
BY_TOKEN: set[type[Struct]] = {rq.FinishActivity, rq.HeartbeatActivity}
"""Whoever holds a task token may use it: clients and workers."""


def some(kind: Any) -> Any:
    """Any value of a type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return arguments[0]
    if origin in {Union, types.UnionType}:
        return some(arguments[0])
    if isinstance(kind, type) and issubclass(kind, Struct):
        return some_request(kind)
    return {str: "x", int: 1, float: 1.0, bool: False, bytes: b"", Raw: Raw(b"null"), tuple: (), dict: {}}[origin or kind]


def some_request(kind: type[Struct]) -> Any:
    """Each about a workflow of its own, so that none waits for what another began."""
    given = {"workflow_id": kind.__name__} if "workflow_id" in kind.__struct_fields__ else {}
    return kind(**{field.name: some(field.type) for field in msgspec.structs.fields(kind) if field.required} | given)


def may(role: Role, kind: type[Struct]) -> bool:
    permissions = ROLES[role]
    return (kind in CLIENTS and "operate" in permissions) or (kind in WORKERS | BY_TOKEN and "work" in permissions)


async def is_refused(client: perdure.Client, request: Any) -> bool:
    """True when the role is the reason; what else is said of such a request does not matter here."""
    answered: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

    def settle(done: "asyncio.Future[BaseException | None]", _: Any, error: BaseException | None) -> None:
        done.set_result(error)

    client.frontend.send(request, partial(settle, answered))
    error = await answered
    return isinstance(error, PermissionDenied) and "has the role" in str(error)


@pytest.mark.parametrize("role", ROLES)
async def test_each_request_takes_its_permission(serve: Any, role: Role) -> None:
    """Client requests `operate`, those of workers `work`, and a task token either."""
    gate = Gate([KnownKey(Principal(role, role), hash_of("key"))], RealClock())
    async with serve(gate=gate) as node, await perdure.connect(node.url, "key") as client:
        found = {kind: not await is_refused(client, some_request(kind)) for kind in CLIENTS | WORKERS}
        assert found == {kind: may(role, kind) for kind in CLIENTS | WORKERS}


@pytest.mark.parametrize("role", ROLES)
async def test_reads_take_theirs(serve: Any, role: Role) -> None:
    """Looking at runs takes `read`, which a worker has not."""
    gate = Gate([KnownKey(Principal(role, role), hash_of("key"))], RealClock())
    async with serve(gate=gate) as node, await perdure.connect(node.url, "key") as client:
        reads = [
            client.count(),
            client.list(),
            client.handle("x").describe(),
            client.handle("x").result(),
            client.handle("x").history(),
        ]
        for read in reads:
            try:
                await read
                refused = False
            except perdure.errors.PermissionDenied as error:
                refused = "may not read" in str(error)
            except perdure.errors.NotFound:
                refused = False
            assert refused == ("read" not in ROLES[role])


async def test_a_refused_connection_leaves_nothing_behind(serve: Any, caplog: pytest.LogCaptureFixture) -> None:
    """No future with an error that nobody has asked for, which Python would complain of at some later time; no error in the node's log."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    async with serve(gate=Gate([KnownKey(Principal("ann", "admin"), hash_of("key"))], RealClock())) as node:
        with pytest.raises(perdure.errors.Unauthenticated):
            await perdure.connect(node.url, "nonsense")
        gc.collect()
        await asyncio.sleep(0)
    assert complaints == []
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
