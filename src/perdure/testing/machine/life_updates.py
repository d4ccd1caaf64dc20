"""Updates of one life, as an owner keeps them in memory and clients hear of them."""

from typing import Any

from perdure.core.events import CLOSING_KINDS, ContinuedAsNew, UpdateAccepted, UpdateBody
from perdure.core.machine import Outcome
from perdure.core.replies import Reported
from perdure.core.requests import Report


class LifeUpdates:
    """`waiting` is what the owner holds; the rest is what clients were told."""

    def __init__(self) -> None:
        self.waiting: dict[str, UpdateBody] = {}
        self.sent: list[str] = []
        self.refused: set[str] = set()
        self.accepted: set[str] = set()
        """Somebody was told that it is."""

    def note(self, request: Any, decided: Outcome) -> None:
        """A request was decided: some updates are no longer waiting."""
        if isinstance(request, Report) and isinstance(decided.reply, Reported) and decided.reply.accepted:
            for update in request.refused:
                self.waiting.pop(update.update_id, None)
                self.refused.add(update.update_id)
        for change in decided.transition.runs if decided.transition is not None else ():
            for event in change.events:
                if isinstance(event, UpdateAccepted):
                    self.waiting.pop(event.update_id, None)
                    self.accepted.add(event.update_id)
                elif type(event) in CLOSING_KINDS and not isinstance(event, ContinuedAsNew):
                    self.waiting.clear()
