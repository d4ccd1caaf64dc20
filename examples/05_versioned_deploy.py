"""Changing code under open runs: what waits keeps the old path, what is new takes the new one."""

import asyncio
import tempfile

import perdure
from perdure import activity, workflow


@activity
async def send_letter(customer: str) -> str:
    return f"letter to {customer}"


@activity
async def send_mail(customer: str) -> str:
    return f"mail to {customer}"


@workflow(name="remind")
async def remind_v1(customer: str) -> str:
    await workflow.receive("due")
    return await send_letter(customer)


@workflow(name="remind")
async def remind_v2(customer: str) -> str:
    by_mail = workflow.patched("mail instead of letters")  # decided once per run, at its first call
    await workflow.receive("due")
    return await (send_mail(customer) if by_mail else send_letter(customer))


async def main() -> None:
    with tempfile.TemporaryDirectory() as data:
        async with perdure.embedded(data) as app:  # version 1 is live …
            app.register(remind_v1, send_letter)
            await app.client.start(remind_v1("Ann"), id="ann")
        async with perdure.embedded(data) as app:  # … and replaced while Ann's run waits
            app.register(remind_v2, send_letter, send_mail)
            old = app.client.handle("ann", workflow=remind_v2)
            new = await app.client.start(remind_v2("Bob"), id="bob")
            for handle in (old, new):
                await handle.signal("due", None)
                print(await handle.result())
            # → letter to Ann
            # → mail to Bob
            markers = [event for event in await new.history() if event.type == "version_marked"]
            print("Bob's history says which path it took:", markers[0].change_id)
            # → Bob's history says which path it took: mail instead of letters


asyncio.run(main())
