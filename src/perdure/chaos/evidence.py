"""The evidence run: seed after seed of agent pipelines under kills and a deploy, each audited and replayed before the next begins."""

import json
from collections.abc import Sequence
from pathlib import Path

from perdure.chaos.course import Hear
from perdure.chaos.findings import Findings
from perdure.chaos.place import Place
from perdure.chaos.replays import Replays, replays_of
from perdure.chaos.scale import Scale
from perdure.chaos.seed import Seed


async def evidence(out: Path, seeds: Sequence[int], scale: Scale, hear: Hear) -> Findings:
    """Run them in `out`, which is empty or new, and judge what is there at the end."""
    note = {"trial": "evidence", "seeds": list(seeds), "due": scale.due_of_all(len(seeds))}
    (out / "trial.json").write_text(json.dumps(note, indent=2))
    for seed in seeds:
        place = Place(out / f"seed-{seed}")
        place.path.mkdir()
        await Seed(place, seed, scale, hear).run()
        await replayed(place)
    return Findings.at(out)


async def replayed(place: Place) -> None:
    """Replay what lies there; that this cannot be done is a finding too."""
    try:
        await replays_of(place)
    except (RuntimeError, TimeoutError, ValueError) as error:
        place.replays.write_text(json.dumps(Replays(faults=[f"the histories could not be replayed: {error}"]).as_data()))
