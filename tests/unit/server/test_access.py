"""Who is let in, as whom, and what is said to everybody else."""

import logging

import pytest

from perdure.core.errors import PermissionDenied, ResourceExhausted, Unauthenticated
from perdure.core.principal import ROLES
from perdure.runtime.api_key import hash_of, is_hash, new_api_key
from perdure.server.access import Gate, KnownKey, Principal
from perdure.server.backoff import DELAY_MAX_US, FORGET_AFTER_US, FREE_FAILURES, Backoff, bucket
from perdure.testing.virtual_clock import VirtualClock

HERE = {"host": "127.0.0.1:7373"}
SECOND = 1_000_000


def gate_of(**roles: str) -> tuple[Gate, dict[str, str], VirtualClock]:
    clock = VirtualClock(0)
    keys = {name: new_api_key() for name in roles}
    known = [KnownKey(Principal(name, role), hash_of(keys[name])) for name, role in roles.items()]
    return Gate(known, clock), keys, clock


def with_key(key: str) -> dict[str, str]:
    return {**HERE, "authorization": f"Bearer {key}"}


def test_each_key_is_its_principal() -> None:
    """Whichever stands first or last in the list."""
    gate, keys, _ = gate_of(ann="admin", bob="read-only", cid="worker")
    for name, role in (("ann", "admin"), ("bob", "read-only"), ("cid", "worker")):
        assert gate.admit(with_key(keys[name]), "10.0.0.1") == Principal(name, role)


@pytest.mark.parametrize("shown", ["", "Bearer", "Bearer ", "Basic YTpi", "pdk_abc"])
def test_no_key_is_said_to_be_missing(shown: str) -> None:
    """And counts as no failure, however often."""
    gate, _, _ = gate_of(ann="admin")
    for _ in range(100):
        with pytest.raises(Unauthenticated, match="an API key is needed"):
            gate.admit({**HERE, "authorization": shown}, "10.0.0.1")


@pytest.mark.parametrize("spoil", [lambda key: key[:-1], lambda key: key + "A", lambda key: key.swapcase(), hash_of])
def test_a_key_that_is_nearly_right_is_wrong(spoil) -> None:
    """Neither a part, nor other letters, nor the hash from the configuration."""
    gate, keys, _ = gate_of(ann="admin")
    with pytest.raises(Unauthenticated, match="not known"):
        gate.admit(with_key(spoil(keys["ann"])), "10.0.0.1")


def test_roles_are_what_they_are() -> None:
    """A table to look at before a role gets more."""
    told = {role: {p for p in ("read", "operate", "work", "administer") if Principal("x", role).may(p)} for role in ROLES}
    assert told == {
        "admin": {"read", "operate", "work", "administer"},
        "operator": {"read", "operate"},
        "read-only": {"read"},
        "worker": {"work"},
    }
    with pytest.raises(PermissionDenied, match="'x' has the role read-only, which may not operate: it takes admin or operator"):
        Principal("x", "read-only").require("operate")


def test_keys_leave_no_trace(caplog: pytest.LogCaptureFixture) -> None:
    """Neither a known one nor an unknown one is in an error, a log line or a repr."""
    gate, keys, _ = gate_of(ann="admin")
    unknown = new_api_key()
    caplog.set_level(logging.DEBUG)
    said = ""
    for _ in range(FREE_FAILURES + 2):
        with pytest.raises((Unauthenticated, ResourceExhausted)) as caught:
            gate.admit(with_key(unknown), "10.0.0.1")
        said += repr(caught.value)
    gate.admit(with_key(keys["ann"]), "10.0.0.1")
    said += caplog.text + repr(gate) + repr(vars(gate))
    assert "10.0.0.1" in said
    for key in (unknown, keys["ann"]):
        assert key[4:] not in said


def test_keys_differ_and_are_known_by_their_form() -> None:
    """256 bits of chance behind the prefix."""
    keys = {new_api_key() for _ in range(100)}
    assert len(keys) == 100
    assert all(key.startswith("pdk_") and len(key) == 47 for key in keys)
    assert all(is_hash(hash_of(key)) and not is_hash(key) for key in keys)


# ----------------------------------------------------------------------------------------------------------------------- backoff


def refusals(gate: Gate, clock: VirtualClock, peer: str, count: int) -> list[float]:
    """Seconds to wait after each of `count` unknown keys in a row; 0 where the key was looked at."""
    told = []
    for _ in range(count):
        try:
            gate.admit(with_key("pdk_wrong"), peer)
        except ResourceExhausted as error:
            told.append(error.retry_after)
        except Unauthenticated:
            told.append(0.0)
    return told


def test_unknown_keys_in_a_row_are_made_to_wait() -> None:
    """After five, for a second, then two, four … up to a minute; what is refused meanwhile does not make it longer."""
    gate, _, clock = gate_of(ann="admin")
    assert refusals(gate, clock, "10.0.0.1", 7) == [0.0] * 5 + [1.0, 1.0]
    for wait in (1, 2, 4, 8, 16, 32, 60, 60):
        clock.jump(clock.now() + wait * SECOND - 1)
        assert refusals(gate, clock, "10.0.0.1", 1) == [0.000001]
        clock.jump(clock.now() + 1)
        assert refusals(gate, clock, "10.0.0.1", 1) == [0.0]


def test_a_known_key_is_never_locked_out() -> None:
    """Neither from another address nor from the one that is made to wait: workers share addresses with whatever goes wrong beside them."""
    gate, keys, clock = gate_of(ann="admin")
    refusals(gate, clock, "10.0.0.1", 50)
    assert gate.admit(with_key(keys["ann"]), "10.0.0.1").name == "ann"
    assert gate.admit(with_key(keys["ann"]), "10.0.0.2").name == "ann"
    assert refusals(gate, clock, "10.0.0.1", 1) == [1.0]
    assert refusals(gate, clock, "10.0.0.2", 1) == [0.0]


def test_an_address_that_keeps_quiet_begins_anew() -> None:
    """A quarter of an hour is long enough."""
    gate, _, clock = gate_of(ann="admin")
    refusals(gate, clock, "10.0.0.1", 6)
    clock.jump(FORGET_AFTER_US)
    assert refusals(gate, clock, "10.0.0.1", 6) == [0.0] * 5 + [1.0]


def test_memory_for_failures_is_bounded() -> None:
    """The address that failed longest ago is forgotten first."""
    backoff = Backoff(addresses_max=3)
    for _ in range(FREE_FAILURES):
        backoff.fail("10.0.0.1", 0)
    assert backoff.fail("10.0.0.1", 0) == SECOND
    for number in range(2, 100):
        backoff.fail(f"10.0.0.{number}", 0)
    assert len(backoff) == 3
    assert backoff.fail("10.0.0.1", 0) == 0


def test_delays_end_at_their_bound() -> None:
    """However long somebody goes on."""
    backoff, now = Backoff(), 0
    for _ in range(1_000):
        now += backoff.fail("10.0.0.1", now)
    assert backoff.fail("10.0.0.1", now) <= DELAY_MAX_US


def test_addresses_of_one_network_count_together() -> None:
    """One machine has a whole /64 of IPv6; an IPv4 address is the same however it is written."""
    assert bucket("2001:db8::1") == bucket("2001:db8::ffff:1") != bucket("2001:db8:0:1::1")
    assert bucket("::ffff:10.0.0.1") == bucket("10.0.0.1") != bucket("10.0.0.2")
    assert bucket("fe80::1%eth0") == bucket("fe80::2")
    assert bucket("unix" * 100) == ("unix" * 100)[:64]
