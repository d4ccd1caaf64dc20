"""The auditor of agent pipelines: histories, the world's ledger, what clients were told and what was done to the processes.

Like the auditor beside it, it imports nothing of the engine and asks it nothing. `python -m perdure.testing.audit.pipelines DIR` exits 1
when anything was lost, doubled, out of order, on the wrong path or proved too little.
"""

from pathlib import Path

from perdure.testing.audit.books import UnreadableError
from perdure.testing.audit.history_rules import check_histories
from perdure.testing.audit.pipelines.books import Books, read
from perdure.testing.audit.pipelines.brief_rules import check_briefs
from perdure.testing.audit.pipelines.counting import count
from perdure.testing.audit.pipelines.counts import Counts
from perdure.testing.audit.pipelines.course_rules import check_course
from perdure.testing.audit.pipelines.effect_rules import check_effects
from perdure.testing.audit.pipelines.path_rules import check_paths
from perdure.testing.audit.pipelines.verdict import Verdict
from perdure.testing.audit.verdict import Violation

__all__ = ["Books", "Counts", "Verdict", "Violation", "audit", "judge"]


def audit(place: Path) -> Verdict:
    """Read the books of one seed below `place` and judge them. A book that cannot be read is a violation, not an error."""
    try:
        books = read(place)
    except (UnreadableError, OSError) as error:
        return Verdict(Counts(), [Violation("", f"a book cannot be read: {error}")])
    return judge(books)


def judge(books: Books) -> Verdict:
    """Apply every rule to books already read."""
    violations = [
        *check_histories(books.runs),
        *check_briefs(books),
        *check_effects(books),
        *check_paths(books),
        *check_course(books),
    ]
    return Verdict(count(books), sorted(violations, key=lambda violation: violation.order_id))
