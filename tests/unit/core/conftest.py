"""Lower limits, so that their edges can be reached."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from perdure.core.limits import LIMITS
from perdure.testing.machine import sole_owner


@pytest.fixture
def lower_limits(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Call it with fields of `Limits`: stories begun from here on are kept under these."""

    def lower(**fields: int) -> None:
        monkeypatch.setattr(sole_owner, "LIMITS", replace(LIMITS, **fields))

    return lower
