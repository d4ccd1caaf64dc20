"""Counting what the books hold."""

from collections.abc import Callable, Sequence
from typing import cast

from perdure.testing.audit.books import Line, Run
from perdure.testing.audit.pipelines.books import Books
from perdure.testing.audit.pipelines.counts import Counts
from perdure.testing.audit.pipelines.path_rules import markers


def count(books: Books) -> Counts:
    """All counts of one seed."""
    runs = [run for chain in books.runs.values() for run in chain]
    firsts = [delivery for delivery in books.deliveries if delivery["count"] == 1]
    in_flight = sum(line["in_flight"] for line in books.course if line["what"] == "deploy begun")
    outcomes = [_outcome(run) for run in runs]
    return Counts(
        runs=len(books.starts),
        completed=sum(bool(run.events) and run.events[-1]["type"] == "completed" for run in runs),
        published=outcomes.count("published"),
        declined=outcomes.count("declined"),
        expired=outcomes.count("expired"),
        **_paths(runs),
        in_flight_at_deploy=in_flight,
        in_flight_at_deploy_max=in_flight,
        deploys=_happened(books.course, "deploy done"),
        worker_kills=_happened(books.course, "killed", "worker"),
        server_kills=_happened(books.course, "killed", "server"),
        worker_freezes=_happened(books.course, "thawed", "worker"),
        attempts_lost=sum(
            note["type"] == "attempt_failed" and note.get("kind") == "lost" for run in runs for note in run.notes
        ),
        signals_sent=len({line["brief_id"] for line in books.course if line["what"] == "answer sent"}),
        signals_withheld=len({line["brief_id"] for line in books.course if line["what"] == "answer sent" and line["withheld"]}),
        signals_twice=sum(len(lines) > 1 for lines in books.signals.values()),
        first_deliveries=len(firsts),
        first_failed=sum(delivery["became"] == "failed" for delivery in firsts),
        first_lost=sum(delivery["became"] == "lost" for delivery in firsts),
        deliveries=len(books.deliveries),
        effects=len(books.effects),
        absorbed=sum(delivery["became"] == "absorbed" for delivery in books.deliveries),
        unheard=_unheard(books.deliveries),
        events=sum(len(run.events) for run in runs),
        quarantines=sum(note["type"] == "quarantined" for run in runs for note in run.notes),
    )


def _outcome(run: Run) -> str:
    """What became of a brief, by its run's own word; empty while it is open or when it ended otherwise."""
    last = run.events[-1] if run.events else {"type": ""}
    result = last.get("result") if last["type"] == "completed" else None
    return str(cast("Line", result).get("outcome", "")) if isinstance(result, dict) else ""


def _paths(runs: Sequence[Run]) -> dict[str, int]:
    def how_many(fits: Callable[[Run], bool]) -> int:
        return sum(fits(run) for run in runs)

    def mixed(run: Run) -> bool:
        return len(set(run.builds.values())) > 1

    return {
        "old_path": how_many(lambda run: not markers(run)),
        "old_path_mid_deploy": how_many(lambda run: not markers(run) and mixed(run)),
        "new_path": how_many(lambda run: bool(markers(run))),
        "new_path_mid_deploy": how_many(lambda run: bool(markers(run)) and mixed(run)),
    }


def _happened(course: Sequence[Line], what: str, role: str = "") -> int:
    return sum(line["what"] == what and role in {"", line.get("role")} for line in course)


def _unheard(deliveries: Sequence[Line]) -> int:
    """Duplicates that came although the delivery before them had been answered: the window in which only the key helps."""
    last: dict[str, str] = {}
    unheard = 0
    for delivery in deliveries:
        unheard += delivery["became"] == "absorbed" and last.get(delivery["key"]) in {"done", "absorbed"}
        last[delivery["key"]] = delivery["became"]
    return unheard
