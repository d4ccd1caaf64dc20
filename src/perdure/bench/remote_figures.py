"""What `perdure bench remote` measured, as values: every figure with its unit in its name."""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from perdure.bench.figures import Percentiles, Spread, Yardstick
from perdure.bench.machine import Machine

Role = Literal["server", "worker", "client"]
ROLES: Final[tuple[Role, ...]] = ("server", "worker", "client")


class Wire(NamedTuple):
    """What went over the node's connections, in both directions together."""

    frames: int
    messages: int
    bytes: int


class RemoteRepeat(NamedTuple):
    """One measurement of many workflows at once."""

    workflows: int
    seconds: float
    commits: int
    syncs: int
    wire: Wire
    cpu_s: dict[Role, float]


class RemoteThroughput(Struct, frozen=True, kw_only=True):
    """Many workflows at once. Commits are transitions written, syncs the groups they were written in; the rest is what one workflow took."""

    workflows: int
    per_s: Spread
    commits_per_workflow: float
    syncs_per_workflow: float
    frames_per_workflow: float
    messages_per_workflow: float
    bytes_per_workflow: float
    cpu_us: dict[Role, float]

    @classmethod
    def of(cls, repeats: Sequence[RemoteRepeat]) -> "RemoteThroughput":
        done = sum(repeat.workflows for repeat in repeats)
        return cls(
            workflows=done,
            per_s=Spread.of([repeat.workflows / repeat.seconds for repeat in repeats]),
            commits_per_workflow=sum(repeat.commits for repeat in repeats) / done,
            syncs_per_workflow=sum(repeat.syncs for repeat in repeats) / done,
            frames_per_workflow=sum(repeat.wire.frames for repeat in repeats) / done,
            messages_per_workflow=sum(repeat.wire.messages for repeat in repeats) / done,
            bytes_per_workflow=sum(repeat.wire.bytes for repeat in repeats) / done,
            cpu_us={role: sum(repeat.cpu_s[role] for repeat in repeats) / done * 1e6 for role in ROLES},
        )


class RemoteSize(Struct, frozen=True, kw_only=True):
    """Workflows of so many steps: one after the other from one client, and many at once."""

    steps: int
    latency: Percentiles
    """From the call of start until the result is there."""
    commits_alone: float
    frames_alone: float
    messages_alone: float
    bytes_alone: float
    many: RemoteThroughput


class Answer(Struct, frozen=True, kw_only=True):
    """How long one update of a run with a history of so many events takes: by a worker that has never seen the run, and by one that holds it."""

    events: int
    cold_ms: Spread
    warm: Percentiles
    warm_bytes: float
    """What went over the wire for one of the warm ones."""


class RemoteSettings(Struct, frozen=True, kw_only=True):
    """What was asked for."""

    workflows: int
    in_flight: int
    repeats: int


class RemoteReport(Struct, frozen=True, kw_only=True):
    """Everything one run of the benchmark found."""

    machine: Machine
    settings: RemoteSettings
    yardstick: Yardstick
    workflows: tuple[RemoteSize, ...]
    answers: tuple[Answer, ...]

    @property
    def faults(self) -> list[str]:
        """What cannot be if the engine does what it promises."""
        return [
            f"{size.steps}-step workflows took {commits:.3f} commits: fewer than {size.steps + 1}"
            for size in self.workflows
            for commits in (size.many.commits_per_workflow, size.commits_alone)
            if commits < size.steps + 1
        ]
