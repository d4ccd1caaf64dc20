"""What the toy workflow does with updates: some it refuses, some end at once, some fail, some wait for the next answer, some end main."""

from typing import TYPE_CHECKING, Any

from perdure.core import commands as cm
from perdure.core import events as ev
from perdure.core.failure import Failure
from perdure.testing.machine.sole_owner import text

if TYPE_CHECKING:
    from perdure.testing.machine.toy import ToyRunner


def number_of(update_id: str) -> int:
    """Updates of a life are called u1, u2 …; what becomes of one depends on its number."""
    return int(update_id[1:])


class ToyUpdates:
    """Those of one toy runner. `taken`: ids in the order in which their handlers began."""

    def __init__(self, runner: "ToyRunner") -> None:
        self._runner = runner
        self.taken: list[str] = []
        self._open: list[tuple[str, Any]] = []

    def offer(self, update: ev.UpdateBody, now: int) -> Failure | None:
        """As of `replay.runner.Runner.offer`. The validator wants a signal to have been handled."""
        runner = self._runner
        if update.update_id in self.taken:
            return None
        if not runner.handled:
            return Failure(type="Empty")
        runner.time = max(runner.time, now)
        runner.news = True
        command = cm.AcceptUpdate(
            at=runner.at, name=update.name, update_id=update.update_id, fed_at=runner.time, input=update.input
        )
        self._begin(update.update_id, runner.ask(command))
        return None

    def take_up(self, accepted: ev.UpdateAccepted) -> None:
        """One whose acceptance is recorded."""
        runner = self._runner
        runner.time = max(runner.time, accepted.fed_at)
        runner.news = False
        self._begin(accepted.update_id, runner.recorded(accepted))

    def _begin(self, update_id: str, asked: Any) -> None:
        runner, number = self._runner, number_of(update_id)
        assert runner.handled, "an update was taken where its validator says no"
        self.taken.append(update_id)
        if runner.patched("update"):
            runner.effect(f"new:{update_id}")
        runner.effect(f"{update_id} at {runner.time}")
        if number % 3 == 1:
            self._open.append((update_id, asked))
        elif number % 5 == 0:
            runner.ask(cm.FailUpdate(at=runner.at, update_id=update_id, target=0, failure=Failure(type="Boom")), asked)
        else:
            self._complete(update_id, asked)
        if number % 4 == 0:
            runner.count("update")

    def go_on(self) -> None:
        """Something was answered: handlers that waited for that end."""
        waiting, self._open = self._open, []
        for update_id, asked in waiting:
            self._complete(update_id, asked)

    def _complete(self, update_id: str, asked: Any) -> None:
        runner = self._runner
        result = text(f"{update_id}:{len(runner.handled)}")
        runner.ask(cm.CompleteUpdate(at=runner.at, update_id=update_id, target=0, result=result), asked)
