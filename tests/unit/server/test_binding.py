"""Where a node may listen, and what is said when it may not."""

import logging

import pytest

from perdure.core.errors import InvalidArgument
from perdure.server.binding import check_binding, is_loopback

LOOPBACK = ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST", "::1%lo"]
BEYOND = ["0.0.0.0", "::", "10.0.0.1", "192.168.1.7", "2001:db8::1", "node.example", "127.1", "localhost.evil.example", ""]


@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback_needs_nothing(host: str, caplog: pytest.LogCaptureFixture) -> None:
    """Neither key nor TLS, and nothing is said."""
    assert is_loopback(host)
    check_binding(host, has_keys=False, has_tls=False, insecure=False)
    assert not caplog.records


@pytest.mark.parametrize("host", BEYOND)
def test_beyond_loopback_a_key_is_needed(host: str) -> None:
    """TLS alone keeps nobody out; the message says what does. Names are not looked up."""
    assert not is_loopback(host)
    with pytest.raises(InvalidArgument, match=r"perdure key create .* 127\.0\.0\.1, or insist with --insecure"):
        check_binding(host, has_keys=False, has_tls=True, insecure=False)


@pytest.mark.parametrize(
    ("has_keys", "has_tls", "insecure", "said"),
    [
        (True, True, False, None),
        (True, False, False, "without TLS"),
        (False, True, True, "everyone who reaches it is an admin"),
    ],
)
def test_what_is_allowed_may_be_worth_a_warning(
    has_keys: bool, has_tls: bool, insecure: bool, said: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Keys in clear on the way, and no keys at all."""
    caplog.set_level(logging.WARNING)
    check_binding("0.0.0.0", has_keys=has_keys, has_tls=has_tls, insecure=insecure)
    assert [said in record.message for record in caplog.records if said] == ([True] if said else [])
