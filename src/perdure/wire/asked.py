"""What an asker has asked and not been answered: kept as it was sent, so that it can be sent again on another connection."""

from collections.abc import Callable
from typing import Any, Final

from msgspec import MsgspecError, Raw

from perdure.core.errors import PerdureError
from perdure.ports import Answer
from perdure.wire.messages import Found, RecordPart

FOR_EVER: Final = float("inf")
NONE: Final = 0.0
"""The answer is of use on this connection only: with it the ask fails."""


class Asked:
    """One ask. `doubt` hears an error in place of `answer` when the ask was sent more than once: it may have been carried out before. `patience`: seconds it may wait for a node while none is there; `may_fail` false: also when the node refuses the key, because
    whoever asked can do nothing but ask again."""

    __slots__ = ("answer", "doubt", "may_fail", "parts", "patience", "read", "sent", "since", "text")

    def __init__(
        self, text: bytes, answer: Answer, read: Callable[[Raw], Any] | None, patience: float, may_fail: bool, since: float
    ) -> None:
        self.text = text
        self.answer = answer
        self.read = read
        self.patience = patience
        self.may_fail = may_fail
        self.since = since
        self.sent = 0
        """On so many connections."""
        self.doubt: Callable[[PerdureError], None] | None = None
        self.parts: list[Any] | None = None

    def found(self, message: Found) -> tuple[Any, PerdureError | None]:
        """Take an answer, or a part of one; gives the whole when it is there, else None."""
        assert self.read is not None
        try:
            value = self.read(message.ok)
        except MsgspecError as error:
            return None, PerdureError(f"the node's answer cannot be read by this version: {error}")
        if not isinstance(value, RecordPart):
            return value, None
        if self.parts is None:
            self.parts = []
        self.parts.append(value)
        return (None if message.more else self.parts), None

    def begin(self) -> None:
        """It is sent, perhaps again: what has come in part will come once more."""
        self.sent += 1
        self.parts = None
