"""How large an evidence run is, and what it must have done at least for its verdict to mean anything. Pure."""

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Scale:
    """`runs` are those of one seed. `crowd`: each tenth seed from 1 on has so many instead, most in flight when its deploy begins."""

    seeds: int
    """Unless others are asked for."""
    runs: int
    crowd: int = 0
    workers: int = 3
    pace_s: float = 0.15
    """Between two briefs that are handed in."""
    kill_s: tuple[float, float] = (0.3, 0.7)
    """Least and most between two kills of a worker."""
    seed_s: float = 180.0
    """So long may one seed take."""
    worker_kills_min: int = 17
    """Of each seed."""
    crowd_in_flight_min: int = 0
    """Of a crowded seed, when its deploy begins."""

    def is_crowded(self, seed: int) -> bool:
        """One in ten: a seed shown again by itself is the same seed."""
        return bool(self.crowd) and seed % 10 == 1

    def runs_of(self, seed: int) -> int:
        """Runs of a seed."""
        return max(self.runs, self.crowd) if self.is_crowded(seed) else self.runs

    def due(self, seed: int) -> dict[str, Any]:
        """What the auditor is to hold a seed to."""
        least = {
            "worker_kills": self.worker_kills_min,
            "server_kills": 2,
            "worker_freezes": 1,
            "deploys": 1,
            "absorbed": 1,
            "first_failed": 1,
            "first_lost": 1,
            "signals_withheld": 1,
            "signals_twice": 1,
            "old_path": 1,
            "new_path": 1,
        }
        if self.is_crowded(seed):
            least["in_flight_at_deploy"] = self.crowd_in_flight_min
        return {"builds": ["v1", "v2"], "least": least}

    def due_of_all(self, seeds: int) -> dict[str, int]:
        """What so many seeds together are held to. A few prove less, and need not."""
        if seeds < self.seeds:
            return {}
        total = {"deploys": seeds, "server_kills": 2 * seeds, "worker_kills": self.worker_kills_min * seeds}
        if self.crowd:
            total |= {"in_flight_at_deploy_max": self.crowd_in_flight_min, "unheard": 1}
        return total


FULL: Final = Scale(seeds=10, runs=30, crowd=72, crowd_in_flight_min=55)
SHORT: Final = Scale(seeds=1, runs=10, pace_s=0.1, kill_s=(0.6, 1.2), worker_kills_min=5)
