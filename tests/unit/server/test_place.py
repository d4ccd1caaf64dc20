"""`DATA/server.json`: private, whole, and never an error for who reads it."""

import stat
from pathlib import Path

import pytest

from perdure.server.place import PLACE_BYTES_MAX, PLACE_FILE, Place, announce, announced, withdraw, within_reach


def test_what_is_announced_is_read_and_withdrawn(tmp_path: Path) -> None:
    """Only this user may read it; a later life of the node replaces it whole; withdrawn twice is fine."""
    announce(tmp_path, "http://127.0.0.1:1", 7, "pdk_1")
    announce(tmp_path, "http://127.0.0.1:2", 8)
    assert announced(tmp_path) == Place(url="http://127.0.0.1:2", pid=8)
    assert stat.S_IMODE((tmp_path / PLACE_FILE).stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [PLACE_FILE]
    withdraw(tmp_path)
    withdraw(tmp_path)
    assert announced(tmp_path) is None


def test_a_file_with_open_rights_is_replaced_by_a_private_one(tmp_path: Path) -> None:
    """Whatever lay there, also half of one that was being written."""
    for name in (PLACE_FILE, f"{PLACE_FILE}.new"):
        (tmp_path / name).write_text("{")
        (tmp_path / name).chmod(0o666)
    announce(tmp_path, "http://127.0.0.1:1", 7, "pdk_1")
    assert stat.S_IMODE((tmp_path / PLACE_FILE).stat().st_mode) == 0o600
    found = announced(tmp_path)
    assert found is not None
    assert (found.key, "pdk_1" in repr(found)) == ("pdk_1", False)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"url": 3}', b"\xff", b"x" * (PLACE_BYTES_MAX + 1)])
def test_what_is_none_reads_as_none(tmp_path: Path, content: bytes) -> None:
    """Neither rubbish nor a directory of that name keeps a command from looking elsewhere."""
    (tmp_path / PLACE_FILE).write_bytes(content)
    assert announced(tmp_path) is None
    (tmp_path / PLACE_FILE).unlink()
    (tmp_path / PLACE_FILE).mkdir()
    assert announced(tmp_path) is None
    assert announced(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("host", "reached"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.1"),
        ("::", "::1"),
        ("10.0.0.7", "10.0.0.7"),
        ("node.example", "node.example"),
    ],
)
def test_where_a_node_is_reached_from_its_own_machine(host: str, reached: str) -> None:
    """What is bound is not always what can be connected to."""
    assert within_reach(host) == reached
