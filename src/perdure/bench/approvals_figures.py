"""What `perdure bench approvals` measured, as values: every figure with its unit in its name, and the bound read off them."""

from typing import Final

from msgspec import Struct

from perdure.bench.figures import Percentiles, Yardstick
from perdure.bench.machine import Machine

BUSY: Final = 0.85
"""A part that works for this share of the time, or more, is what the others wait for."""


class Drain(Struct, frozen=True, kw_only=True):
    """Runs that were told to go on: how long it took and what it cost. CPU is that of whole processes, `writing` from bytes to sync."""

    runs: int
    seconds: float
    commits: int
    syncs: int
    writing_seconds: float
    server_cpu_s: float
    worker_cpu_s: float
    client_cpu_s: float
    server_waited_s: float = 0.0
    """In which the server was ready to run and had no core: others of the machine had them."""

    @property
    def per_s(self) -> float:
        return self.runs / self.seconds

    @property
    def commits_per_sync(self) -> float:
        return self.commits / self.syncs if self.syncs else 0.0

    def share(self, seconds: float) -> float:
        """Of the time it took."""
        return seconds / self.seconds

    def bound(self, cores: int) -> str:
        """What the rate is bounded by, in words: the part that was busy all the time; else that they wait for each other, or for a core."""
        parts = {
            "CPU of the server": self.share(self.server_cpu_s),
            "CPU of the worker": self.share(self.worker_cpu_s),
            "CPU of the client": self.share(self.client_cpu_s),
            "syncs to disk": self.share(self.writing_seconds),
        }
        name, share = max(parts.items(), key=lambda part: part[1])
        together = self.share(self.server_cpu_s + self.worker_cpu_s + self.client_cpu_s) / cores
        waited = self.share(self.server_waited_s)
        if share >= BUSY:
            return f"{name}: busy {share:.0%} of the time"
        if together >= BUSY:
            return f"the machine's {cores} cores together: busy {together:.0%} of the time, most of it {name} ({share:.0%} of a core)"
        if waited >= parts["CPU of the server"]:
            return f"other processes of this machine: the server works {parts['CPU of the server']:.0%} of the time and waits {waited:.0%} for a core"
        return f"parts that wait for each other: the busiest is {name}, {share:.0%} of the time"


class Waiting(Struct, frozen=True, kw_only=True):
    """So many runs that wait for an approval, on a server of their own. Bytes are those of the server's process."""

    runs: int
    start_seconds: float
    park_seconds: float
    """From the last start until only so many idle runs as a node keeps were in memory."""
    bytes_empty: int
    bytes_parked: int
    bytes_each: float
    stats: Percentiles
    """`GET /api/v1/stats` over one connection, one after the other."""
    nothing: Percentiles
    """`GET /healthz` in the same way: what a request costs that asks for nothing."""
    alone: Drain
    """One after the other: each waits for its own commits."""
    together: Drain
    """All the others, as many at once as 256 callers bring."""


class ApprovalsReport(Struct, frozen=True, kw_only=True):
    """Everything one run of the benchmark found."""

    machine: Machine
    yardstick: Yardstick
    waiting: tuple[Waiting, ...]
