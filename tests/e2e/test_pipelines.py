"""The agent pipeline of the trials in a calm house: one node in this process, the world in its own, and the audit at the end."""

import asyncio
from pathlib import Path

import pytest

import perdure
from perdure.chaos.commissions import commissions
from perdure.chaos.course import Course
from perdure.chaos.desk import Desk
from perdure.chaos.house import World
from perdure.chaos.pipelines import steps, v1, v2
from perdure.chaos.place import Place
from perdure.demo.book import Book
from perdure.testing.audit.pipelines import audit


async def served(place: Place, seed: int, count: int, *, deploy: bool) -> None:
    """Hand in briefs and see them through; with `deploy` the newer build takes over when the early ones have been asked about."""
    course, book = Course(place.course), Book(place.requests)
    course.tell("seed begun", seed=seed, due={"builds": ["v1", "v2"], "least": {"absorbed": 1, "first_failed": 1}})
    world = World(place, course, seed)
    await world.start()
    wanted = commissions(seed, count)
    early = {commission.brief.id for commission in wanted if commission.when == "early"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(steps.WORLD, world.address)
        try:
            async with perdure.embedded(place.data, build_id="v1") as app:
                app.register(steps, v1)
                desk = Desk(app.client, book, course, world.address, wanted, crowded=deploy, pace_s=0)
                if not deploy:
                    desk.doors.deploy_begun.set()
                    desk.doors.deploy_done.set()
                    return await desk.serve()
                serving = asyncio.ensure_future(desk.serve())
                await desk.until(lambda: early <= desk.asked)
                serving.cancel()
                await asyncio.wait([serving])
            async with perdure.embedded(place.data, build_id="v2") as app:
                app.register(steps, v2)
                desk = Desk(app.client, book, course, world.address, wanted, crowded=deploy, pace_s=0)
                desk.doors.deploy_begun.set()
                desk.doors.deploy_done.set()
                await desk.serve()
        finally:
            await world.stop()
            book.close()
            course.close()


@pytest.mark.slow
@pytest.mark.rule("F27")
@pytest.mark.rule("F17")
@pytest.mark.rule("O23")
@pytest.mark.rule("O34")
def test_agents_get_their_approvals_in_an_unkind_world(tmp_path: Path) -> None:
    """Model, tools side by side, approval or none, payment: in order, once each, though a third of first deliveries go wrong."""
    place = Place(tmp_path)
    asyncio.run(served(place, seed=3, count=20, deploy=False))
    verdict = audit(place.path)
    assert verdict.ok, verdict.text()
    counts = verdict.counts
    assert counts.completed == 20
    assert min(counts.published, counts.declined, counts.expired, counts.absorbed, counts.signals_twice) > 0
    assert 20 <= counts.events / counts.runs <= 25
    assert 0.2 < (counts.first_failed + counts.first_lost) / counts.first_deliveries < 0.46


@pytest.mark.slow
@pytest.mark.rule("F10")
@pytest.mark.rule("F20")
def test_open_runs_keep_the_old_path_over_a_deploy(tmp_path: Path) -> None:
    """Runs that had been asked about keep the old path under the new build, those handed in later take the new one, and all is told."""
    place = Place(tmp_path)
    asyncio.run(served(place, seed=4, count=20, deploy=True))
    verdict = audit(place.path)
    assert verdict.ok, verdict.text()
    counts = verdict.counts
    early = sum(commission.when == "early" for commission in commissions(4, 20))
    assert (counts.old_path, counts.old_path_mid_deploy, counts.new_path) == (early, early, 20 - early)
