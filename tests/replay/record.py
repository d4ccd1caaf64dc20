"""Records histories of today's version into `golden/`: `python tests/replay/record.py VERSION`. Run once for a release, never over again.

Without traceback texts: they name files of the machine that recorded, and replay never looks at them.
"""

import asyncio
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import workflows as code  # type: ignore[import-not-found]

import perdure
from perdure.errors import PerdureError
from perdure.sdk import tracebacks
from perdure.store.export import lines_of

GOLDEN = Path(__file__).parent / "golden"


async def record(directory: str) -> list[bytes]:
    async with perdure.embedded(directory) as app:
        app.register(*code.EVERYTHING)
        client = app.client
        order = await client.start(code.golden_order(code.Order("42", 999)), id="order")
        await order.signal("approve", True, signal_id="a")
        chain = await client.signal_with_start(code.golden_chain(2), "go", "1", id="chain", signal_id="g1")
        await chain.signal("go", "2", signal_id="g2")
        await chain.signal("go", "3", signal_id="g3")
        cancelled = await client.start(code.golden_cancelled(), id="cancelled")
        await cancelled.cancel("enough")
        late = await client.start(code.golden_waits(), id="late", timeout=0.01)
        cart = await client.start(code.GoldenCart.run(), id="cart")
        for number, update in enumerate(
            [code.GoldenCart.add("a"), code.GoldenCart.add(""), code.GoldenCart.weigh("b"), code.GoldenCart.close(fails=True)]
        ):
            with suppress(ValueError):
                await cart.update(update, update_id=f"u{number}")
            await cart.signal(code.GoldenCart.note(str(number)), signal_id=f"n{number}")
        await asyncio.gather(cart.update(code.GoldenCart.weigh("c")), cart.update(code.GoldenCart.weigh("d")))
        await cart.update(code.GoldenCart.close(fails=False))
        ended = await client.start(code.golden_waits(), id="terminated")
        await ended.terminate("by hand")
        listener = await client.signal_with_start(
            code.GoldenListener.run([]), code.GoldenListener.add("a"), id="listener", signal_id="l1"
        )
        await listener.signal("add", {"no": "item"}, signal_id="l2")
        await listener.signal(code.GoldenListener.add_labelled("b"), signal_id="l3")
        await listener.signal(code.GoldenListener.add("c", count=2), signal_id="l4")
        for handle in (
            listener,
            order,
            cart,
            chain,
            cancelled,
            late,
            ended,
            await client.start(code.golden_faults(), id="faults"),
            await client.start(code.golden_failed(), id="failed"),
        ):
            with suppress(PerdureError):
                await handle.result()
        lines: list[bytes] = []
        for run in [run async for run in client.list()]:
            lines += lines_of("default", await app.frontend.record("default", run.workflow_id, run.run_id))
        return lines


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch, tracebacks.left_out():
        target = GOLDEN / f"{sys.argv[1]}.jsonl"
        assert not target.exists(), f"{target} is there: what was recorded stays"
        target.write_bytes(b"".join(asyncio.run(record(scratch))))
