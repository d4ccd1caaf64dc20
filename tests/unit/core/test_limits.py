"""Bounds of the engine: what no engine could keep or work with is refused when it is set."""

import pytest

from perdure.core.limits import Limits


@pytest.mark.parametrize("name", ["news_kept", "message_commands_max"])
def test_bounds_from_one(name: str) -> None:
    """A bound of nothing, where nothing would get through any more, is refused by name; one is enough."""
    with pytest.raises(ValueError, match=f"{name} must be at least 1"):
        Limits(**{name: 0})
    assert getattr(Limits(**{name: 1}), name) == 1
