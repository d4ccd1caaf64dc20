"""What keeps a web page of somebody else's out of a node its reader can reach.

A browser sends requests wherever a page tells it to. A page of another origin is known by `Origin`; one whose own name was made to lead to
this machine (DNS rebinding) by `Host`, which then is that name. No other client sends either to deceive: it has nothing to gain.
"""

from collections.abc import Collection, Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from perdure.core.errors import PermissionDenied

_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


def check_host(headers: Mapping[str, str], hosts: Collection[str]) -> None:
    """Raises `PermissionDenied` when `Host` names neither an address, this machine itself, nor one of `hosts` (without a port).

    An address cannot be rebound, so any is as good as the loopback's.
    """
    host = headers.get("host", "")
    name = _name_of(host)
    if name is None or not (_is_local(name) or name in {known.lower().rstrip(".") for known in hosts}):
        raise PermissionDenied(
            f"this node is not known as {host[:255]!r}: if it should be, add that name to the setting server.hosts"
        )


def check_origin(headers: Mapping[str, str], origins: Collection[str]) -> None:
    """Raises `PermissionDenied` when a page of another origin asks that is none of `origins` (each such as `https://ui.example`).

    Who sends no `Origin` is no page that could do harm: browsers send it with everything but plain reads, whose answers they keep from
    pages of other origins. The scheme is not compared: in front of the node TLS may already have ended.
    """
    origin = headers.get("origin")
    if origin is None or origin in origins:
        return
    place = _place_of(origin)
    if place is None or place != _place_of(f"{origin.partition(':')[0]}://{headers.get('host', '')}"):
        raise PermissionDenied(
            f"a page of {origin[:255]!r} may not reach this node: if it should, add it to the setting server.origins"
        )


def readable_by(app: ASGIApp, origins: Collection[str]) -> ASGIApp:
    """The application, with answers that browsers let pages of `origins` read (CORS). Without any it is the application itself."""
    if not origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=tuple(origins),
        allow_methods=("GET", "POST", "PUT", "PATCH", "DELETE"),
        allow_headers=("authorization", "content-type", "idempotency-key", "last-event-id", "x-request-id"),
        expose_headers=("retry-after", "x-request-id"),
    )


def _name_of(host: str) -> str | None:
    place = _place_of(f"http://{host}")
    return place[0] if place else None


def _place_of(url: str) -> tuple[str, int | None] | None:
    """(host, port) of an origin, None for what is none."""
    try:
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname or parts.username is not None or parts.path or parts.query:
            return None
        return parts.hostname.rstrip("."), parts.port or _PORTS[parts.scheme]
    except ValueError:
        return None


def _is_local(name: str) -> bool:
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True
