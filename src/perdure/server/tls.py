"""TLS on the node's port: a certificate and its key, from files an operator names."""

import ssl
from pathlib import Path

from perdure.core.errors import InvalidArgument


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """TLS 1.2 and newer, with the suites OpenSSL takes for good. Raises `InvalidArgument` naming the file that does not do."""
    for name, path in (("server.tls_certificate", certificate), ("server.tls_key", key)):
        try:
            path.read_bytes()
        except OSError as error:
            raise InvalidArgument(f"{name}: {path} cannot be read: {error.strerror}") from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    try:
        context.load_cert_chain(certificate, key, password=_no_passphrase)
    except ssl.SSLError as error:
        why = (
            "they do not belong together" if error.reason == "KEY_VALUES_MISMATCH" else error.reason or "they are no PEM files"
        )
        raise InvalidArgument(
            f"server.tls_certificate {certificate} and server.tls_key {key} are no certificate and its key without a passphrase: {why}"
        ) from None
    return context


def _no_passphrase() -> str:
    """OpenSSL would ask for one on the terminal, which a server may not have."""
    return ""
