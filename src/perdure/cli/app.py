"""The tree of commands and the one place where errors become exit codes. Commands are named here and imported when asked for."""

import os
import sys
from collections.abc import Sequence
from typing import Final

from cyclopts import App, CycloptsError, Parameter

from perdure.cli.exits import BROKEN_PIPE, INTERRUPTED, OK, complain, is_expected, say
from perdure.cli.version import version

ABOUT: Final = (
    "Durable execution for Python: run workflows that survive crashes, and look into them.\n\n"
    "Data goes to standard output, everything else to standard error. Exit codes: 0 ok, 1 workflow failed / lint findings / "
    "replay mismatch / corruption, 2 usage, 3 not found, 4 conflict, 5 refused, 6 unavailable, 124 timeout."
)


def build() -> App:
    """All commands."""
    app = App(
        name="perdure",
        help=ABOUT,
        help_format="plaintext",
        help_formatter="default" if sys.stdout.isatty() else "plain",
        version_flags=[],
        default_parameter=Parameter(negative=()),
        result_action="return_value",
    )
    for name, target, about in _COMMANDS:
        app.command(target, name=name, help=about)
    app.command(version, name="version")
    app.register_install_completion_command()  # pyright: ignore[reportUnknownMemberType]
    return app


_COMMANDS: Final = (
    ("dev", "perdure.cli.dev:dev", "Run an engine and a worker in one process, with its journal on disk."),
    ("server", "perdure.cli.server:server", "Run a node for workers and clients in other processes."),
    ("worker", "perdure.cli.worker:worker", "Run code for a node elsewhere, in processes that are watched."),
    ("demo", "perdure.cli.demo:demo", "Run orders with mock services and audit them; --crash kills it meanwhile."),
    ("workflow", "perdure.cli.workflow:app", "Start runs, talk to them, look at them."),
    ("replay", "perdure.cli.replay:replay", "Replay exported histories against today's code."),
    ("lint", "perdure.cli.lint:lint", "Find what would not replay, by reading workflow code."),
    ("doctor", "perdure.cli.doctor:doctor", "See whether a node will run well here."),
    ("journal", "perdure.cli.journal:app", "Work with a data directory."),
    ("config", "perdure.cli.config:config", "Print every setting with its source."),
    ("key", "perdure.cli.key:app", "Make API keys."),
    ("chaos", "perdure.cli.chaos:app", "Kill real processes under a workload, and audit what is left."),
    ("bench", "perdure.cli.bench:app", "Measure."),
    ("rules", "perdure.cli.rules:rules", "List what perdure promises and how its proofs stand."),
    ("sim", "perdure.cli.sim:sim", "Run a whole node under virtual time and one seed."),
)


def run(tokens: Sequence[str]) -> int:
    """Carry out one command and return its exit code. No error of a user's making ends in a traceback."""
    as_json = wants_json(tokens)
    _fill_closed_streams()
    try:
        code = build()(list(tokens), exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except CycloptsError as error:
        from perdure.core.errors import InvalidArgument

        return complain(InvalidArgument(" ".join(str(error).split())), as_json=as_json)
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # whoever read has enough; the last flush must not complain
        return BROKEN_PIPE
    except KeyboardInterrupt:
        say("perdure: interrupted")
        return INTERRUPTED
    except Exception as error:
        if not is_expected(error):
            raise
        return complain(error, as_json=as_json)
    return code if isinstance(code, int) else OK


def _fill_closed_streams() -> None:
    """What was closed from outside (`>&-`) goes nowhere; without this, the next file opened would take its place and get what is printed."""
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != fd:
                os.dup2(opened, fd)
                os.close(opened)
            setattr(sys, name, open(fd, "r" if fd == 0 else "w", encoding="utf-8", closefd=False))  # noqa: SIM115


def wants_json(tokens: Sequence[str]) -> bool:
    """True when errors are to be JSON: needed also when the tokens cannot be parsed."""
    for token, following in zip(tokens, [*tokens[1:], ""], strict=False):
        if token == "--":  # noqa: S105  no password
            return False
        if token in {"-o", "--output"} and following in {"json", "jsonl"}:
            return True
        if token in {"-ojson", "-ojsonl", "-o=json", "-o=jsonl", "--output=json", "--output=jsonl"}:
            return True
    return False
