"""Every bound of the engine, with its name, unit and default. What a limit does when it is reached is said at each field."""

from msgspec import Struct


class Limits(Struct, frozen=True, kw_only=True):
    """Bounds on what one workflow id, run or message may hold. At a bound the caller gets a typed error naming it, at once."""

    payload_bytes_max: int = 2 * 1024 * 1024
    """One argument, result, signal value …: `PayloadTooLarge`, where it is made. A run keeps the bound of its start."""
    id_bytes_max: int = 255
    """Workflow, signal, update and request ids, names: `InvalidArgument`. From 64, so that ids made here fit, to 255."""
    history_events_warn: int = 10_000
    """From here on `info().continue_as_new_suggested` is true."""
    history_events_max: int = 50_000
    """The run fails with a clear failure; signals are never refused for length."""
    signals_unread_max: int = 10_000
    """Signals no decision has covered yet: `LimitExceeded`."""
    updates_waiting_max: int = 1_000
    """Updates that wait for one run's code: `ResourceExhausted`."""
    queries_waiting_max: int = 10_000
    """Queries that wait for an answer, of all runs of a node: `ResourceExhausted`."""
    message_commands_max: int = 1_000
    """More commands in one message are refused; a larger decision travels in parts. From 1."""
    decision_commands_max: int = 10_000
    """More commands in one decision fail the run."""
    decision_bytes_max: int = 16 * 1024 * 1024
    """More payload bytes in one decision fail the run."""
    news_kept: int = 10_000
    """Events of the stream that a node keeps for readers who come back; whoever asks for older ones is told of the gap. From 1."""
    idle_runs_kept: int = 1_000
    """Open runs a node keeps in memory though they only wait; past it those that have waited for longest are parked."""
    attributes_max: int = 100
    """Attributes of one run: `LimitExceeded`."""
    attribute_bytes_max: int = 4_096
    """One attribute's text, or all texts of a list: `LimitExceeded`."""
    remembered_ids_max: int = 10_000
    """Signal and update ids remembered per workflow id; the oldest are forgotten first."""
    remembered_ids_age_s: int = 7 * 86_400
    """Signal and update ids older than this are forgotten."""
    close_refusals_max: int = 3
    """So often is a close sent back because of unseen signals; then it is accepted."""
    fused_ahead_s: float = 1.0
    """How far a fused fact's time may lie ahead of the owner's clock."""
    heartbeat_note_s: float = 5.0
    """Heartbeat details of one activity are noted at most this often."""
    claim_lives_s: float = 10.0
    """A claim of a worker in another process is lost after so long without a sign of life."""
    strict_based_on: bool = False
    """A decision is dropped if anything at all came after what it is based on. Safe, and no safer; a run with steady signals may starve."""
    attempt_notes_first: int = 3
    attempt_notes_last: int = 7
    """Of an activity's failed attempts the first and last few keep their failure in memory."""

    def __post_init__(self) -> None:
        """Refuse what no engine can keep. Raises `ValueError` naming the limit."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name in _SWITCHES:
                if not isinstance(value, bool):
                    raise ValueError(f"{name} must be true or false, not {value!r}")
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < _WHOLE_MAX:
                raise ValueError(f"{name} must be a number from 0 to {_WHOLE_MAX}, not {value!r}")
        for name in _FROM_ONE:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)!r}")
        if not 64 <= self.id_bytes_max <= 255:
            raise ValueError(f"id_bytes_max must be a number from 64 to 255, not {self.id_bytes_max!r}")


_SWITCHES = frozenset({"strict_based_on"})
_FROM_ONE = ("news_kept", "message_commands_max")
"""With none of it nothing would ever get through."""
_WHOLE_MAX = 2**53
"""Beyond it numbers are no longer exact in every JSON reader."""

LIMITS = Limits()
