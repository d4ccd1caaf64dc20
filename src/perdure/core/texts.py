"""Free text beside ids: reasons, summaries, origins. People write it and only people read it, but it is written down all the same."""

from typing import Final

REASON_CHARS_MAX: Final = 10_000
"""Characters in a cancel's, terminate's or resume's reason."""


DETAILS_CHARS_MAX: Final = 20_000
"""Characters of what a run says of itself (`workflow.set_details`)."""


def fault_of_text(value: object, chars_max: int) -> str | None:
    """Why `value` is no text of at most `chars_max` characters that can be written as UTF-8, or None when it is."""
    if not isinstance(value, str):
        return f"must be text, not {type(value).__name__}"
    if len(value) > chars_max:
        return f"must be at most {chars_max:,} characters long, not {len(value):,}"
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return "is not valid Unicode text (it holds a lone surrogate)"
    return None
