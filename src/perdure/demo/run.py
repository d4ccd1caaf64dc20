"""`perdure demo`: a performance, and the audit of what it left behind."""

import asyncio
import json
import signal
import sys
from pathlib import Path
from time import monotonic
from typing import Final, Literal

from perdure.demo.child import ChildDiedError
from perdure.demo.performance import Moment, Performance, moments
from perdure.demo.place import OtherDemoError, Place, opened
from perdure.demo.show import Outcome, show_verdict, teller
from perdure.testing.audit import audit

VIOLATED: Final = 1
USAGE: Final = 2
TIMEOUT: Final = 124
INTERRUPTED: Final = 130


def demo(
    *,
    orders: int = 20,
    crash: bool = False,
    seed: int | None = None,
    data: Path | None = None,
    keep: bool = False,
    timeout: float = 600.0,
    output: Literal["text", "json"] = "text",
    tamper: bool = False,
) -> int:
    """Run orders through mock payments, shipping and drivers, and audit that each was finished and charged exactly once.

    Args:
        orders: How many.
        crash: Kill the engine (SIGKILL) at least three times while orders are in flight, and start it again.
        seed: Decides orders, faults and kills; a fresh one unless given. It is printed with the verdict.
        data: Where journal, ledger and logs go, and stay; a demo interrupted there goes on. A temporary directory unless given.
        keep: Keep the temporary directory. It is kept by itself when the books do not agree.
        timeout: Seconds after which the demo gives up.
        output: `json` for programs.
        tamper: Double one charge in the services' ledger before the audit, to see it caught.

    Returns:
        0 when both books agree · 1 when anything is lost, doubled or out of order, or the engine broke down by itself · 2 when
        `data` holds another demo or `orders` is less than 1 · 124 at the timeout · 130 when interrupted.
    """
    if orders < 1:
        return _complain("a demo needs at least one order", USAGE)
    try:
        with opened(data, keep=keep) as place:
            outcome = _performed(place, orders, place.settle(orders, seed), crash=crash, timeout=timeout, tamper=tamper)
            place.keep = place.keep or not outcome.verdict.ok
            outcome.data = str(place.path) if place.keep else ""
    except OtherDemoError as error:
        return _complain(str(error), USAGE)
    except TimeoutError:
        return _complain(f"not finished after {timeout:g} s (--timeout)", TIMEOUT)
    except ChildDiedError as error:
        return _complain(str(error), VIOLATED)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return _complain("interrupted", INTERRUPTED)
    if output == "json":
        print(json.dumps(outcome.as_data(), indent=2))
    else:
        show_verdict(outcome)
    return 0 if outcome.verdict.ok else VIOLATED


def _performed(place: Place, orders: int, seed: int, *, crash: bool, timeout: float, tamper: bool) -> Outcome:
    started = monotonic()
    with teller(orders) as telling:
        performance = Performance(place, orders=orders, seed=seed, telling=telling)
        asyncio.run(_bounded(performance, moments(seed, orders) if crash else [], timeout))
    if tamper:
        double_a_charge(place.ledger)
    verdict = audit(place.journal, place.ledger, place.orders)
    return Outcome(verdict, seed, monotonic() - started, str(place.path), performance.kills)


async def _bounded(performance: Performance, planned: list[Moment], seconds: float) -> None:
    """Run it; SIGTERM and the timeout end it the way Ctrl-C does, processes and all."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with asyncio.timeout(seconds):
        await performance.run(planned)


def double_a_charge(ledger: Path) -> None:
    """Make the ledger say that the first charge was made twice."""
    lines = ledger.read_text().splitlines(keepends=True)
    charge = next(line for line in lines if '"line":"effect"' in line and '"operation":"charge"' in line)
    ledger.write_text("".join([*lines, charge]))


def _complain(text: str, code: int) -> int:
    print(f"perdure demo: {text}", file=sys.stderr)
    return code
