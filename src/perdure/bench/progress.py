"""How far a long measurement has come: one line on standard error, for terminals only. Never written to while a clock runs."""

import sys
from types import TracebackType
from typing import Self


class Progress:
    """Say what begins. Used as a context manager, so that the line is gone at the end, whatever the end."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()

    def __call__(self, text: str) -> None:
        self._write(f"measuring {text} …")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._write("")

    def _write(self, text: str) -> None:
        if self._shown:
            sys.stderr.write(f"\r\x1b[2K{text}")
            sys.stderr.flush()
