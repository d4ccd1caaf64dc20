"""Frames: what was said in one turn of the loop goes over the wire as one binary WebSocket message.

A frame is lines of JSON: a `Head`, then messages, which the other end decodes in one call. A message too large for a frame goes alone, in
pieces: a mark (`+`, or `.` for the last piece), the head's line, then a piece of the message's text. Payloads inside are what they were.
"""

from collections import deque
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import MsgspecError, Struct

from perdure.core.errors import InvalidArgument, LimitExceeded
from perdure.wire.messages import FromNode, Head, Message, ToNode

FRAME_BYTES: Final = 256 * 1024
"""A frame takes no further message that would make it larger."""
PIECE_BYTES: Final = 512 * 1024
"""A message larger than this travels in pieces of this size."""
WEBSOCKET_BYTES_MAX: Final = 1024 * 1024
"""Either end refuses larger WebSocket messages: no frame is."""
TO_NODE_BYTES_MAX: Final = 64 * 1024 * 1024
"""One message to a node, pieces and all: a start with two dozen of the largest arguments fits."""
FROM_NODE_BYTES_MAX: Final = 1024 * 1024 * 1024
"""One message from a node: a worker is sent histories whole."""
APART_BYTES: Final = 16 * 1024
"""Messages of a larger frame are decoded one by one, so that a payload kept from one does not keep the whole frame in memory."""

M = TypeVar("M")

_encode: Final = msgspec.json.Encoder().encode


class FrameError(InvalidArgument):
    """What came is no frame of this protocol, and nothing after it can be relied on."""


def text_of(message: object) -> bytes:
    """A message as JSON on one line. Payloads are carried as they came, and may have newlines between their tokens.

    Raises `MsgspecError`, `ValueError` or `TypeError` for what cannot be written.
    """
    text = _encode(message)
    return msgspec.json.format(text, indent=-1) if b"\n" in text else text


class Outbox:
    """Messages on their way into frames. `size` is what waits, in bytes."""

    __slots__ = ("_cut", "_texts", "bytes_out", "frames_out", "messages_out", "size")

    def __init__(self) -> None:
        self._texts: deque[tuple[int, bytes]] = deque()
        self._cut = 0
        """So much of the first message has left in pieces."""
        self.size = 0
        self.frames_out = 0
        self.bytes_out = 0
        self.messages_out = 0

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, text: bytes, ask: int = 0) -> None:
        """Put a message behind the others. `ask`: the number of the ask it answers, if it must be kept until it has arrived."""
        self._texts.append((ask, text))
        self.size += len(text)

    def clear(self) -> None:
        """Forget what waits."""
        self._texts.clear()
        self._cut = 0
        self.size = 0

    def take(self, head: Head) -> tuple[bytes, list[int]]:
        """The next frame, and the asks answered in it (the numbers given with `add`). With nothing to say it is a head alone."""
        texts = self._texts
        first = _encode(head)
        if texts and len(texts[0][1]) > PIECE_BYTES:
            return self._piece(first)
        lines, asks = [first], list[int]()
        size = 0
        while texts and (not size or size + len(texts[0][1]) <= FRAME_BYTES):
            ask, text = texts.popleft()
            size += len(text)
            lines.append(text)
            if ask:
                asks.append(ask)
        self.size -= size
        self.messages_out += len(lines) - 1
        return self._counted(b"\n".join(lines)), asks

    def _piece(self, first: bytes) -> tuple[bytes, list[int]]:
        ask, text = self._texts[0]
        piece = text[self._cut : self._cut + PIECE_BYTES]
        self._cut += len(piece)
        self.size -= len(piece)
        if self._cut < len(text):
            return self._counted(b"+" + first + b"\n" + piece), []
        self._texts.popleft()
        self._cut = 0
        self.messages_out += 1
        return self._counted(b"." + first + b"\n" + piece), [ask] if ask else []

    def _counted(self, frame: bytes) -> bytes:
        self.frames_out += 1
        self.bytes_out += len(frame)
        return frame


class Unreadable(Struct, frozen=True):
    """Stands where a message stood that this end does not know. `id` is the ask it was or answers, 0 when it has none."""

    id: int
    why: str


class Inbox(Generic[M]):
    """Frames as they come, each into its messages."""

    def __init__(self, known: Any, message_bytes_max: int) -> None:
        self._one: msgspec.json.Decoder[Any] = msgspec.json.Decoder(known)
        self._bytes_max = message_bytes_max
        self._pieces: list[bytes] = []
        self._size = 0
        self.frames_in = 0
        self.bytes_in = 0
        self.messages_in = 0

    def clear(self) -> None:
        """The connection is another one: what came in part will not be completed."""
        self._pieces, self._size = [], 0

    def take(self, frame: bytes) -> tuple[Head, list[M | Unreadable]]:
        """The head and the messages of a frame. Raises `FrameError` for what is none, `LimitExceeded` for a message too large."""
        self.frames_in += 1
        self.bytes_in += len(frame)
        if frame[:1] in (b"+", b"."):
            return self._piece(frame)
        messages = self._messages(frame)
        head = messages[0] if messages else None
        if type(head) is not Head:
            raise FrameError("a frame begins with its head")
        del messages[0]
        self.messages_in += len(messages)
        return head, messages

    def _messages(self, text: bytes) -> list[Any]:
        try:
            if not text.isascii():
                text.decode()  # payloads are passed over, down to bytes that are no text
            if len(text) <= APART_BYTES:
                return self._one.decode_lines(text)
        except UnicodeDecodeError as error:
            raise FrameError(f"the frame is no UTF-8 text: {error}") from None
        except (MsgspecError, RecursionError):
            pass  # find out which of them it is
        return [self._message(line) for line in text.split(b"\n")]

    def _message(self, line: bytes) -> Any:
        try:
            return self._one.decode(line)
        except (MsgspecError, RecursionError) as error:
            return Unreadable(number_of(line), str(error))

    def _piece(self, frame: bytes) -> tuple[Head, list[Any]]:
        end = frame.find(b"\n")
        head = self._message(frame[1:end]) if end > 0 else None
        if type(head) is not Head:
            raise FrameError("a frame begins with its head")
        self._pieces.append(frame[end + 1 :])
        self._size += len(frame) - end - 1
        if self._size > self._bytes_max:
            raise LimitExceeded(f"one message is larger than {self._bytes_max:,} bytes (message_bytes_max)")
        if frame[:1] == b"+":
            return head, []
        text = b"".join(self._pieces)
        self.clear()
        if b"\n" in text:
            raise FrameError("a message in pieces is one message")
        self.messages_in += 1
        return head, self._messages(text)


class _Numbered(Struct):
    id: int = 0


def number_of(line: bytes) -> int:
    """The number in a line that may be no message at all; 0 when it has none."""
    try:
        return max(0, msgspec.json.decode(line, type=_Numbered).id)
    except (MsgspecError, RecursionError):
        return 0


def to_node() -> "Inbox[ToNode]":
    """What reads what asks say."""
    return Inbox(ToNode, TO_NODE_BYTES_MAX)


def from_node() -> "Inbox[FromNode]":
    """What reads what a node says."""
    return Inbox(FromNode, FROM_NODE_BYTES_MAX)


def single(head: Head, message: Message) -> bytes:
    """A frame of one small message."""
    return _encode(head) + b"\n" + text_of(message)
