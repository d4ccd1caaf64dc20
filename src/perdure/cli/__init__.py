"""The command line. Data goes to standard output, everything else to standard error; what exit codes mean is in `exits`.

Every command group is a module of its own, imported when it is asked for, and imports what it needs when it runs: `--help` stays quick.
"""

import sys


def main() -> None:
    """The entry point `perdure`."""
    tokens = sys.argv[1:]
    if tokens in (["version"], ["--version"]):  # not worth loading a command line for
        from perdure.cli.version import version

        sys.exit(version())
    from perdure.cli.app import run

    sys.exit(run(tokens))
