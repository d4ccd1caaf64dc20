"""`perdure version`. Imports nothing it does not need: it must answer at once."""


def version() -> int:
    """Print the version of perdure."""
    from importlib import metadata

    print(metadata.version("perdure"))
    return 0
