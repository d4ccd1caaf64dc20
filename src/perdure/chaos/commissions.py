"""Who asks for what, and what a person will say to it: a trial's workload, decided by a seed. Pure."""

from dataclasses import dataclass
from typing import Final, Literal

from perdure.chaos.pipelines.steps import Brief
from perdure.demo.faults import share

Answer = Literal["approve", "decline", "silence"]
When = Literal["early", "amid", "after"]
"""When a brief is handed in: before the deploy, while it goes on, when it is done."""

PATIENCE_S: Final = 3600.0
"""How long an approval that will come is waited for: longer than any trial lasts."""
SILENT_PATIENCE_S: Final = 6.0
"""How long one that will never come is waited for."""


@dataclass(frozen=True)
class Commission:
    """A brief, when it is handed in, and what becomes of the question whether its text may be published."""

    brief: Brief
    when: When
    answer: Answer
    withheld: bool
    """The answer is withheld until every process that was there when it was asked for has been replaced."""
    twice: bool
    """The answer is sent two times under one id, as senders do that lost a reply."""

    @property
    def signal_id(self) -> str:
        return f"answer-{self.brief.id}"


def commissions(seed: int, count: int, *, crowded: bool = False) -> list[Commission]:
    """The first `count` commissions under `seed`. `crowded`: most are handed in before the deploy, and none of these is left unanswered."""
    return [_commission(seed, number, crowded=crowded) for number in range(1, count + 1)]


def _commission(seed: int, number: int, *, crowded: bool) -> Commission:
    def chance(what: str) -> float:
        return share(seed, what, number)

    # The first few are of every kind an audit asks for.
    late = number == 3 or (number > 4 and chance("late") < (0.1 if crowded else 0.3))
    when: When = "early" if not late else "after" if number == 3 or chance("when") < 1 / 2 else "amid"
    withheld = not late and (number == 1 or chance("withheld") < 2 / 7)  # of all, about one in five
    said = chance("answer")
    silent = number > 4 and said < 0.1 and not withheld and (late or not crowded)
    brief = Brief(
        id=f"brief-{seed}-{number:03}",
        topic=f"topic {int(chance('topic') * 1_000_000)}",
        cents=100 + int(chance("cents") * 9_900),
        patience_s=SILENT_PATIENCE_S if silent else PATIENCE_S,
    )
    return Commission(
        brief,
        when=when,
        answer="silence" if silent else "decline" if said >= 0.85 else "approve",
        withheld=withheld,
        twice=not silent and (number == 2 or chance("twice") < 0.15),
    )
