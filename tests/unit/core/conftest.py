"""Lower limits, so that their edges can be reached."""

import sys
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from perdure.core.limits import LIMITS


@pytest.fixture
def lower_limits(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Call it with fields of `Limits`: every module of the machine then knows these."""

    def lower(**fields: int) -> None:
        limits = replace(LIMITS, **fields)
        for name, module in list(sys.modules.items()):
            if name.startswith("perdure.core.machine") and hasattr(module, "LIMITS"):
                monkeypatch.setattr(module, "LIMITS", limits)

    return lower
