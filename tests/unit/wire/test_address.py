"""Addresses of nodes: what people write, taken apart."""

import pytest

from perdure.core.errors import InvalidArgument
from perdure.wire.address import address_of


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://127.0.0.1:7373", "ws://127.0.0.1:7373/api/v1/wire"),
        ("ws://h:1", "ws://h:1/api/v1/wire"),
        ("http://h", "ws://h:80/api/v1/wire"),
        ("https://h", "wss://h:443/api/v1/wire"),
        ("wss://h:7/", "wss://h:7/api/v1/wire"),
        (" http://[::1]:7373 ", "ws://[::1]:7373/api/v1/wire"),
        ("https://h/behind/a/proxy/", "wss://h:443/behind/a/proxy/api/v1/wire"),
    ],
)
def test_addresses(text: str, url: str) -> None:
    """The wire of a node is found below its address."""
    assert address_of(text).url == url


@pytest.mark.parametrize(
    "text", ["", "h", "h:1", "ftp://h", "http://", "http://h:99999", "http://u:p@h", "http://h/?a=1", "http://h#x"]
)
def test_what_is_none(text: str) -> None:
    """What cannot be an address is refused, and the message shows one that can."""
    with pytest.raises(InvalidArgument):
        address_of(text)


def test_certificates_are_for_tls() -> None:
    """`ca` without TLS is a mistake, and so is one that is no file of certificates."""
    with pytest.raises(InvalidArgument, match="TLS"):
        address_of("http://h", ca="x.pem")
    with pytest.raises(InvalidArgument, match="certificates"):
        address_of("https://h", ca="/does/not/exist.pem")
