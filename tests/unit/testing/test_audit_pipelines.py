"""The auditor of pipelines against books written by hand: silent when they agree, and it names the brief when they do not."""

import ast
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from perdure.core.ids import idempotency_key
from perdure.testing.audit.books import Run
from perdure.testing.audit.pipelines import Books, judge

Line = dict[str, Any]
LEAST = {"worker_kills": 2, "server_kills": 1, "deploys": 1, "absorbed": 1, "in_flight_at_deploy": 3}


@dataclass
class Writer:
    """Writes the four books of a seed in which everything went well; a test then spoils one of them."""

    books: Books = field(
        default_factory=lambda: Books({}, [], [], {}, {}, {}, [], {"builds": ["v1", "v2"], "least": dict(LEAST)})
    )
    clock: Any = field(default_factory=lambda: count(1_000, 10))
    build: str = "v1"

    # ---------------------------------------------------------------------------------------------------------- one history

    def run(self, brief: str) -> Run:
        return self.books.runs[brief][0]

    def event(self, brief: str, type: str, **fields: Any) -> Line:
        run = self.run(brief)
        event = {"type": type, "id": len(run.events) + 1, "time": next(self.clock), **fields}
        run.events.append(event)
        if "based_on" in fields:
            run.builds[event["id"]] = self.build
        return event

    def step(self, brief: str, name: str, *, item: str = "", based_on: list[str] | None = None, **said: Any) -> Any:
        """An activity, its effect, its answer; gives what the world gave."""
        ordinal = 1 + sum(asked["name"] == name for asked in self.run(brief).activities())
        asked = self.event(brief, "activity_scheduled", at=1, based_on=1, name=name, ordinal=ordinal)
        gave: Any = {"id": f"{name}-{len(self.books.effects)}"}
        if name == "plan":
            gave["uses"] = [
                {"tool": "search", "query": "q1"},
                {"tool": "search", "query": "q2"},
                {"tool": "fetch", "query": "q3"},
            ]
        body = {"brief_id": brief, **said, **({"item": item} if item else {})}
        if based_on is not None:
            body["based_on"] = based_on
        key = idempotency_key("default", brief, f"run-{brief}", name, ordinal)
        at = len(self.books.effects) + len(self.books.deliveries)
        common = {"operation": name, "brief_id": brief, "key": key}
        self.books.effects.append({"entry": "effect", **common, "said": body, "gave": gave, "at": at})
        self.books.deliveries.append({"entry": "delivery", **common, "item": item, "count": 1, "became": "done", "at": at + 1})
        self.event(brief, "activity_completed", command=asked["id"], result=gave if name == "plan" else gave["id"])
        return gave if name == "plan" else gave["id"]

    # ------------------------------------------------------------------------------------------------------------ one brief

    def brief(self, name: str, answer: str, *, new_path: bool = False) -> None:
        brief = {"id": name, "topic": "t", "cents": 700, "patience_s": 3600.0}
        self.books.starts[name] = {"line": "start", "brief": brief}
        self.books.runs[name] = [Run("default", name, f"run-{name}")]
        self.event(name, "started", run_id=f"run-{name}", input=[brief])
        plan = self.step(name, "plan", topic="t")
        found = [self.step(name, use["tool"], item=use["query"], based_on=[plan["id"]]) for use in plan["uses"]]
        text = self.step(name, "draft", based_on=found)
        if new_path:
            self.build = "v2"
            self.event(name, "version_marked", at=1, based_on=1, change_id="second look", version=1)
            text = self.step(name, "review", based_on=[text])
        asked = self.step(name, "ask", based_on=[text])
        piece = {"brief_id": name, "outcome": "published", "article": "", "receipt": ""}
        if answer != "silence":
            self.event(name, "signal_received", name="approve", signal_id=f"answer-{name}", input=[answer == "approve"])
            signal = {"line": "signal", "brief_id": name, "signal_id": f"answer-{name}", "value": answer == "approve"}
            self.books.signals[name] = [signal]
        if answer == "approve":
            piece["receipt"] = self.step(name, "charge", based_on=[asked], cents=700)
            piece["article"] = self.step(name, "publish", based_on=[text, piece["receipt"]])
        else:
            piece["outcome"] = {"decline": "declined", "silence": "expired"}[answer]
            self.step(name, "notify", item=piece["outcome"], based_on=[asked])
        self.event(name, "completed", at=1, based_on=1, result=piece)
        self.books.results[name] = [{"line": "result", "brief_id": name, "status": "completed", "value": dict(piece)}]
        self.build = "v1"

    # ------------------------------------------------------------------------------------------------------------ the course

    def told(self, what: str, **facts: Any) -> None:
        self.books.course.append({"what": what, "time": next(self.clock), **facts})

    def course(self) -> None:
        self.told("started", role="server", pid=1)
        for pid in (2, 3):
            self.told("started", role="worker", pid=pid, build="v1")
        self.told("asked", brief_id="approved")
        self.told("deploy begun", in_flight=3)
        for pid, role in ((1, "server"), (2, "worker"), (3, "worker")):
            self.told("killed", role=role, pid=pid)
            self.told("started", role=role, pid=pid + 10, build="v2")
        self.told("deploy done")
        self.told("answer sent", brief_id="approved", withheld=True, twice=True)
        self.told("stopped", role="worker", pid=12)

    def violations(self) -> list[str]:
        self.books.__dict__.pop("effects_by_brief", None)
        return [str(violation) for violation in judge(self.books).violations]

    def effect(self, brief: str, operation: str) -> Line:
        return next(e for e in self.books.effects if (e["brief_id"], e["operation"]) == (brief, operation))

    def find(self, brief: str, type: str, name: str = "") -> Line:
        return next(e for e in self.run(brief).events if e["type"] == type and name in {"", e.get("name")})


@pytest.fixture
def seed() -> Writer:
    """A brief that was published on the old path, one on the new path, one declined and one nobody answered."""
    writer = Writer()
    writer.brief("approved", "approve")
    writer.brief("reviewed", "approve", new_path=True)
    writer.brief("declined", "decline")
    writer.brief("silent", "silence", new_path=True)
    again = {**writer.books.deliveries[0], "count": 2, "became": "absorbed"}
    writer.books.deliveries.append(again)
    writer.course()
    return writer


@pytest.mark.rule("F13")
@pytest.mark.rule("F20")
def test_books_that_agree(seed: Writer) -> None:
    """Clean books give no violation, and everything in them is counted."""
    verdict = judge(seed.books)
    assert verdict.violations == []
    counts = verdict.counts
    assert (counts.runs, counts.completed, counts.published, counts.declined, counts.expired) == (4, 4, 2, 1, 1)
    assert (counts.old_path, counts.new_path, counts.new_path_mid_deploy, counts.in_flight_at_deploy) == (2, 2, 2, 3)
    assert (counts.worker_kills, counts.server_kills, counts.deploys, counts.signals_withheld) == (2, 1, 1, 1)
    assert (counts.absorbed, counts.unheard) == (1, 1)
    assert "All books agree" in verdict.text()


def double_an_effect(seed: Writer) -> None:
    seed.books.effects.append(dict(seed.effect("approved", "charge")))


def double_under_another_key(seed: Writer) -> None:
    seed.books.effects.append({**seed.effect("approved", "charge"), "key": "another"})


def forget_an_effect(seed: Writer) -> None:
    seed.books.effects.remove(seed.effect("approved", "publish"))


def lose_a_run(seed: Writer) -> None:
    del seed.books.runs["declined"]


def lose_its_end(seed: Writer) -> None:
    seed.run("declined").events.pop()


def forget_the_marker(seed: Writer) -> None:
    run = seed.run("reviewed")
    run.events.remove(seed.find("reviewed", "version_marked"))


def mark_the_old_path(seed: Writer) -> None:
    run = seed.run("approved")
    run.events.insert(-1, {"type": "version_marked", "id": 0, "time": 0, "at": 1, "based_on": 1, "change_id": "second look"})


def skip_the_tools(seed: Writer) -> None:
    for operation in ("search", "fetch"):
        seed.books.effects.remove(seed.effect("approved", operation))


def charge_after_a_no(seed: Writer) -> None:
    seed.step("declined", "charge", cents=700, based_on=["ask-0"])


def charge_another_sum(seed: Writer) -> None:
    seed.effect("approved", "charge")["said"]["cents"] = 701


def mix_up_two_briefs(seed: Writer) -> None:
    seed.effect("approved", "publish")["said"]["based_on"] = seed.effect("reviewed", "publish")["said"]["based_on"]


def publish_before_paying(seed: Writer) -> None:
    seed.effect("approved", "publish")["at"] = 0


def tell_the_client_otherwise(seed: Writer) -> None:
    seed.books.results["approved"][0]["value"]["outcome"] = "declined"


def tell_nobody(seed: Writer) -> None:
    del seed.books.results["approved"]


def lose_a_signal(seed: Writer) -> None:
    seed.run("declined").events.remove(seed.find("declined", "signal_received"))


def deliver_a_signal_twice(seed: Writer) -> None:
    run = seed.run("declined")
    signal = seed.find("declined", "signal_received")
    run.events.insert(run.events.index(signal), dict(signal))


def set_a_run_aside(seed: Writer) -> None:
    seed.run("approved").notes.append({"type": "quarantined", "build_id": "v2", "reason": "another command"})


def let_the_old_build_decide(seed: Writer) -> None:
    run = seed.run("reviewed")
    run.builds[run.events[-1]["id"]] = "v1"


def start_it_twice(seed: Writer) -> None:
    seed.books.runs["approved"].insert(0, Run("default", "approved", "run-other", [dict(seed.run("approved").events[0])]))


def do_what_nobody_asked_for(seed: Writer) -> None:
    seed.books.effects.append({**seed.effect("approved", "plan"), "brief_id": "unheard-of", "key": "k"})


def send_a_key_twice(seed: Writer) -> None:
    seed.books.deliveries.append({**seed.books.deliveries[0], "count": 3, "became": "conflict"})


def kill_too_few(seed: Writer) -> None:
    seed.books.course[:] = [line for line in seed.books.course if line["what"] != "killed" or line["role"] != "server"]


def absorb_nothing(seed: Writer) -> None:
    seed.books.deliveries.pop()


def answer_too_early(seed: Writer) -> None:
    sent = next(line for line in seed.books.course if line["what"] == "answer sent")
    sent["time"] = next(line for line in seed.books.course if line["what"] == "deploy begun")["time"]


def give_up(seed: Writer) -> None:
    seed.told("gave up", why="90 s are over")


def die_by_itself(seed: Writer) -> None:
    seed.told("died", role="worker", pid=13, code=1)


SPOILS: list[tuple[Callable[[Writer], None], str]] = [
    (double_an_effect, "approved: charge was done 2 times under one key"),
    (double_under_another_key, "approved: charge: done twice in the ledger, should be once"),
    (forget_an_effect, "approved: publish is done in its history, but not in the ledger"),
    (lose_a_run, "declined: is lost: its start was acknowledged, but it has no history"),
    (lose_its_end, "declined: is not finished: its history stops at event"),
    (forget_the_marker, "reviewed: took the new path by the ledger (review was done), but its history has no version marker"),
    (mark_the_old_path, "approved: has a version marker, but took the old path by the ledger"),
    (skip_the_tools, "approved: search q1: done never in the ledger, should be once"),
    (charge_after_a_no, "declined: was charged without an approval"),
    (charge_another_sum, "approved: charge-6 is over 701 cents, the brief is over 700"),
    (mix_up_two_briefs, "approved: publish-7 was built on"),
    (publish_before_paying, "approved: the ledger has publish before charge"),
    (tell_the_client_otherwise, "approved: its client was told"),
    (tell_nobody, "approved: ended, but nobody was told"),
    (lose_a_signal, "declined: signal answer-declined was acknowledged, but is not in its history"),
    (deliver_a_signal_twice, "declined: signal answer-declined was delivered 2 times"),
    (set_a_run_aside, "approved: was quarantined by build v2"),
    (let_the_old_build_decide, "behind its version marker, was decided by the older build v1"),
    (start_it_twice, "approved: was started 2 times"),
    (do_what_nobody_asked_for, "unheard-of: has effects, but no history"),
    (send_a_key_twice, "approved: plan was sent twice under one key with different contents"),
    (kill_too_few, "it proves too little: server_kills is 0, should be 1 at least"),
    (absorb_nothing, "it proves too little: absorbed is 0, should be 1 at least"),
    (answer_too_early, "approved: its answer was withheld, but worker 2 had not been replaced when it was sent"),
    (give_up, "not everything ended in time: 90 s are over"),
    (die_by_itself, "worker 13 ended by itself (exit code 1)"),
]


@pytest.mark.rule("F13")
@pytest.mark.rule("O31")
@pytest.mark.parametrize(("spoil", "found"), SPOILS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_seeded_violation_is_caught(seed: Writer, spoil: Callable[[Writer], None], found: str) -> None:
    """Whatever is spoilt is named."""
    spoil(seed)
    assert any(found in text for text in seed.violations()), seed.violations()


def test_nothing_to_audit_is_no_success() -> None:
    """Empty books prove nothing."""
    verdict = judge(Books({}, [], [], {}, {}, {}, []))
    assert [violation.text for violation in verdict.violations] == ["there is nothing to audit: no start was ever acknowledged"]


def test_the_auditor_imports_nothing_of_the_engine() -> None:
    """What it believes, it works out by itself: of perdure it imports only its own files."""
    folder = Path(__file__).parents[3] / "src" / "perdure" / "testing" / "audit"
    names = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add(str(node.module))
    foreign = {name for name in names if name.split(".")[0] not in sys.stdlib_module_names}
    assert "perdure.testing.audit.pipelines.books" in foreign
    assert {name for name in foreign if not name.startswith("perdure.testing.audit")} == set()
