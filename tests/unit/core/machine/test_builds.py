"""Builds: quarantine leaves the history alone, a failed or older build is not offered the run again, the right one goes on."""

from typing import Any

import pytest

from perdure.core import commands as cm
from perdure.core.replies import NotWanted, Taken, WorkflowClaimed
from perdure.core.requests import Commands, ReleaseWorkflow, ResumeWorkflow
from perdure.testing.machine.laws import image
from perdure.testing.machine.story import Story, done, text

EFFECT = cm.RecordSideEffect(at=1, result=text("x"))


def release(story: Story, why: Any, build_id: str = "bad", **fields: str) -> Any:
    claimed = story.claim(build_id=build_id)
    assert isinstance(claimed, WorkflowClaimed), claimed
    return story.ask(ReleaseWorkflow(workflow_id="w", run_id="r1", token=claimed.token, build_id=build_id, why=why, **fields))


def started() -> Story:
    story = Story()
    story.start()
    return story


@pytest.mark.rule("F11")
@pytest.mark.scenario(25)
def test_quarantine_touches_no_event() -> None:
    """Both commands are named in a note; the history's bytes are what they were."""
    story = started()
    before = image(story.history)
    release(story, "nondeterminism", reason="differs", expected="timer", found="activity")
    assert image(story.history) == before
    assert (story.run.status, story.run.quarantine.expected, story.run.quarantine.found) == ("quarantined", "timer", "activity")  # type: ignore[union-attr]


@pytest.mark.rule("F11")
@pytest.mark.rule("F12")
def test_a_failed_build_is_not_offered_the_run_another_takes_it_out() -> None:
    """The mended build's first decision ends quarantine, with no one's help."""
    story = started()
    release(story, "nondeterminism")
    assert story.claim(build_id="bad") == NotWanted(reason="build bad failed on this run")
    assert story.decide(EFFECT, build_id="good").accepted
    assert (story.run.status, story.run.failed_builds) == ("running", ["bad"])
    story.signal("go")
    assert isinstance(story.claim(build_id="bad"), NotWanted)


@pytest.mark.rule("F12")
def test_resume_forgets_failed_builds() -> None:
    """Asked for by hand, the run is offered to every build again; asked twice it says so."""
    story = started()
    release(story, "nondeterminism")
    assert story.ask(ResumeWorkflow(workflow_id="w")) == Taken(run_id="r1")
    assert story.ask(ResumeWorkflow(workflow_id="w")) == Taken(run_id="r1", duplicate=True)
    assert (story.run.status, story.run.failed_builds) == ("running", [])
    assert story.claim(build_id="bad").token


@pytest.mark.rule("F11")
def test_a_quarantined_run_takes_signals_and_results_and_can_be_terminated() -> None:
    """Only deciding stops."""
    story = started()
    claim = story.decide(cm.ScheduleActivity(at=1, name="charge"), room=1, queues=("default",)).activities[0]
    story.signal("go")
    release(story, "nondeterminism")
    assert not story.signal("go").duplicate
    assert story.succeed(claim).facts_dropped == 0
    story.crash()
    assert story.run.status == "quarantined"
    story.terminate()
    assert story.run.status == "terminated"


@pytest.mark.rule("F11")
def test_a_build_older_than_the_run_is_no_quarantine() -> None:
    """It is not offered the run again; the note says which change it lacks."""
    story = started()
    release(story, "old_build", "old", change_id="fees")
    assert (story.run.status, story.run.refused_builds) == ("running", {"old": "fees"})
    assert story.claim(build_id="old") == NotWanted(reason="build old is older than this run")
    assert story.claim(build_id="new").token


def test_a_failed_build_that_still_holds_a_claim_decides_nothing() -> None:
    """A warm worker of a build that failed meanwhile: its decision is dropped, it is handed no claim."""
    story = started()
    claim = story.decide(cm.ScheduleActivity(at=1, name="charge"), build_id="bad", room=1, queues=("default",))
    story.signal("go")
    release(story, "nondeterminism")
    fact = done(claim.activities[0], fed_at=story.now)
    late = story.report(None, Commands(), fact, Commands(commands=(EFFECT,)), based_on=3, decided=1, build_id="bad")
    assert (late.accepted, late.token, story.events[-1]) == (False, "", "activity_completed")
    assert story.run.status == "quarantined"


@pytest.mark.parametrize("why", ["draining", "unknown_type"])
def test_giving_a_claim_back_says_nothing_about_the_run(why: str) -> None:
    """No note, no fault: whoever asks next may have it."""
    story = started()
    release(story, why)
    assert (story.note_types, story.run.status) == ([], "running")
    assert story.claim(build_id="bad").token


def test_who_decided_is_noted_when_it_changes() -> None:
    """One note per change of build, none for the decisions between."""
    story = started()
    story.decide(EFFECT, build_id="one")
    for build_id in ("one", "two", "two"):
        story.signal("go")
        story.decide(cm.RecordSideEffect(at=story.run.length, result=text("x")), build_id=build_id)
    assert [note.build_id for note in story.notes["r1"] if note.type == "decided_by"] == ["one", "two"]  # type: ignore[union-attr]
