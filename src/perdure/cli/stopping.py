"""Stopping a node that a command runs: in order, unless it has failed, for then it keeps nobody waiting."""

import asyncio
import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from perdure.node import Node

FAILED_GRACE_S: Final = 2.0
"""A node that cannot write keeps nothing that an activity still brings."""

log: Final = logging.getLogger(__name__)


async def stop_node(node: "Node") -> None:
    """Returns when it has stopped. Raises what stopping a node that was well raises; a failed one may fail at stopping too."""
    is_broken = node.frontend.fault is not None
    try:
        async with asyncio.timeout(FAILED_GRACE_S if is_broken else None):
            await node.stop()
    except (TimeoutError, Exception) as error:
        if not is_broken:
            raise
        log.debug("stopping the failed node failed too: %r", error)
