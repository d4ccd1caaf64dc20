"""Where a node may listen: on loopback always, beyond it only with a key or when somebody insists."""

import logging
from ipaddress import ip_address
from typing import Final

from perdure.core.errors import InvalidArgument

log: Final = logging.getLogger(__name__)


def is_loopback(host: str) -> bool:
    """True for an address that only this machine reaches. Names but `localhost` are not asked for: what they mean may change."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def check_binding(host: str, *, has_keys: bool, has_tls: bool, insecure: bool) -> None:
    """Raises `InvalidArgument` when everybody who reaches `host` would be an admin and nobody has said that this is meant.

    What is allowed and still worth a thought is logged as a warning.
    """
    if is_loopback(host):
        return
    if not has_keys and not insecure:
        raise InvalidArgument(
            f"listening on {host} without an API key would make everyone who reaches it an admin: make a key (perdure key create "
            f"--name NAME --role ROLE) and put it into the configuration, listen on 127.0.0.1, or insist with --insecure"
        )
    if not has_keys:
        log.warning("listening on %s without any API key: everyone who reaches it is an admin", host)
    elif not has_tls:
        log.warning(
            "listening on %s without TLS: API keys and payloads can be read on their way (server.tls_certificate)", host
        )
