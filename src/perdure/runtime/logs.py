"""Where a process's log lines go and how they look: words for people, or a JSON document a line for programs that gather them.

A library does not do this to its user's process: only commands that own theirs call it.
"""

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

Level = Literal["debug", "info", "warning", "error"]
Form = Literal["text", "json"]

WORDS: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
CHATTY: Final = ("uvicorn", "websockets", "asyncio")
"""Libraries that tell of every connection at level INFO."""
_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""What every record has; anything else was bound to it by whoever logs, such as `workflow_id`."""


def log_to_stderr(level: Level, form: Form) -> None:
    """Let everything from `level` on be written to standard error, a line a record."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else logging.Formatter(WORDS))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    if level != "debug":
        for name in CHATTY:
            logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))


class JsonLines(logging.Formatter):
    """`{"time","level","logger","message",…}`: what was bound to the record follows, an exception's text is last."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever is in it."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _OWN and name not in line}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        try:
            return _encode(line).decode()
        except (
            UnicodeEncodeError,
            ValueError,
            TypeError,
            RecursionError,
        ):  # a lone surrogate, a number too large: as Python shows it
            return _encode({name: ascii(value) for name, value in line.items()}).decode()


_encode: Final = msgspec.json.Encoder(enc_hook=str).encode
