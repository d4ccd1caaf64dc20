"""How large an evidence run is, and what it must have done at least for its verdict to mean anything. Pure."""

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Scale:
    """`runs` are those of one seed. `crowd`: the first seed has so many instead, most of them in flight when its deploy begins."""

    seeds: int
    runs: int
    crowd: int = 0
    workers: int = 3
    pace_s: float = 0.15
    """Between two briefs that are handed in."""
    seed_s: float = 180.0
    """So long may one seed take."""
    worker_kills_min: int = 17
    """Of each seed."""
    crowd_in_flight_min: int = 0
    """Of the first seed, when its deploy begins."""
    unheard_min: int = 0
    """Over all seeds: repeats of deliveries whose answer died with whoever asked."""

    def runs_of(self, number: int) -> int:
        """Runs of the `number`-th seed, counted from 0."""
        return max(self.runs, self.crowd) if number == 0 else self.runs

    def is_crowded(self, number: int) -> bool:
        return bool(self.crowd) and number == 0

    def due(self, number: int) -> dict[str, Any]:
        """What the auditor is to hold the `number`-th seed to."""
        least = {
            "worker_kills": self.worker_kills_min,
            "server_kills": 2,
            "deploys": 1,
            "absorbed": 1,
            "first_failed": 1,
            "first_lost": 1,
            "signals_withheld": 1,
            "signals_twice": 1,
            "old_path": 1,
            "new_path": 1,
        }
        if self.is_crowded(number):
            least["in_flight_at_deploy"] = self.crowd_in_flight_min
        return {"builds": ["v1", "v2"], "least": least}


FULL: Final = Scale(seeds=10, runs=30, crowd=72, crowd_in_flight_min=55, unheard_min=1)
SHORT: Final = Scale(seeds=1, runs=10, pace_s=0.1, seed_s=90.0, worker_kills_min=5)
