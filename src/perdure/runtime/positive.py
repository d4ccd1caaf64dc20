"""What bounds that are settings have in common: each is a number above zero."""

from typing import Final

from msgspec import Struct

WHOLE_MAX: Final = 2**53
"""Beyond it numbers are no longer exact in every JSON reader."""


class PositiveBounds(Struct, frozen=True, kw_only=True):
    """Every field a number above 0; one that is 0 would let nothing pass."""

    def __post_init__(self) -> None:
        """Raises `ValueError` naming the bound."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < WHOLE_MAX:
                raise ValueError(f"{name} must be a number above 0 and below {WHOLE_MAX}, not {value!r}")
