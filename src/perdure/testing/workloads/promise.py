"""What a workload says when something is not as it must be."""


class BrokenPromiseError(AssertionError):
    """A workload found something that must not be."""


def promise(holds: bool, what: str) -> None:
    if not holds:
        raise BrokenPromiseError(what)
