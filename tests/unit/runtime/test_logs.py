"""Log lines as JSON: one document a line, whatever is logged."""

import json
import logging
import sys

from perdure.runtime.logs import JsonLines


def line_of(message: object, *args: object, **extra: object) -> dict[str, object]:
    record = logging.getLogger("perdure.x").makeRecord("perdure.x", logging.WARNING, "f", 1, message, args, None, extra=extra)
    text = JsonLines().format(record)
    assert "\n" not in text
    return json.loads(text)


def test_a_record_is_a_document() -> None:
    """With the time in UTC, and nothing of logging's own clutter."""
    told = line_of("so much: %d", 3)
    assert str(told.pop("time")).endswith("Z")
    assert told == {"level": "warning", "logger": "perdure.x", "message": "so much: 3"}


def test_what_is_bound_to_a_record_is_in_it() -> None:
    """Ids are fields, not words to be cut out of a message; what is no JSON is there as text."""
    told = line_of("x", workflow_id="order-1", attempt=2, other=object, level_name="mine")
    assert (told["workflow_id"], told["attempt"], told["other"]) == ("order-1", 2, "<class 'object'>")


def test_nothing_bound_takes_the_place_of_what_is_always_there() -> None:
    """A field named `time` of a caller's does not change when something happened."""
    told = line_of("x", time="never", logger="me")
    assert told["time"] != "never"
    assert told["logger"] == "perdure.x"


def test_lines_stay_lines() -> None:
    """Newlines, half characters and exceptions do not break them."""
    assert line_of("a\nb")["message"] == "a\nb"
    assert line_of("half \ud800")["message"] == "'half \\ud800'"
    try:
        int("boom")
    except ValueError:
        record = logging.getLogger("x").makeRecord("x", logging.ERROR, "f", 1, "it failed", (), sys.exc_info())
    text = JsonLines().format(record)
    assert "\n" not in text
    assert "ValueError: invalid literal" in json.loads(text)["exception"]
