"""Where a node is: its address as people write it, taken apart."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from perdure.core.errors import InvalidArgument
from perdure.wire.messages import PATH

PORT: Final = 7373
DEFAULT: Final = f"http://127.0.0.1:{PORT}"

_SECURE: Final = {"http": False, "ws": False, "https": True, "wss": True}


@dataclass(frozen=True)
class Address:
    """`tls` is None for an address without. `base` is the node's address for people, `url` that of its wire."""

    host: str
    port: int
    path: str
    tls: ssl.SSLContext | None

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def base(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.authority}{self.path}"

    @property
    def url(self) -> str:
        return f"{'wss' if self.tls else 'ws'}://{self.authority}{self.path}{PATH}"


def address_of(text: str, ca: str | Path | None = None) -> Address:
    """Read `http://host:port` (https, ws, wss too). `ca`: a file of certificates to trust in place of the system's.

    Raises `InvalidArgument`.
    """
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError as error:
        raise InvalidArgument(f"{text!r} is no address of a node: {error}") from None
    if parts.scheme not in _SECURE or not parts.hostname:
        raise InvalidArgument(f"{text!r} is no address of a node: it looks like http://127.0.0.1:{PORT} or https://host:{PORT}")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise InvalidArgument("an address of a node has no user, query or fragment; the API key is given as api_key=")
    secure = _SECURE[parts.scheme]
    if ca is not None and not secure:
        raise InvalidArgument("ca is for addresses with TLS: https://…")
    default = 443 if secure else 80
    return Address(parts.hostname, default if port is None else port, parts.path.rstrip("/"), _tls(ca) if secure else None)


def _tls(ca: str | Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if ca is None else str(ca))
    except OSError as error:
        raise InvalidArgument(f"ca={str(ca)!r} cannot be read as certificates: {error}") from None
