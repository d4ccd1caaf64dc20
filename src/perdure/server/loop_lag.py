"""How long the event loop makes everyone wait: measured when somebody asks, never in between."""

import asyncio


async def lag_s() -> float:
    """How long the event loop takes for a turn just now, in seconds."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.sleep(0)
    return loop.time() - began
