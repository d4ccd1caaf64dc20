"""What the people of one life share: chance, the owner, the plan of the workflow, letters under way, and what was promised to clients."""

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from perdure.core.replies import Rejection
from perdure.core.requests import ClaimWorkflow, Report
from perdure.testing.machine.life_updates import LifeUpdates
from perdure.testing.machine.sole_owner import SoleOwner
from perdure.testing.machine.toy import MakeRunner, Plan

if TYPE_CHECKING:
    from perdure.testing.machine.life_worker import Letter


class World:
    """`deploys`: build 2 replaces build 1 on the way. `checked`: the laws are held against every step (by default in every eighth life)."""

    def __init__(self, seed: int, make_runner: MakeRunner, *, deploys: bool | None = None, checked: bool | None = None) -> None:
        self.random = random = Random(seed)
        self.seed = seed
        self.make_runner = make_runner
        self.deploys = random.random() < 0.7 if deploys is None else deploys
        self.newest = not self.deploys and seed % 2 == 0
        """Every worker is of build 2 from the start: no path may be an old one."""
        self.cold, self.fuses = False, True
        """Whether runs are replayed at every claim, and whether results are fed before they are recorded."""
        self.pauses = random.random() < 0.2
        self.resets = random.random() < 0.2
        """Runs are reset on the way; there are no updates then, which a reset owes and the owner's memory offers again."""
        self.far = seed // 2 % 3 == 0
        """Workers live in processes of their own: they beat, outlive owners, and are not told what became of their claims."""
        self.unsure: tuple[int, str] | None = None
        """A signal whose sender has not been told that it is written: the number of transitions up to it, and its id."""
        self.plan = Plan(
            limit=random.randint(2, 6),
            activities=random.randint(1, 4),
            fan=random.randint(1, 2),
            continues=random.random() < 0.5,
            receives=random.random() < 0.5,
        )
        self.owner = SoleOwner(checked=seed % 8 == 0 if checked is None else checked)
        self.letters: list[Letter] = []
        self.signals: list[str] = []
        self.cancelled = 0
        self.refusals: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.updates = LifeUpdates()
        self.serial = 0

    def fresh(self, prefix: str) -> str:
        self.serial += 1
        return f"{prefix}{self.serial}"

    def ask(self, request: Any) -> Any:
        if isinstance(request, (ClaimWorkflow, Report)):
            request = replace(request, waiting=tuple(self.updates.waiting.values()))
        decided = self.owner.bring(request)
        if isinstance(decided, Rejection):
            return decided
        self.updates.note(request, decided)
        return decided.reply

    @property
    def is_over(self) -> bool:
        return not self.owner.run.is_open

    def tale(self) -> str:
        lines = [str(self.plan)]
        for run_id, history in self.owner.histories.items():
            lines.append(run_id)
            lines += [f"  {event}" for event in history]
        return "\n".join(lines)
