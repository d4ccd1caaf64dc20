"""Certificates and keys: what does, and which file is named when one does not."""

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.core.errors import InvalidArgument
from perdure.server.tls import server_context

Make = Callable[..., tuple[Path, Path]]


def test_old_protocols_are_not_spoken(make_certificate: Make) -> None:
    """TLS 1.2 is the oldest."""
    assert server_context(*make_certificate()).minimum_version == ssl.TLSVersion.TLSv1_2


def test_files_that_are_missing_are_named(tmp_path: Path, make_certificate: Make) -> None:
    """By setting and path."""
    certificate, key = make_certificate()
    with pytest.raises(InvalidArgument, match=r"server\.tls_certificate: .*/none cannot be read: No such file"):
        server_context(tmp_path / "none", key)
    with pytest.raises(InvalidArgument, match=r"server\.tls_key: .*/none cannot be read: No such file"):
        server_context(certificate, tmp_path / "none")


def test_a_key_of_another_certificate_does_not_do(make_certificate: Make) -> None:
    """Which OpenSSL would say in capitals."""
    certificate, _ = make_certificate("one")
    _, key = make_certificate("two")
    with pytest.raises(InvalidArgument, match="do not belong together"):
        server_context(certificate, key)


def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked(make_certificate: Make) -> None:
    """A server has no terminal."""
    with pytest.raises(InvalidArgument, match="without a passphrase"):
        server_context(*make_certificate(passphrase=b"secret"))


def test_what_is_no_pem_file_is_refused(tmp_path: Path, make_certificate: Make) -> None:
    """Nothing of its content is repeated."""
    certificate, _ = make_certificate()
    (tmp_path / "text").write_text("pdk_secret", encoding="utf-8")
    with pytest.raises(InvalidArgument, match="are no certificate and its key") as caught:
        server_context(certificate, tmp_path / "text")
    assert "pdk_secret" not in str(caught.value)
