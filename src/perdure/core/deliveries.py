"""A delivery: one message between two runs while it is on its way. Lives in memory only; state says which ones there must be."""

from typing import Literal

from msgspec import Struct

from perdure.core.requests import AnyRequest, StartWorkflow


class Delivery(Struct, frozen=True, kw_only=True, gc=False):
    """`request` is brought to the owner of its workflow id until it is answered; then `source` hears of the answer.

    Of a start, run id and seed are filled in by whoever brings it.
    """

    key: str
    """Names the message to its target, which takes it once."""
    request: AnyRequest
    source: str = ""
    """Workflow id, of the same namespace."""
    command: int = 0
    """Number of the command that asked for it; 0: it was left behind by a run that closed."""
    hears: Literal["", "child", "external", "message"] = ""
    """As what `source` is told the answer; empty: not at all."""
    asker: str = ""
    """Run that asks how a child stands, where a reset made several of them ask: an answer under way may be older than the reset."""

    @property
    def name(self) -> str:
        """What is under way by this name need not be sent again."""
        return f"{self.key}@{self.asker}" if self.asker else self.key

    @property
    def is_start(self) -> bool:
        return isinstance(self.request, StartWorkflow)
