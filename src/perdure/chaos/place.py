"""The directory of one seed: where its books, its journal and its logs lie."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Place:
    """Paths below one directory. The auditor knows the four books by the same names."""

    path: Path

    @property
    def data(self) -> Path:
        """The server's data directory; its journal is the first book."""
        return self.path / "data"

    @property
    def world(self) -> Path:
        return self.path / "world"

    @property
    def ledger(self) -> Path:
        return self.world / "ledger.jsonl"

    @property
    def requests(self) -> Path:
        """What clients asked for and were told."""
        return self.path / "requests.jsonl"

    @property
    def course(self) -> Path:
        """What was done to the processes, and when."""
        return self.path / "course.jsonl"

    @property
    def histories(self) -> Path:
        """Every run, exported."""
        return self.path / "histories.jsonl"

    @property
    def replays(self) -> Path:
        """What strict replays of the histories said."""
        return self.path / "replays.json"

    def log(self, name: str) -> Path:
        return self.path / f"{name}.log"
