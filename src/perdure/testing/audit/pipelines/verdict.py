"""What an audit of pipelines found: the counts, and each thing that is wrong, in plain words."""

from dataclasses import asdict, dataclass, field

from perdure.testing.audit.pipelines.counts import Counts
from perdure.testing.audit.verdict import Violation


@dataclass
class Verdict:
    """`ok` is true when nothing is lost, doubled, out of order, on the wrong path or proved too little."""

    counts: Counts
    violations: list[Violation] = field(default_factory=list[Violation])

    @property
    def ok(self) -> bool:
        return not self.violations

    def headline(self) -> str:
        if self.ok:
            return "All books agree: every run ended once, in order, on the path its marker says, every effect exactly once."
        count = len(self.violations)
        return f"The books do not agree: {count} violation{'' if count == 1 else 's'}."

    def text(self, violations_max: int = 20) -> str:
        """For people: the counts, then what is wrong (the first few), then the headline."""
        lines = [f"{number:>10,}  {label}" for label, number in self.counts.rows()]
        lines += [f"  ✗ {violation}" for violation in self.violations[:violations_max]]
        if (more := len(self.violations) - violations_max) > 0:
            lines.append(f"  … and {more} more")
        return "\n".join([*lines, self.headline()])

    def as_data(self) -> dict[str, object]:
        """For programs; plain JSON values."""
        violations = [{"brief_id": violation.order_id, "text": violation.text} for violation in self.violations]
        return {"ok": self.ok, "counts": asdict(self.counts), "violations": violations}
