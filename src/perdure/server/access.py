"""The gate of a node: every request passes it once, and what comes out is who is asking.

It never tells a caller which keys there are, keeps hashes of them only, and puts no part of a key into an error, a log line or a `repr`.
"""

import hmac
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from perdure.core.errors import ResourceExhausted, Unauthenticated
from perdure.core.principal import Permission, Principal, Role
from perdure.ports import Clock
from perdure.runtime.api_key import hash_of
from perdure.runtime.clock import RealClock
from perdure.server.backoff import Backoff
from perdure.server.browsing import check_host, check_origin

__all__ = ["Gate", "KnownKey", "Permission", "Principal", "Role"]

ANYONE: Final = Principal("anyone", "admin")
"""Who asks a node that has no keys."""

NEEDED: Final = "an API key is needed: PERDURE_API_KEY for commands, api_key= in programs, Authorization: Bearer pdk_… in HTTP"

log: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class KnownKey:
    """A key as the node knows it: whose it is, and its hash (`perdure.runtime.api_key.hash_of`)."""

    principal: Principal
    hash: str


class Gate:
    """Says who is asking, or raises why they may not ask.

    `keys`: who is let in; without any, everybody is, as an admin. `hosts` are further names this node is reached by, `origins` the
    origins of pages (`https://ui.example`) that may reach it beside its own. With keys the `Host` header is compared only when `hosts`
    are given: a page that was led here by a name has no key to show.
    """

    def __init__(
        self,
        keys: Collection[KnownKey],
        clock: Clock,
        *,
        hosts: Collection[str] = (),
        origins: Collection[str] = (),
    ) -> None:
        self._keys = tuple((key.hash.encode(), key.principal) for key in keys)
        self._clock = clock
        self._hosts = frozenset(hosts)
        self._origins = frozenset(origins)
        self._backoff = Backoff()

    @classmethod
    def open(cls, clock: Clock | None = None, *, hosts: Collection[str] = (), origins: Collection[str] = ()) -> "Gate":
        """No keys: everyone is an admin. For loopback, or for whoever insists (`--insecure`)."""
        return cls((), clock or RealClock(), hosts=hosts, origins=origins)

    @property
    def is_open(self) -> bool:
        """True when no key is asked for."""
        return not self._keys

    def admit(self, headers: Mapping[str, str], peer: str) -> Principal:
        """Who is asking. `headers` have lower-case names; `peer` is the address the connection comes from, without a port.

        Raises `Unauthenticated` without a key or with an unknown one, `ResourceExhausted` when unknown ones keep coming from that
        address, and `PermissionDenied` for web pages of other origins. A known key is let in from any address at any time: who shares
        an address with a caller that fails is not to suffer for it.
        """
        if self.is_open or self._hosts:
            check_host(headers, self._hosts)
        check_origin(headers, self._origins)
        if self.is_open:
            return ANYONE
        principal = self._owner_of(_shown_key(headers))
        if principal is None:
            self._refuse(peer)
        return principal

    def _owner_of(self, key: str) -> Principal | None:
        """Looks at every key, whatever it has found, so that the time it takes tells nothing."""
        shown, found = hash_of(key).encode(), None
        for known, principal in self._keys:
            if hmac.compare_digest(known, shown):
                found = principal
        return found

    def _refuse(self, peer: str) -> NoReturn:
        wait = self._backoff.fail(peer, self._clock.now())
        if wait:
            raise ResourceExhausted("too many unknown API keys came from this address", retry_after=wait / 1_000_000)
        log.warning("an unknown API key came from %s", peer)
        raise Unauthenticated("this API key is not known here")


def _shown_key(headers: Mapping[str, str]) -> str:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not key.strip():
        raise Unauthenticated(NEEDED)
    return key.strip()
