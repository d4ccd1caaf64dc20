"""What users and perdure itself test with: virtual time, seeded chance, a simulated disk, a whole node under one seed.

`environment` is what tests of workflows need; it is loaded when it is first used, so that the auditor beside it never loads an engine.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from perdure.testing.stuck import StuckError
    from perdure.testing.virtual_environment import Environment, environment

__all__ = ["Environment", "StuckError", "environment"]

_NAMES: Final = frozenset(__all__)


if not TYPE_CHECKING:  # a checker that saw it would take every misspelt name for right

    def __getattr__(name: str) -> Any:
        if name not in _NAMES:
            raise AttributeError(f"module 'perdure.testing' has no attribute {name!r}")
        return getattr(import_module("perdure.testing.virtual_environment"), name)
