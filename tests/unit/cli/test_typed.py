"""What is typed after `--input`: JSON as it stands, and a hint for the commonest mistake."""

import pytest

from perdure.cli.typed import payloads
from perdure.core.errors import InvalidArgument


def test_json_is_taken_as_it_stands() -> None:
    """Digits and order are kept; newlines between tokens, which would tear lines apart, are not."""
    typed = ["1.10", "123456789012345678901234567890", '{"b":1,\n"a":[ ]}', "null"]
    assert [bytes(payload) for payload in payloads(typed)] == [
        *(b"1.10", b"123456789012345678901234567890", b'{"b":1,"a":[]}', b"null"),
    ]
    assert payloads(None) == []


@pytest.mark.parametrize("text", ["", "bob", "{", "NaN", "1 2", "'x'", '"\ud800"', "[" * 100_000])
def test_what_is_no_json_is_refused(text: str) -> None:
    """With a short message, however long the text is."""
    with pytest.raises(InvalidArgument, match="is not JSON") as told:
        payloads([text])
    assert len(str(told.value)) < 250


def test_json_as_deep_as_the_sdk_takes_it() -> None:
    """Two hundred levels: what goes past the sdk's encoder keeps its bound."""
    assert len(payloads(["[" * 200 + "]" * 200])) == 1
    with pytest.raises(InvalidArgument, match="nested deeper than 200 levels"):
        payloads(["[" * 201 + "]" * 201])


@pytest.mark.parametrize("text", ["bob", "order-42", "two words"])
def test_bare_text_gets_a_hint(text: str) -> None:
    """Shells eat quotes, and everybody falls for it once."""
    with pytest.raises(InvalidArgument, match=f"quotes of its own: '\"{text}\"'"):
        payloads([text])


@pytest.mark.parametrize("text", ["{a", "1x", "it's", 'say "x"', "a" * 100])
def test_what_quotes_would_not_mend_gets_no_hint(text: str) -> None:
    """A hint that does not work is worse than none."""
    with pytest.raises(InvalidArgument) as told:
        payloads([text])
    assert "quotes of its own" not in str(told.value)
