"""Types that several routes share: ids, names, seconds, and the query parameters of whatever speaks of one run."""

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from perdure.core.texts import REASON_CHARS_MAX

Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=255, description="1 to 255 bytes of UTF-8, no control characters")]
OptionalId: TypeAlias = Annotated[str, Meta(max_length=255, description="As an id; empty: none")]
Reason: TypeAlias = Annotated[str, Meta(max_length=REASON_CHARS_MAX, description="For people; written into the history")]
Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=3_155_760_000, description="Seconds, at most a hundred years")]
Wait: TypeAlias = Annotated[float, Meta(ge=0, description="Seconds to wait, at most 60 (`http.wait_s_max`)")]


class Room(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which namespace is meant."""

    namespace: Id = "default"
    """The room of workflow ids."""


class RunQuery(Room, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which run is meant."""

    run_id: OptionalId = ""
    """Empty: whichever run of the workflow id is current."""


class Reasoned(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request that people may give a reason for."""

    reason: Reason = ""
