"""Strict replays of what a seed left: every history is exported from the stopped node's journal and run through the code of both builds.

The newer build reproduces every one byte for byte, whichever build decided it. The older build reproduces those on the old path, also where
the newer one decided their end, and refuses those on the new path as newer than itself. Uses the commands anyone would use.
"""

import asyncio
import json
import sys
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from perdure.chaos.fleet import BUILDS
from perdure.chaos.place import Place

OLDER: Final = "older than the run"
SECONDS_MAX: Final = 120.0


@dataclass
class Replays:
    """How the replays ended."""

    reproduced_by_new: int = 0
    reproduced_by_old: int = 0
    refused_by_old: int = 0
    """By the older build, because the run took the new path."""
    faults: list[str] = field(default_factory=list[str])

    def as_data(self) -> dict[str, Any]:
        return asdict(self)

    def __add__(self, other: "Replays") -> "Replays":
        return Replays(
            self.reproduced_by_new + other.reproduced_by_new,
            self.reproduced_by_old + other.reproduced_by_old,
            self.refused_by_old + other.refused_by_old,
            self.faults + other.faults,
        )

    @classmethod
    def of_data(cls, data: dict[str, Any]) -> "Replays":
        return cls(**data)


async def replays_of(place: Place) -> Replays:
    """Export and replay; what they said is kept beside the books."""
    exported = await _perdure("journal", "export", str(place.data))
    place.histories.write_bytes(exported)
    by_new, by_old = [await _verdicts(place, build) for build in ("v2", "v1")]
    found = judged(by_new, by_old)
    place.replays.write_text(json.dumps(found.as_data(), indent=2))
    return found


def judged(by_new: list[dict[str, Any]], by_old: list[dict[str, Any]]) -> Replays:
    """What the verdicts of both builds on the same histories come to."""
    found = Replays()
    for verdict in by_new:
        if verdict["verdict"] == "ok":
            found.reproduced_by_new += 1
        else:
            found.faults.append(
                f"{verdict['workflow_id']}: v2 does not reproduce it: {verdict.get('reason', verdict['verdict'])}"
            )
    for verdict in by_old:
        if verdict["verdict"] == "ok":
            found.reproduced_by_old += 1
        elif OLDER in verdict.get("reason", ""):
            found.refused_by_old += 1
        else:
            found.faults.append(
                f"{verdict['workflow_id']}: v1 does not reproduce it: {verdict.get('reason', verdict['verdict'])}"
            )
    if len(by_new) != len(by_old):
        found.faults.append(f"v2 was shown {len(by_new)} histories, v1 {len(by_old)}")
    twice = [run_id for run_id, times in Counter(verdict["run_id"] for verdict in by_new).items() if times > 1]
    return found if not twice else found + Replays(faults=[f"run {run_id} was exported twice" for run_id in twice])


async def _verdicts(place: Place, build: str) -> list[dict[str, Any]]:
    said = await _perdure("replay", BUILDS[build], str(place.histories), "--strict", "-o", "json", codes=(0, 1))
    verdicts: list[dict[str, Any]] = json.loads(said)
    return verdicts


async def _perdure(*arguments: str, codes: tuple[int, ...] = (0,)) -> bytes:
    """What a command prints. Raises `RuntimeError` when it fails."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "perdure", *arguments, stdout=pipe, stderr=pipe)
    try:
        async with asyncio.timeout(SECONDS_MAX):
            said, told = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode not in codes:
        raise RuntimeError(f"perdure {arguments[0]} ended with {process.returncode}: {told.decode(errors='replace')[-1000:]}")
    return said
