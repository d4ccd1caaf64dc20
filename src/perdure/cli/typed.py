"""What people type after `perdure workflow …`: its options' types, and the checks of what the types cannot say. Light: read by `--help`."""

from datetime import UTC, datetime
from typing import Annotated, Any, Final

from cyclopts import Parameter

from perdure.cli.options import Output, Place

Json = Annotated[list[str] | None, Parameter(json_list=False, allow_leading_hyphen=True)]
"""`--input`: the text of one JSON value each time."""
Run = Annotated[str | None, Parameter(name="--run")]

HERE: Final = Place()
TEXT: Final = Output()


def payloads(texts: list[str] | None) -> list[Any]:
    """Each `--input` as the payload it is, untouched. Raises `InvalidArgument` for what is no JSON."""
    from msgspec import MsgspecError, Raw, json

    from perdure.core.codec import is_deeper
    from perdure.core.errors import InvalidArgument
    from perdure.sdk.encodable import NESTING_MAX

    found: list[Any] = []
    for text in texts or []:
        try:
            json.decode(text, type=Raw)
        except (MsgspecError, ValueError, RecursionError) as error:
            shortened = text if len(text) <= 60 else text[:60] + "…"
            hint = f"; text needs quotes of its own: '\"{text}\"'" if _is_bare(text) else ""
            raise InvalidArgument(f"--input {shortened} is not JSON: {error}{hint}") from error
        if is_deeper(text.encode(), NESTING_MAX):
            raise InvalidArgument(f"--input {text[:60]}… is nested deeper than {NESTING_MAX} levels")
        found.append(Raw(json.format(text.encode(), indent=-1)))
    return found


def _is_bare(text: str) -> bool:
    """Whether it looks like text whose quotes the shell took away, such as order-42."""
    return len(text) <= 60 and text[:1].isalpha() and text.isprintable() and not set(text) & set("\"'\\")


def identified(id: str) -> str:
    """A workflow id as typed. Raises `InvalidArgument` for what can be none."""
    from perdure.sdk.options import identifier

    return identifier(id, "workflow id")


def aware(instant: datetime | None) -> datetime | None:
    """A time as typed; without a zone it is UTC."""
    return instant.replace(tzinfo=UTC) if instant is not None and instant.tzinfo is None else instant
