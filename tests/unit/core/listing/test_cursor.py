"""Cursors: what was given out comes back, and nothing else is taken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import InvalidArgument
from perdure.core.listing.columns import WHOLE_MAX
from perdure.core.listing.cursor import decode_cursor, encode_cursor

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.integers(-WHOLE_MAX, WHOLE_MAX), TEXTS, TEXTS)
def test_a_cursor_stands_for_its_key(instant: int, run_id: str, workflow_id: str) -> None:
    """Any instant and any ids survive the way out and back."""
    assert decode_cursor(encode_cursor((instant, run_id, workflow_id))) == (instant, run_id, workflow_id)


@given(st.one_of(st.text(max_size=40), st.just(encode_cursor((2**70, "r", "w"))), st.just("W" * 9_999)))
def test_no_text_does_worse_than_be_refused(cursor: str) -> None:
    """Text nobody gave out is `InvalidArgument`, or by luck a key within bounds."""
    try:
        key = decode_cursor(cursor)
    except InvalidArgument:
        return
    assert abs(key[0]) <= WHOLE_MAX


def test_an_instant_past_all_time_is_refused() -> None:
    """A number no row can have is not handed to a store."""
    with pytest.raises(InvalidArgument):
        decode_cursor(encode_cursor((2**63, "r", "w")))
