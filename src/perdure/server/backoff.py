"""Who keeps showing keys that nobody knows is made to wait: longer each time, one address for itself, in bounded memory.

Keys are far too long to be guessed; this keeps what a broken or hostile caller costs small, and the log short.
"""

from collections import OrderedDict
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final

ADDRESSES_MAX: Final = 10_000
"""Addresses remembered; past it the one that failed longest ago is forgotten."""
FREE_FAILURES: Final = 5
"""So many failures cost nothing yet: a key with a typing mistake."""
DELAY_FIRST_US: Final = 1_000_000
DELAY_MAX_US: Final = 60_000_000
"""Microseconds an address waits after its first failure that is not free, doubled with each further one up to this."""
FORGET_AFTER_US: Final = 15 * 60_000_000
"""An address that has been quiet for so long begins anew."""


@dataclass
class _Failures:
    count: int
    last: int
    until: int
    """Until then every further unknown key from there is refused unheard."""


class Backoff:
    """Failures by address. Time is the caller's, in microseconds."""

    def __init__(self, *, addresses_max: int = ADDRESSES_MAX) -> None:
        self._addresses_max = addresses_max
        self._failures: OrderedDict[str, _Failures] = OrderedDict()

    def fail(self, peer: str, now: int) -> int:
        """Count a failure; the microseconds that are still to be waited from an earlier one, in which case this one is not counted."""
        address = bucket(peer)
        known = self._failures.get(address)
        if known is None or now - known.last >= FORGET_AFTER_US:
            known = self._failures[address] = _Failures(0, now, 0)
        if now < known.until:
            return known.until - now
        known.count += 1
        known.last = now
        beyond = known.count - FREE_FAILURES
        if beyond >= 0:
            known.until = now + min(DELAY_FIRST_US << min(beyond, 16), DELAY_MAX_US)
        self._failures.move_to_end(address)
        if len(self._failures) > self._addresses_max:
            self._failures.popitem(last=False)
        return 0

    def __len__(self) -> int:
        """Addresses remembered."""
        return len(self._failures)


def bucket(peer: str) -> str:
    """What an address is counted under: itself, or the network of an IPv6 one, of which one machine has 2⁶⁴ to choose from."""
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return peer[:64]
    if isinstance(address, IPv6Address):
        return str(address.ipv4_mapped or IPv6Address(int(address) >> 64 << 64))
    return str(address)
