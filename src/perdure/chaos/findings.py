"""What an evidence run found: of every seed the auditor's verdict and the replays, and all of it together."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure.chaos.course import lines_of
from perdure.chaos.place import Place
from perdure.chaos.replays import Replays
from perdure.testing.audit.pipelines import Counts, Verdict, audit


@dataclass
class SeedFindings:
    """Of one seed."""

    seed: int
    seconds: float
    verdict: Verdict
    replays: Replays
    path: str = ""

    @property
    def faults(self) -> list[str]:
        """Everything that is wrong, in words."""
        found = [str(violation) for violation in self.verdict.violations] + self.replays.faults
        counts = self.verdict.counts
        replayed = self.replays.reproduced_by_old + self.replays.refused_by_old
        if not counts.runs == self.replays.reproduced_by_new == replayed:
            found.append(
                f"of {counts.runs} runs {self.replays.reproduced_by_new} were reproduced by v2, {replayed} were shown to v1"
            )
        if (self.replays.reproduced_by_old, self.replays.refused_by_old) != (counts.old_path, counts.new_path):
            found.append(
                f"v1 refused {self.replays.refused_by_old} histories on the new path and reproduced {self.replays.reproduced_by_old} "
                f"on the old, where {counts.new_path} and {counts.old_path} are"
            )
        return found

    @classmethod
    def at(cls, place: Place) -> "SeedFindings":
        """By what lies there, judged anew."""
        course = lines_of(place.course)
        begun = next(line for line in course if line["what"] == "seed begun")
        replays = (
            Replays.of_data(json.loads(place.replays.read_text()))
            if place.replays.exists()
            else Replays(faults=["the histories were not replayed"])
        )
        return cls(int(begun["seed"]), float(course[-1]["s"]), audit(place.path), replays, str(place.path))


@dataclass
class Findings:
    """Of all seeds. `due` are the least numbers over all of them, by the name of a count."""

    seeds: list[SeedFindings]
    due: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def counts(self) -> Counts:
        return sum((seed.verdict.counts for seed in self.seeds), Counts())

    @property
    def replays(self) -> Replays:
        return sum((seed.replays for seed in self.seeds), Replays())

    @property
    def faults(self) -> list[str]:
        found = [f"seed {seed.seed}: {fault}" for seed in self.seeds for fault in seed.faults]
        counts = self.counts
        for name, least in self.due.items():
            if (there := getattr(counts, name)) < least:
                found.append(f"it proves too little: {name} is {there} over all seeds, should be {least} at least")
        if not self.seeds:
            found.append("there is nothing to judge")
        return found

    @property
    def ok(self) -> bool:
        return not self.faults

    def rows(self) -> list[tuple[str, int]]:
        """The numbers in words, for a table."""
        replays = self.replays
        return [
            ("seeds", len(self.seeds)),
            *self.counts.rows(),
            ("strict replays that v2 reproduced byte for byte", replays.reproduced_by_new),
            ("… that v1 reproduced too (all on the old path)", replays.reproduced_by_old),
            ("… that v1 refused as newer than itself (all on the new path)", replays.refused_by_old),
        ]

    def as_data(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "faults": self.faults,
            "counts": dict(vars(self.counts)),
            "replays": self.replays.as_data(),
            "seconds": round(sum(seed.seconds for seed in self.seeds), 1),
            "seeds": [
                {
                    "seed": seed.seed,
                    "seconds": seed.seconds,
                    "place": seed.path,
                    "counts": dict(vars(seed.verdict.counts)),
                    "faults": seed.faults,
                }
                for seed in self.seeds
            ],
        }

    @classmethod
    def at(cls, directory: Path) -> "Findings":
        """Of a trial that is over, from its books and logs."""
        note = directory / "trial.json"
        due: dict[str, int] = json.loads(note.read_text())["due"] if note.exists() else {}
        seeds = [SeedFindings.at(Place(path.parent)) for path in directory.glob("*/course.jsonl")]
        return cls(sorted(seeds, key=lambda seed: seed.seed), due)
