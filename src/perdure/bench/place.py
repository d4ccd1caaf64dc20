"""Where measurements write: on the disk that was named, or on one that is a disk."""

from pathlib import Path
from tempfile import gettempdir

from perdure.bench.machine import is_in_memory


def place_of(data: Path | None) -> Path:
    """`data`, made if need be; without one the system's temporary directory, or the current one where that is in memory."""
    if data is not None:
        data.mkdir(parents=True, exist_ok=True)
        return data
    temporary = Path(gettempdir())
    return Path.cwd() if is_in_memory(temporary) else temporary
