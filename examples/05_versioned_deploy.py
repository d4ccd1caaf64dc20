"""Changing code under open runs: what waits keeps the old path, what is new takes the new one."""

import asyncio
import tempfile

import perdure
from perdure import activity, workflow

welcomed = asyncio.Event()


@activity
async def send_letter(text: str) -> None:
    print("letter:", text)
    welcomed.set()


@activity
async def send_mail(text: str) -> None:
    print("mail:", text)


@workflow(name="remind")
async def remind_v1(customer: str) -> None:
    await send_letter(f"welcome {customer}")
    await workflow.receive("due")
    await send_letter(f"{customer}, it is due")


@workflow(name="remind")
async def remind_v2(customer: str) -> None:
    by_mail = workflow.patched("mail instead of letters")  # decided once per run; a run that began without it stays without it
    send = send_mail if by_mail else send_letter
    await send(f"welcome {customer}")
    await workflow.receive("due")
    await send(f"{customer}, it is due")


async def main() -> None:
    with tempfile.TemporaryDirectory() as data:
        async with perdure.embedded(data) as app:  # version 1 is live …
            app.register(remind_v1, send_letter)
            await app.client.start(remind_v1("Ann"), id="ann")
            await welcomed.wait()  # → letter: welcome Ann
        async with perdure.embedded(data) as app:  # … and is replaced while Ann's run waits
            app.register(remind_v2, send_letter, send_mail)
            ann = app.client.handle("ann", workflow=remind_v2)
            await ann.signal("due", None)
            await ann.result()  # → letter: Ann, it is due
            bob = await app.client.start(remind_v2("Bob"), id="bob")
            await bob.signal("due", None)
            await bob.result()
            # → mail: welcome Bob
            # → mail: Bob, it is due
            markers = [event for event in await bob.history() if event.type == "version_marked"]
            print("Bob's history says so:", markers[0].change_id)  # → Bob's history says so: mail instead of letters


if __name__ == "__main__":
    asyncio.run(main())
