"""`perdure sim`: the command around `perdure.testing.simulation`."""


def sim(*, seed: int, seeds: int = 1) -> int:
    """Run a whole node under virtual time, a faulty disk and one seed, and check the laws after every step. Exits with 1 at a breach.

    Args:
        seed: The number that decides everything.
        seeds: How many seeds to run, from that one on.
    """
    from perdure.core.errors import InvalidArgument
    from perdure.testing.simulation import main

    if seeds < 1 or seed < 0:
        raise InvalidArgument("--seed must be 0 or more, and --seeds at least 1")
    return main(seed, seeds)
