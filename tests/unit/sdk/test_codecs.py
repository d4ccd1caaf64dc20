"""Codecs that ship, and what is done with any codec: payloads there and back, everything else untouched."""

import sys
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from perdure.codecs import AesGcm, Chain, PayloadCodec, Zstd
from perdure.core import commands as cm
from perdure.core import requests as rq
from perdure.core.errors import CodecError, InvalidArgument
from perdure.core.payload import ABSENT, is_absent
from perdure.sdk.codecs import codec_of
from perdure.sdk.encoding import Encoding, any_encoded, is_encoded
from perdure.sdk.failures import to_exception, to_failure

KEY, OTHER = b"k" * 32, b"o" * 16
DATA = [b"", b"null", b'"' + b"x" * 100_000 + b'"', bytes(range(256)), "ü🎉".encode()]


class Reversed:
    def encode(self, data: bytes) -> bytes:
        return data[::-1]

    def decode(self, data: bytes) -> bytes:
        return data[::-1]

    def __repr__(self) -> str:
        return "Reversed"


@pytest.mark.parametrize("data", DATA, ids=lambda data: f"{len(data)} bytes")
@pytest.mark.parametrize(
    "codec", [Zstd(), Zstd(19), AesGcm({"a": KEY}), Chain(Zstd(), AesGcm({"a": KEY})), Chain(), Reversed()], ids=repr
)
def test_there_and_back(codec: PayloadCodec, data: bytes) -> None:
    """Whatever the bytes."""
    assert codec.decode(codec.encode(data)) == data


def test_zstd_makes_smaller_or_leaves_as_it_is() -> None:
    """Never more than a byte longer."""
    assert len(Zstd().encode(DATA[2])) < 100
    assert all(len(Zstd().encode(data)) <= len(data) + 1 for data in DATA)


def test_a_chain_compresses_before_it_encrypts() -> None:
    """In the order given."""
    assert len(Chain(Zstd(), AesGcm({"a": KEY})).encode(DATA[2])) < 200


def test_the_same_payload_never_looks_the_same_twice() -> None:
    """Nonces are fresh: equal values cannot be told from the journal."""
    codec = AesGcm({"a": KEY})
    assert len({codec.encode(b"same") for _ in range(100)}) == 100
    assert b"same" not in codec.encode(b"same")


def test_keys_rotate_by_their_id() -> None:
    """The newest encrypts, the old one still reads; who lacks it is told which."""
    old, both = AesGcm({"2025": OTHER}), AesGcm({"2025": OTHER, "2026": KEY})
    assert both.current == "2026"
    assert both.decode(old.encode(b"x")) == b"x"
    assert AesGcm({"2025": OTHER, "2026": KEY}, current="2025").encode(b"x")[2:6] == b"2025"
    with pytest.raises(CodecError, match="the key '2026', which is not among those given \\(2025\\)"):
        old.decode(both.encode(b"x"))


def test_what_was_changed_or_is_of_another_key_is_refused() -> None:
    """Every byte counts, the key id included; secrets are in no message and no repr."""
    sealed = AesGcm({"a": KEY}).encode(b"paid 5")
    for place in range(len(sealed)):
        broken = sealed[:place] + bytes((sealed[place] ^ 1,)) + sealed[place + 1 :]
        with pytest.raises(CodecError):
            AesGcm({"a": KEY, "`": KEY}).decode(broken)
    with pytest.raises(CodecError, match="not the one it was encrypted with") as caught:
        AesGcm({"a": OTHER * 2}).decode(sealed)
    assert "oooo" not in str(caught.value) + repr(AesGcm({"a": OTHER}))
    for short in (b"", b"\1", b"\1\xff", sealed[:20]):
        with pytest.raises(CodecError, match="not encoded by AesGcm"):
            AesGcm({"a": KEY}).decode(short)
    with pytest.raises(CodecError, match="not encoded by Zstd"):
        Zstd().decode(b"\7hello")


@pytest.mark.parametrize(
    "make",
    [
        lambda: AesGcm({}),
        lambda: AesGcm({"a": b"short"}),
        lambda: AesGcm({"": KEY}),
        lambda: AesGcm({"a": "k" * 32}),
        lambda: AesGcm({"a": KEY}, current="b"),
        lambda: Zstd(0),
        lambda: Zstd(True),
        lambda: codec_of(3),
        lambda: codec_of(Zstd),
        lambda: Chain(object()),
    ],
)
def test_what_is_no_codec_is_refused_where_it_is_written(make: Any) -> None:
    """Wrong keys, wrong levels, things that cannot encode."""
    with pytest.raises(InvalidArgument):
        make()


@pytest.mark.parametrize(
    ("package", "make", "extra"),
    [("zstandard", Zstd, "zstd"), ("cryptography.hazmat.primitives.ciphers.aead", lambda: AesGcm({"a": KEY}), "crypto")],
)
def test_a_missing_extra_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch, package: str, make: Any, extra: str) -> None:
    """The exact command."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"pip install 'perdure\[{extra}\]'"):
        make()


# ------------------------------------------------------------------------------------------------------------------- whole values


def encoding() -> Encoding:
    return Encoding(Reversed())


def test_every_payload_of_a_request_is_encoded_and_nothing_else() -> None:
    """Arguments, keywords, memo, the signal that comes along; ids, names and attributes stay as they are."""
    request = rq.StartWorkflow(
        workflow_id="w",
        workflow_type="fulfil",
        run_id="r",
        seed=1,
        request_id="s",
        input=(Raw(b'"secret"'), Raw(b"null")),
        keywords={"k": Raw(b'"secret"')},
        memo={"m": Raw(b'"secret"')},
        attributes={"customer": "c1"},
        signal=rq.SignalBody(name="go", input=(Raw(b'"secret"'),), signal_id="x"),
    )
    encoded = encoding().encoded(request)
    text = msgspec.json.encode(encoded)
    assert b"secret" not in text
    assert text.count(b"perdure/encoded") == 5
    assert any_encoded(encoded.input, {})
    assert encoded.attributes == {"customer": "c1"}
    assert msgspec.json.decode(text, type=rq.StartWorkflow) == encoded
    assert encoding().decoded(encoded) == request


def test_commands_and_facts_of_a_report() -> None:
    """However deep they lie; what has no payload is the very same object."""
    steps = (
        rq.Commands(
            commands=(
                cm.ScheduleActivity(at=1, name="charge", input=(Raw(b"1"),), summary="in clear"),
                cm.StartTimer(at=1, delay=5),
            )
        ),
        rq.ActivitySucceeded(command=2, attempt=1, token="t", result=Raw(b'"secret"')),
    )
    report = rq.Report(workflow_id="w", run_id="r", worker="a", build_id="b", based_on=1, decided=1, nonce="n", steps=steps)
    encoded = encoding().encoded(report)
    assert is_encoded(encoded.steps[1].result)  # type: ignore[union-attr]
    assert encoded.steps[0].commands[1] is steps[0].commands[1]  # type: ignore[union-attr]
    assert encoding().decoded(encoded) == report
    plain = rq.TimerDue(workflow_id="w", run_id="r", command=3)
    assert encoding().encoded(plain) is plain


def test_payloads_from_before_there_was_a_codec_are_read() -> None:
    """So that one can be introduced under open runs; absent ones stay absent."""
    assert encoding().decoded(
        rq.HeartbeatActivity(workflow_id="w", run_id="r", command=2, attempt=1, token="t", details=Raw(b"[1]"))
    ).details == Raw(b"[1]")
    assert is_absent(
        encoding()
        .encoded(rq.HeartbeatActivity(workflow_id="w", run_id="r", command=2, attempt=1, token="t", details=ABSENT))
        .details
    )


class Declined(Exception):
    def __init__(self, message: str, card: str) -> None:
        super().__init__(message)
        self.card = card


def raised() -> BaseException:
    try:
        try:
            int("secret cause")
        except ValueError as cause:
            error = Declined("secret message", "secret card")
            error.add_note("secret note")
            raise error from cause
    except Declined as error:
        return error


def test_what_a_failure_tells_is_encoded_and_what_decides_is_not() -> None:
    """Messages, arguments, fields, notes and tracebacks of the whole chain; class names stay, for retry policies go by them."""
    failure = to_failure(raised())
    assert "secret" in failure.message + failure.traceback
    encoded = encoding().encoded(failure)
    text = msgspec.json.encode(encoded)
    assert b"secret" not in text
    assert (encoded.type, encoded.message, encoded.cause and encoded.cause.type) == ("Declined", "(encoded)", "ValueError")
    decoded = encoding().decoded(encoded)
    assert decoded == failure
    assert str(to_exception(decoded)) == "secret message"


def test_a_codec_that_raises_is_named() -> None:
    """Whatever it raises is one error; so is data that is none of its own."""

    class Broken:
        def encode(self, data: bytes) -> bytes:
            raise OSError("no key service")

        def decode(self, data: bytes) -> bytes:
            raise KeyError("gone")

    with pytest.raises(CodecError, match="cannot be encoded by Broken: OSError: no key service"):
        Encoding(Broken()).encoded((Raw(b"1"),))
    with pytest.raises(CodecError, match="cannot be decoded by Broken: KeyError"):
        Encoding(Broken()).decoded(encoding().encoded((Raw(b"1"),)))
    with pytest.raises(CodecError):
        encoding().decoded((Raw(b'{"perdure/encoded":"no base64!"}'),))


class Pretends:
    """A codec whose `encode` and `decode` give what they are told to."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def encode(self, _data: bytes) -> Any:
        return self.given

    def decode(self, _data: bytes) -> Any:
        return self.given


@pytest.mark.parametrize("noise", [b"", b"\xff{{", b'"cut', b"1 2", "text", None], ids=repr)
def test_what_decoding_gives_must_be_a_payload(noise: Any) -> None:
    """Also for a codec that cannot tell a wrong key: noise is a `CodecError`, in values and in failures, not the run's own fault."""
    failure = encoding().encoded(to_failure(ValueError("secret")))
    for value in (encoding().encoded((Raw(b"1"),)), failure):
        with pytest.raises(CodecError, match="by Pretends"):
            Encoding(Pretends(noise)).decoded(value)
    with pytest.raises(CodecError, match="by Pretends"):
        Encoding(Pretends(b"[1]")).decoded(failure)


def test_bytes_of_any_kind_are_taken_and_nothing_else() -> None:
    """Libraries give bytearrays and memoryviews, too."""
    for kind in (bytes, bytearray, memoryview):
        assert Encoding(Pretends(kind(b"1"))).decoded(encoding().encoded((Raw(b"2"),))) == (Raw(b"1"),)
        Encoding(Pretends(kind(b"1"))).encoded((Raw(b"2"),))
    for wrong in ("text", None, 1):
        with pytest.raises(CodecError, match=r"encode returned \w+, not bytes"):
            Encoding(Pretends(wrong)).encoded((Raw(b"2"),))
