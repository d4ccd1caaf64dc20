"""Task tokens: text that says where a claim is, and nothing else is one."""

import pytest

from perdure.core.errors import InvalidArgument
from perdure.sdk import task_token
from perdure.sdk.task_token import TaskToken

TOKEN = TaskToken("default", "Bestellung ü/42", "r-1", 7, 2, "secret.a1")


def test_what_goes_in_comes_out() -> None:
    """Plain text that survives URLs and headers."""
    text = task_token.text_of(TOKEN)
    assert task_token.read(text) == TOKEN
    assert set(text) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
    assert "secret" not in text


def test_any_change_is_noticed() -> None:
    """Every letter counts: one exchanged, lost or added makes it no token, and the error does not repeat it."""
    text = task_token.text_of(TOKEN)
    for place in range(len(text)):
        other = "A" if text[place] != "A" else "B"
        for broken in (text[:place] + other + text[place + 1 :], text[:place] + text[place + 1 :], text[:place]):
            with pytest.raises(InvalidArgument) as caught:
                task_token.read(broken)
            assert broken[6:] == "" or broken[6:] not in str(caught.value)
    for broken in (text + "A", text + "\n", " " + text, "", None, 7, b"p1.", "p1.ü", "p1." + "A" * 20_000):
        with pytest.raises(InvalidArgument, match="no task token"):
            task_token.read(broken)
