"""The auditor: compares what histories say with what the outside world saw, and trusts neither.

Imports nothing of the engine and asks it nothing: it reads files (see `books`), works out from first principles what every order should
have caused, and names each difference. `python -m perdure.testing.audit --journal DIR --ledger FILE --orders FILE` exits 1 when there is one.
"""

from pathlib import Path

from perdure.testing.audit.books import Books, UnreadableError, read
from perdure.testing.audit.effect_rules import check_effects
from perdure.testing.audit.history_rules import check_histories
from perdure.testing.audit.order_rules import check_orders
from perdure.testing.audit.verdict import Counts, Verdict, Violation

__all__ = ["Counts", "Verdict", "Violation", "audit", "judge"]


def audit(journal: Path, ledger: Path, orders: Path) -> Verdict:
    """Read the books and judge them. A book that cannot be read is a violation, not an error."""
    try:
        books = read(journal, ledger, orders)
    except (UnreadableError, OSError) as error:
        return Verdict(Counts(), [Violation("", f"a book cannot be read: {error}")])
    return judge(books)


def judge(books: Books) -> Verdict:
    """Apply every rule to books already read."""
    violations = [*check_histories(books.runs), *check_orders(books), *check_effects(books)]
    if not books.starts:
        violations.append(Violation("", "there is nothing to audit: no start was ever acknowledged"))
    return Verdict(_count(books), sorted(violations, key=lambda violation: violation.order_id))


def _count(books: Books) -> Counts:
    def effects(operation: str) -> int:
        return sum(effect["operation"] == operation for effect in books.effects)

    def cents(operation: str) -> int:
        return sum(effect["cents"] for effect in books.effects if effect["operation"] == operation)

    def requests(outcome: str) -> int:
        return sum(request["outcome"] == outcome for request in books.requests)

    runs = [run for chain in books.runs.values() for run in chain]
    return Counts(
        orders=len(books.starts),
        completed=sum(bool(run.events) and run.events[-1]["type"] == "completed" for run in runs),
        charged=effects("charge"),
        shipped=effects("ship"),
        drivers_assigned=effects("assign_driver"),
        refunded=effects("refund"),
        approvals=sum(event["type"] == "signal_received" for run in runs for event in run.events),
        charged_cents=cents("charge"),
        refunded_cents=cents("refund"),
        events=sum(len(run.events) for run in runs),
        requests=len(books.requests),
        requests_failed=requests("failed"),
        replies_lost=requests("forgotten"),
        duplicates_absorbed=requests("absorbed"),
        answers_unheard=_answers_unheard(books),
        shipments_refused=requests("refused"),
    )


def _answers_unheard(books: Books) -> int:
    """Duplicates that came although the delivery before them had been answered: the window in which only the key helps."""
    last: dict[str, str] = {}
    unheard = 0
    for request in books.requests:
        unheard += request["outcome"] == "absorbed" and last.get(request["key"]) in {"done", "absorbed"}
        last[request["key"]] = request["outcome"]
    return unheard
