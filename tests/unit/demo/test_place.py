"""A place belongs to one demo, and a temporary one goes unless it is to stay."""

from pathlib import Path

import pytest

from perdure.demo.place import OtherDemoError, Place, opened


def test_a_temporary_place_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`keep` may be decided at the last moment."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with opened(None, keep=False) as place:
        assert place.path.is_dir()
    assert list(tmp_path.iterdir()) == []
    with opened(None, keep=False) as place:
        place.keep = True
    assert list(tmp_path.iterdir()) == [place.path]


def test_a_given_place_stays(tmp_path: Path) -> None:
    """It is made when it is not there, and never removed."""
    with opened(tmp_path / "a" / "b", keep=False) as place:
        pass
    assert place.path.is_dir()


def test_the_seed_of_a_place_is_settled_once(tmp_path: Path) -> None:
    """A fresh seed is drawn once; later demos take it over, may be longer, but neither shorter nor of another seed."""
    place = Place(tmp_path, keep=True)
    seed = place.settle(5, None)
    assert place.settle(5, None) == seed
    assert place.settle(8, seed) == seed
    for orders, other in ((8, seed + 1), (7, seed)):
        with pytest.raises(OtherDemoError, match="holds a demo of 8 orders"):
            place.settle(orders, other)
