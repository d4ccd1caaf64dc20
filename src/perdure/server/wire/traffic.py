"""What has gone over the connections of the wire: frames, messages and bytes, both ways. Only ever grows in a node's life."""

from typing import Any

from msgspec import Struct

from perdure.wire.frames import Inbox, Outbox


class Traffic(Struct, kw_only=True):
    """Seen from the node: `in` is what workers and clients said to it."""

    frames_in: int = 0
    frames_out: int = 0
    messages_in: int = 0
    messages_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    def add_in(self, inbox: Inbox[Any]) -> None:
        """What one connection has brought."""
        self.frames_in += inbox.frames_in
        self.messages_in += inbox.messages_in
        self.bytes_in += inbox.bytes_in

    def add_out(self, outbox: Outbox) -> None:
        """What one session was told."""
        self.frames_out += outbox.frames_out
        self.messages_out += outbox.messages_out
        self.bytes_out += outbox.bytes_out
