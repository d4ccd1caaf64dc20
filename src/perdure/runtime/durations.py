"""Durations as people write them: `30d`, `1d12h`, or plain seconds."""

import re
from datetime import timedelta
from typing import Final

_UNITS: Final = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)([wdhms])")


def duration(text: str) -> timedelta:
    """`30d`, `12h`, `1d12h`, or plain seconds. Raises `ValueError` for anything else."""
    try:
        if re.fullmatch(r"\d+(\.\d+)?", text):
            return timedelta(seconds=float(text))
        if re.fullmatch(f"({_PART.pattern})+", text):
            return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text)))
    except OverflowError as error:
        raise ValueError(f"{text} is longer than can be counted") from error
    raise ValueError(f"{text!r} is no duration: say 30d, 12h, 90m, or seconds")


def spelled(length: timedelta) -> str:
    """A duration as it may be typed: `30d`, `1d12h`, `1.5s`."""
    seconds, found = length.total_seconds(), ""
    for unit, size in _UNITS.items():
        if unit not in "ws":
            found += f"{whole:.0f}{unit}" if (whole := seconds // size) else ""
            seconds %= size
    return found + (f"{seconds:g}s" if seconds or not found else "")
