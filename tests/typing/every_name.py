# pyright: strict
"""One program that uses every public name. Lines marked `# error` must be type errors, all others must not; never run, only read."""

import asyncio
from datetime import datetime, timedelta
from typing import Any, assert_type

import perdure
from perdure import (
    AdmissionRules,
    Client,
    Handle,
    Interceptor,
    Limits,
    OriginQuota,
    PayloadCodec,
    Retry,
    SyncClient,
    Worker,
    activity,
    connect,
    workflow,
)
from perdure.codecs import AesGcm, Chain, Zstd, decoded
from perdure.errors import (
    ActivityError,
    AlreadyExists,
    ApplicationError,
    ChildWorkflowError,
    CodecError,
    HistoryDamaged,
    InvalidArgument,
    LimitExceeded,
    NondeterminismError,
    NotFound,
    OutsideContext,
    PayloadTooLarge,
    PerdureError,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    WorkflowAlreadyStarted,
    WorkflowCancelled,
    WorkflowClosed,
    WorkflowFailed,
    WorkflowTerminated,
    WorkflowTimedOut,
)
from perdure.interceptors import ActivityCall, ClientCall, WorkflowCall
from perdure.sdk.stack import WorkflowStack
from perdure.testing import Environment, StuckError, environment


@activity(retry=Retry(non_retryable=(InvalidArgument, "Declined")), start_to_close=timedelta(seconds=3))
async def charge(cents: int) -> str:
    info = activity.info()
    assert_type(info.workflow_id, str)
    assert_type(info.run_id, str)
    assert_type(info.activity_id, int)
    assert_type(info.attempt, int)
    assert_type(info.queue, str)
    assert_type(info.idempotency_key, str)
    assert_type(info.task_token, str)
    info.attempt = 3  # error
    return str(cents)


@workflow(retry=Retry(max_attempts=3))
async def sells(cents: int) -> str:
    info = workflow.info()
    assert_type(info.namespace, str)
    assert_type(info.workflow_id, str)
    assert_type(info.run_id, str)
    assert_type(info.type, str)
    assert_type(info.queue, str)
    assert_type(info.attempt, int)
    assert_type(info.history_length, int)
    assert_type(info.history_bytes, int)
    assert_type(info.continue_as_new_suggested, bool)
    child: perdure.ChildHandle[str] = await workflow.start_child(sells(cents - 1))
    assert_type(child.id, str)
    assert_type(child.run_id, str)
    print(info.colour)  # error
    return await charge(cents) + await child


async def connects() -> None:
    async with await connect("http://127.0.0.1:7373", "key", "default", codec=Zstd(), timeout=3, ca="ca.pem") as client:
        assert_type(client, Client)
        handle: Handle[str] = await client.start(sells(3))
        assert_type(await handle.stack(), WorkflowStack)
        assert_type(str(await handle.stack()), str)
        assert_type((await handle.stack()).lines(), list[str])
        assert_type((await handle.stack()).standstill, tuple[str, ...])
        assert_type((await handle.stack()).waits_for[0].attempts_max, int)
        assert_type((await handle.describe()).pending[0].since, datetime | None)
        print((await handle.stack()).colour)  # error
        await handle.stack("all")  # error
    worker = Worker(client, queue=["a", "b"], workflows=[sells], activities=[charge], max_cached_runs=3, max_cached_bytes=3)
    async with asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        worker.stop()
    await client.close()
    await client.close(3)  # error
    worker.stop("now")  # error
    await worker.run(3)  # error
    await connect(3)  # error
    await connect(timeout="3")  # error
    await connect(codec=Zstd)  # error
    await connect(colour="red")  # error
    connect().start(sells(3))  # error


class Plain:
    def encode(self, data: bytes, /) -> bytes:
        return data

    def decode(self, data: bytes, /) -> bytes:
        return data


class Noting(Interceptor):
    async def call(self, call: ClientCall, next: Any) -> Any:
        assert_type(call.workflow_id, str)
        return await next(call)

    async def execute_activity(self, call: ActivityCall, next: Any) -> Any:
        assert_type(call.name, str)
        return await next(call)

    async def execute_workflow(self, call: WorkflowCall, next: Any) -> Any:
        assert_type(call.args, tuple[Any, ...])
        print(call.colour)  # error
        return await next(call)


def edges() -> None:
    codec: PayloadCodec = Chain(Plain(), Zstd(), AesGcm({"k": AesGcm.generate_key()}, current="k"))
    perdure.embedded(
        "data",
        codec=codec,
        interceptors=[Noting()],
        limits=Limits(payload_bytes_max=3),
        admission=AdmissionRules(origins={"v": OriginQuota(starts_per_second=1)}),
    )
    assert_type(decoded(3, codec), int)
    wrong: PayloadCodec = Noting()  # error
    decoded(3, Noting())  # error
    print(wrong)


def judged(error: PerdureError) -> str:
    assert_type(error.code, str)
    assert_type(error.message, str)
    if isinstance(error, ApplicationError):
        assert_type(error.details, object)
    elif isinstance(error, ActivityError | ChildWorkflowError):
        assert_type(error.name, str)
    elif isinstance(error, WorkflowAlreadyStarted | HistoryDamaged):
        assert_type(error.run_id, str)
    elif isinstance(error, ResourceExhausted):
        assert_type(error.retry_after, float)
    elif isinstance(error, InvalidArgument):
        assert_type(error.column, int)
    kinds = (
        AlreadyExists, CodecError, LimitExceeded, NondeterminismError, NotFound, OutsideContext, PayloadTooLarge, PermissionDenied,
        Unauthenticated, Unavailable, WorkflowCancelled, WorkflowClosed, WorkflowFailed, WorkflowTerminated, WorkflowTimedOut,
    )  # fmt: skip
    for kind in kinds:
        assert_type(kind.code, str)
    raise ResourceExhausted("full", retry_after="3")  # error


async def tests() -> None:
    async with environment() as env:
        assert_type(env, Environment)
        env.register(sells, charge)
        try:
            await env.client.execute(sells(3))
        except StuckError as error:
            print(error)
    print(perdure.testing.environment(seed=3))
    perdure.testing.environment(colour="red")  # error
    print(perdure.errors.Unavailable("x"), perdure.interceptors.ActivityCall, perdure.codecs.Zstd())
    print(perdure.errors.Unavailable("x").colour)  # error
    print(perdure.errors.Nothing)  # error
    print(perdure.interceptors.Nothing)  # error
    print(perdure.codecs.Nothing)  # error


def synchronous(sync: SyncClient, worker: Worker) -> None:
    worker.run_forever()
    sync.close()
    assert_type(sync.execute(sells(3)), str)
    sync.execute(sells("3"))  # error
