"""A delivery: one message between two runs while it is on its way. Lives in memory only; state says which ones there must be."""

from typing import Literal

from msgspec import Struct

from perdure.core.requests import AnyRequest, StartWorkflow


class Delivery(Struct, frozen=True, kw_only=True, gc=False):
    """`request` is brought to the owner of its workflow id until it is answered; then `source` hears of the answer.

    Of a start, run id and seed are filled in by whoever brings it.
    """

    key: str
    """Names the message; what is under way by this name need not be sent again."""
    request: AnyRequest
    source: str = ""
    """Workflow id, of the same namespace."""
    command: int = 0
    """Number of the command that asked for it; 0: it was left behind by a run that closed."""
    hears: Literal["", "child", "external", "message"] = ""
    """As what `source` is told the answer; empty: not at all."""

    @property
    def is_start(self) -> bool:
        return isinstance(self.request, StartWorkflow)
