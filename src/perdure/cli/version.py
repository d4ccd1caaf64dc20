"""`perdure version`. Imports nothing it does not need: it must answer at once."""

from importlib import metadata


def version() -> int:
    """Print the version of perdure."""
    print(metadata.version("perdure"))
    return 0
