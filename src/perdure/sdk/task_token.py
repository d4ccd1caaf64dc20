"""Task tokens: the text that names one claim of an activity, handed to whoever completes it from outside.

It is opaque and a secret: whoever has it may end the attempt. It says where the claim is, and carries the claim's own token, so that it is
good in any process and for nothing else.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from typing import Final

from msgspec import MsgspecError, Struct, json

from perdure.core.errors import InvalidArgument

CHARS_MAX: Final = 10_000
_VERSION: Final = "p1."
_CHECK_BYTES: Final = 6
"""Not a signature: it tells a token that was cut or mistyped from one whose claim is gone."""


class TaskToken(Struct, frozen=True, array_like=True):
    """What a task token says."""

    namespace: str
    workflow_id: str
    run_id: str
    command: int
    attempt: int
    token: str


_decode: Final = json.Decoder(TaskToken).decode


def text_of(token: TaskToken) -> str:
    """The token as text of letters, digits, `-`, `_` and `.`."""
    data = json.encode(token)
    return _VERSION + urlsafe_b64encode(_check(data) + data).decode().rstrip("=")


def read(text: object) -> TaskToken:
    """What `text` says. Raises `InvalidArgument` for what is no task token or not all of one; the text itself is not repeated."""
    if isinstance(text, str) and text.startswith(_VERSION) and len(text) <= CHARS_MAX:
        try:
            data = urlsafe_b64decode(text[len(_VERSION) :] + "=" * (-(len(text) - len(_VERSION)) % 4))
            token = _decode(data[_CHECK_BYTES:])
        except (ValueError, MsgspecError):
            pass
        else:
            if text == text_of(token):
                return token
    raise InvalidArgument("this is no task token: it must be exactly what activity.info().task_token gave")


def _check(data: bytes) -> bytes:
    return blake2b(data, digest_size=_CHECK_BYTES, person=b"task token").digest()
