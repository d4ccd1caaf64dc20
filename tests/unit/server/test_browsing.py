"""Pages of other origins, and pages under names that were made to lead here."""

import pytest

from perdure.core.errors import PermissionDenied
from perdure.runtime.api_key import hash_of, new_api_key
from perdure.server.access import Gate, KnownKey, Principal
from perdure.testing.virtual_clock import VirtualClock


def refused(gate: Gate, **headers: str) -> bool:
    try:
        gate.admit(headers, "127.0.0.1")
    except PermissionDenied:
        return True
    return False


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:7373", "LOCALHOST.:80", "app.localhost", "127.0.0.1:7373", "[::1]:7373", "[::1]", "10.1.2.3:7373"],
)
def test_a_node_without_keys_answers_to_addresses_and_local_names(host: str) -> None:
    """What cannot be made to lead elsewhere."""
    assert not refused(Gate.open(), host=host)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:7373",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "",
        "a@127.0.0.1",
        "127.0.0.1/x",
        "[::1",
        "127.0.0.1:x",
        "user:pw@localhost",
    ],
)
def test_a_node_without_keys_does_not_answer_to_other_names(host: str) -> None:
    """A page whose name was rebound to this machine sends its own."""
    assert refused(Gate.open(), host=host)


def test_without_a_host_nothing_is_answered() -> None:
    """HTTP/1.1 demands one."""
    assert refused(Gate.open())


def test_names_can_be_added() -> None:
    """Compared without port, case and closing dot."""
    gate = Gate.open(hosts=["Perdure.Internal"])
    assert not refused(gate, host="perdure.internal.:7373")
    assert refused(gate, host="other.internal")


def test_with_keys_the_host_is_compared_only_when_names_are_given() -> None:
    """A page under a rebound name has no key; a proxy in front may send any name."""
    key = new_api_key()
    known = [KnownKey(Principal("ann", "admin"), hash_of(key))]
    headers = {"host": "any.example", "authorization": f"Bearer {key}"}
    assert not refused(Gate(known, VirtualClock(0)), **headers)
    assert refused(Gate(known, VirtualClock(0), hosts=["perdure.internal"]), **headers)


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://127.0.0.1:7373", "127.0.0.1:7373"),
        ("https://localhost:7373", "localhost:7373"),
        ("http://localhost", "localhost:80"),
        ("https://localhost", "localhost"),
        ("http://LOCALHOST:7373", "localhost:7373"),
        ("http://[::1]:7373", "[::1]:7373"),
    ],
)
def test_its_own_pages_reach_it(origin: str, host: str) -> None:
    """Host and port of the page are those that are asked; default ports are those of the page's scheme."""
    assert not refused(Gate.open(), host=host, origin=origin)


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "http://127.0.0.1",
        "http://127.0.0.1:7374",
        "null",
        "",
        "file://",
        "http://127.0.0.1:7373/x",
        "http://127.0.0.1:7373@evil.example",
    ],
)
def test_pages_of_other_origins_do_not(origin: str) -> None:
    """Also pages of this machine on another port, and those that hide where they are from."""
    assert refused(Gate.open(), host="127.0.0.1:7373", origin=origin)


def test_origins_can_be_added() -> None:
    """Exactly as the browser sends them."""
    gate = Gate.open(origins=["https://ui.example"])
    assert not refused(gate, host="127.0.0.1:7373", origin="https://ui.example")
    assert refused(gate, host="127.0.0.1:7373", origin="https://ui.example.evil.example")
