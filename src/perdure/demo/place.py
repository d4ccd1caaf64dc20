"""The directory of one demo: where its three books lie, and which demo it is."""

import json
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import randbelow


class OtherDemoError(Exception):
    """The directory holds a demo with another seed or more orders; going on would mix two sets of books."""


@dataclass
class Place:
    """Paths below one directory. `keep` says whether it stays when the demo is over."""

    path: Path
    keep: bool

    @property
    def engine(self) -> Path:
        return self.path / "engine"

    @property
    def journal(self) -> Path:
        return self.engine / "journal"

    @property
    def services(self) -> Path:
        return self.path / "services"

    @property
    def ledger(self) -> Path:
        return self.services / "ledger.jsonl"

    @property
    def orders(self) -> Path:
        return self.path / "orders.jsonl"

    def log(self, name: str) -> Path:
        return self.path / f"{name}.log"

    def settle(self, orders: int, seed: int | None) -> int:
        """Make this the place of such a demo, or find that it is; gives the seed. Raises `OtherDemoError`."""
        note = self.path / "demo.json"
        if not note.exists():
            chosen = randbelow(1_000_000) if seed is None else seed
            note.write_text(json.dumps({"seed": chosen, "orders": orders}))
            return chosen
        before = json.loads(note.read_text())
        if seed not in {None, before["seed"]} or orders < before["orders"]:
            raise OtherDemoError(f"{self.path} holds a demo of {before['orders']} orders with seed {before['seed']}")
        note.write_text(json.dumps(before | {"orders": orders}))
        return int(before["seed"])


@contextmanager
def opened(data: Path | None, *, keep: bool) -> Generator[Place, None, None]:
    """The given directory, or a temporary one that goes when the demo is over unless it is to be kept."""
    if data is not None:
        data.mkdir(parents=True, exist_ok=True)
        yield Place(data, keep=True)
        return
    place = Place(Path(tempfile.mkdtemp(prefix="perdure-demo-")), keep)
    try:
        yield place
    finally:
        if not place.keep:
            shutil.rmtree(place.path, ignore_errors=True)
