"""Who listens on a port that is wanted: asked of it, when it is a node of perdure, so that the error can say so."""

import asyncio
import errno
import json
import urllib.request
from typing import Final

from perdure.core.errors import Unavailable
from perdure.server.place import within_reach

ASK_S: Final = 1.0
"""So long may it take to say what it is."""
ANSWER_BYTES_MAX: Final = 10_000


async def explained(error: Unavailable, host: str, port: int) -> Unavailable:
    """The error of listening there; for a port that is taken one that says by what, and what helps."""
    cause = error.__cause__
    if not isinstance(cause, OSError) or cause.errno != errno.EADDRINUSE:
        return error
    holder = await asyncio.to_thread(_holder, host, port)
    return Unavailable(f"port {port} of {host} is taken by {holder}; choose another with --port N (0: any that is free)")


def _holder(host: str, port: int) -> str:
    near = within_reach(host)
    url = f"http://{f'[{near}]' if ':' in near else near}:{port}/health"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=ASK_S) as answer:
            version = json.loads(answer.read(ANSWER_BYTES_MAX))["version"]
    except (OSError, ValueError, KeyError, TypeError):
        return "another program"
    return f"a perdure node, version {str(version)[:40]}"
