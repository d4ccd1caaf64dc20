"""How much there was of everything, and the words for it."""

from dataclasses import asdict, dataclass, fields
from typing import Final


@dataclass
class Counts:
    """Of one seed, or summed over several."""

    runs: int = 0
    completed: int = 0
    published: int = 0
    declined: int = 0
    expired: int = 0
    old_path: int = 0
    old_path_mid_deploy: int = 0
    """Of these, begun by the old build and ended by the new one."""
    new_path: int = 0
    new_path_mid_deploy: int = 0
    """Of these, begun by the old build, which had not come to the change."""
    in_flight_at_deploy: int = 0
    in_flight_at_deploy_max: int = 0
    deploys: int = 0
    worker_kills: int = 0
    server_kills: int = 0
    worker_freezes: int = 0
    """Workers held still past the life of their claims, which then went on."""
    attempts_lost: int = 0
    """Attempts of activities that died with their worker."""
    signals_sent: int = 0
    signals_withheld: int = 0
    signals_twice: int = 0
    first_deliveries: int = 0
    first_failed: int = 0
    first_lost: int = 0
    deliveries: int = 0
    effects: int = 0
    absorbed: int = 0
    unheard: int = 0
    """Of these, repeats of a delivery that had been answered: whoever asked died before the answer was written down."""
    events: int = 0
    quarantines: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        """The sum; of maxima the greater."""
        mine, theirs = asdict(self), asdict(other)
        return Counts(
            **{
                name: max(number, theirs[name]) if name.endswith("_max") else number + theirs[name]
                for name, number in mine.items()
            }
        )

    def rows(self) -> list[tuple[str, int]]:
        """The counts in words, for a table."""
        return [(LABELS[field.name], getattr(self, field.name)) for field in fields(self)]


LABELS: Final = {
    "runs": "runs started",
    "completed": "completed",
    "published": "… charged and published",
    "declined": "… declined",
    "expired": "… nobody answered",
    "old_path": "took the old path",
    "old_path_mid_deploy": "… begun by v1, ended by v2",
    "new_path": "took the new path",
    "new_path_mid_deploy": "… begun by v1, which had not come to the change",
    "in_flight_at_deploy": "in flight when the deploy began",
    "in_flight_at_deploy_max": "… most in one deploy",
    "deploys": "rolling deploys v1 → v2",
    "worker_kills": "workers killed (SIGKILL)",
    "server_kills": "servers killed (SIGKILL)",
    "worker_freezes": "workers frozen past their claims (SIGSTOP), then let go on",
    "attempts_lost": "attempts lost with their worker",
    "signals_sent": "answers signalled",
    "signals_withheld": "… withheld until every process had been replaced",
    "signals_twice": "… sent twice",
    "first_deliveries": "first deliveries to the world",
    "first_failed": "… failed before the effect",
    "first_lost": "… answer lost after the effect",
    "deliveries": "deliveries in all",
    "effects": "effects in the ledger",
    "absorbed": "duplicates absorbed",
    "unheard": "… though answered: the asker had died",
    "events": "events in the histories",
    "quarantines": "quarantined",
}
