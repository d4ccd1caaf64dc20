"""Exit codes and complaints: every error of the public surface has its code, and one line."""

import json

import pytest

from perdure.cli.app import wants_json
from perdure.cli.exits import code_of, complain, shown
from perdure.core import errors
from perdure.ports import DiskFull
from perdure.store.errors import JournalCorrupt, StoreFailed

CODES = {
    errors.WorkflowFailed: 1,
    errors.WorkflowCancelled: 1,
    errors.NondeterminismError: 1,
    JournalCorrupt: 1,
    errors.InvalidArgument: 2,
    errors.PayloadTooLarge: 2,
    errors.NotFound: 3,
    errors.WorkflowAlreadyStarted: 4,
    errors.AlreadyExists: 4,
    errors.WorkflowClosed: 4,
    errors.ResourceExhausted: 5,
    errors.LimitExceeded: 5,
    errors.PermissionDenied: 5,
    errors.Unauthenticated: 5,
    DiskFull: 5,
    errors.Unavailable: 6,
    StoreFailed: 6,
    PermissionError: 6,
    TimeoutError: 124,
}


@pytest.mark.parametrize(("kind", "code"), CODES.items(), ids=lambda value: getattr(value, "__name__", value))
def test_an_error_stands_for_its_exit_code(kind: type[Exception], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    """And is told in one line, in words or as JSON with its stable code."""
    error = kind("what\x1b[2J happened")
    assert code_of(error) == complain(error, as_json=False) == complain(error, as_json=True) == code
    words, text = capsys.readouterr().err.splitlines()
    assert words.startswith("perdure: what\\x1b[2J happened")
    told = json.loads(text)["error"]
    assert told["message"] == "what\\x1b[2J happened"
    assert told["code"] == getattr(kind, "code", "TIMEOUT" if kind is TimeoutError else "UNAVAILABLE")


def test_a_refusal_says_when_to_come_back(capsys: pytest.CaptureFixture[str]) -> None:
    """In both forms."""
    for as_json in (False, True):
        complain(errors.ResourceExhausted("full", retry_after=2.5), as_json=as_json)
    words, text = capsys.readouterr().err.splitlines()
    assert words == "perdure: full; try again after 2.5 s"
    assert json.loads(text)["error"]["details"] == {"retry_after": 2.5}


@pytest.mark.parametrize(
    ("tokens", "wanted"),
    [
        ([], False),
        (["workflow", "list"], False),
        (["workflow", "list", "-o", "json"], True),
        (["-o", "jsonl"], True),
        (["--output=json"], True),
        (["-o", "text"], False),
        (["-o"], False),
        (["x", "--", "-o", "json"], False),
    ],
)
def test_the_form_of_errors_is_known_before_anything_is_parsed(tokens: list[str], wanted: bool) -> None:
    """A mistake in the command itself must come out as JSON too."""
    assert wants_json(tokens) is wanted


def test_text_from_elsewhere_cannot_steer_a_terminal() -> None:
    """Control characters and broken text are written out; newlines and tabs stay."""
    assert shown("a\x1b]0;x\x07\x9b\r\ud800\n\tz") == "a\\x1b]0;x\\x07\\x9b\\x0d\\xd800\n\tz"
