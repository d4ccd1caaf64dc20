"""Frames: what is put in comes out, whatever its size; large messages travel in pieces; what is broken is told apart."""

import random

import pytest
from msgspec import Raw

from perdure.core.errors import LimitExceeded
from perdure.core.requests import SignalBody, SignalWorkflow
from perdure.wire import frames
from perdure.wire.frames import FRAME_BYTES, PIECE_BYTES, WEBSOCKET_BYTES_MAX, FrameError, Outbox, Unreadable, text_of, to_node
from perdure.wire.messages import AskCall, Forget, Head


def ask(number: int, size: int) -> AskCall:
    signal = SignalBody(name="s", input=(Raw(b'"' + b"x" * size + b'"'),), signal_id=f"{number}")
    return AskCall(id=number, request=SignalWorkflow(workflow_id="w", signal=signal))


def test_what_is_put_in_comes_out() -> None:
    """Messages of every size, from nothing to several pieces, arrive in order, in frames within their bounds, none held back."""
    chance = random.Random(7)
    sizes = [0, 1, FRAME_BYTES, PIECE_BYTES - 200, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES] * 3 + [10] * 200
    chance.shuffle(sizes)
    asks = [ask(number, size) for number, size in enumerate(sizes, 1)]
    outbox, inbox, count, answered, came = Outbox(), to_node(), 0, list[int](), list[object]()
    for each in asks:
        outbox.add(text_of(each), each.id)
    while outbox:
        count += 1
        frame, numbers = outbox.take(Head(n=count))
        answered += numbers
        assert len(frame) < WEBSOCKET_BYTES_MAX
        head, messages = inbox.take(frame)
        assert head.n == count
        came += messages
    assert [text_of(each) for each in came] == [text_of(each) for each in asks]
    assert answered == [each.id for each in asks]
    assert outbox.size == 0


def test_a_frame_takes_all_that_waits() -> None:
    """What was said in one turn leaves at once."""
    outbox = Outbox()
    for number in range(100):
        outbox.add(text_of(Forget(id=number + 1)))
    frame, _ = outbox.take(Head(n=1))
    assert len(to_node().take(frame)[1]) == 100
    assert not outbox


def test_payloads_with_newlines_stay_one_line() -> None:
    """A payload may have newlines between its tokens; a message has none."""
    signal = SignalBody(name="s", input=(Raw(b'[1,\n 2,\n "a\\nb"]'),))
    text = text_of(AskCall(id=1, request=SignalWorkflow(workflow_id="w", signal=signal)))
    assert b"\n" not in text
    outbox = Outbox()
    outbox.add(text)
    message = to_node().take(outbox.take(Head(n=1))[0])[1][0]
    assert isinstance(message, AskCall)


def test_one_broken_message_does_not_hide_the_others() -> None:
    """The messages around one that cannot be read are read; that one is named by its number when it has one."""
    frame = b'{"is":"frame","n":1}\n{"is":"forget","id":1}\n{"is":"nonsense","id":7}\n{"is"\n{"is":"forget","id":2}'
    _, messages = to_node().take(frame)
    assert [message.id for message in messages] == [1, 7, 0, 2]  # type: ignore[union-attr]
    assert [isinstance(message, Unreadable) for message in messages] == [False, True, True, False]


@pytest.mark.parametrize(
    "frame", [b"", b"{}", b'{"is":"forget","id":1}', b"+", b"+\n", b"\xff\xfe", b'.{"is":"frame","n":1}', b"[" * 9_000]
)
def test_what_is_no_frame(frame: bytes) -> None:
    """Whatever does not begin with a head is refused."""
    with pytest.raises(FrameError):
        to_node().take(frame)


def test_a_message_too_large_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces are not collected beyond the bound of one message."""
    monkeypatch.setattr(frames, "TO_NODE_BYTES_MAX", 1_000)
    inbox = to_node()
    piece = b'+{"is":"frame","n":1}\n' + b"x" * 600
    inbox.take(piece)
    with pytest.raises(LimitExceeded, match="message_bytes_max"):
        inbox.take(piece)
