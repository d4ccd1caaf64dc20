"""Every error has a status, and says what it can without giving anything away."""

import msgspec
import pytest

from perdure.core.errors import (
    ERRORS,
    InvalidArgument,
    ResourceExhausted,
    Unavailable,
    WorkflowAlreadyStarted,
)
from perdure.server.envelope import OWN, STATUS, Refusal, details_of, envelope, headers_of, status_of


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.code)
def test_every_code_has_a_status(kind: type) -> None:
    """A new class of error must be given its place in the table."""
    assert 400 <= STATUS[kind.code] < 600


def test_no_code_is_there_twice_or_for_nothing() -> None:
    """The table holds perdure's codes and no others; HTTP's own are apart."""
    assert set(STATUS) == {kind.code for kind in ERRORS}
    assert set(OWN) & set(STATUS) == set()


def test_an_error_says_its_fields_and_when_to_come_back() -> None:
    """Retry-After is in whole seconds, never sooner than the error said."""
    assert details_of(WorkflowAlreadyStarted("there is one", run_id="r-1")) == {"run_id": "r-1"}
    assert details_of(InvalidArgument("no")) == {}
    assert headers_of(ResourceExhausted("later", retry_after=2.1)) == ((b"retry-after", b"3"),)
    assert headers_of(ResourceExhausted("later", retry_after=0)) == ((b"retry-after", b"1"),)
    assert headers_of(Unavailable("gone"))[0][0] == b"retry-after"
    assert status_of(Unavailable("gone")) == 503


def test_an_envelope_is_always_text() -> None:
    """Also when a message quotes what is none."""
    assert msgspec.json.decode(envelope("NOT_FOUND", "x", "r")) == {
        "error": {"code": "NOT_FOUND", "message": "x", "request_id": "r"}
    }
    assert b"\\\\ud800" in envelope("NOT_FOUND", "no '\ud800'", "r")


def test_a_refusal_has_a_code_of_the_tables() -> None:
    """Anything else is a mistake in the program."""
    assert Refusal("URL_TOO_LONG", "x").status == 414
    with pytest.raises(KeyError):
        Refusal("MADE_UP", "x")
