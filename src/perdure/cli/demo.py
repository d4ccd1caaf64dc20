"""`perdure demo`: the command around `perdure.demo.run`."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter


def demo(
    *,
    orders: int = 20,
    crash: bool = False,
    seed: int | None = None,
    data: Path | None = None,
    keep: bool = False,
    timeout: float = 600.0,
    output: Annotated[Literal["text", "json"], Parameter(name=["--output", "-o"])] = "text",
    tamper: bool = False,
) -> int:
    """Run orders through mock payments, shipping and drivers, and audit that each was finished and charged exactly once.

    Args:
        orders: How many.
        crash: Kill the engine (SIGKILL) at least three times while orders are in flight, and start it again.
        seed: Decides orders, faults and kills; a fresh one unless given. It is printed with the verdict.
        data: Where journal, ledger and logs go, and stay; a temporary directory unless given.
        keep: Keep the temporary directory.
        timeout: Seconds after which the demo gives up (exit code 124).
        output: text for people, or json.
        tamper: Double one charge in the services' ledger before the audit, to see it caught.
    """
    from perdure.demo.run import demo as perform

    return perform(orders=orders, crash=crash, seed=seed, data=data, keep=keep, timeout=timeout, output=output, tamper=tamper)
