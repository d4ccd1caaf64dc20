"""`perdure chaos`: the commands around `perdure.chaos.run`."""

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from cyclopts import App, Parameter

from perdure.cli.exits import OK

Output: TypeAlias = Annotated[Literal["text", "json", "markdown"], Parameter(name=["--output", "-o"])]

app = App(name="chaos", help="Kill real processes under a workload, and audit what is left.")


@app.command
def run(
    trial: str = "evidence",
    /,
    *,
    seeds: int | None = None,
    runs: int | None = None,
    seed: int | None = None,
    short: bool = False,
    timeout: float | None = None,
    out: Path | None = None,
    output: Output = "text",
) -> int:
    """Run a trial. Exits with 1 when anything is lost, doubled, out of order, not reproduced by replay, or too little was done to prove it.

    Args:
        trial: Which one; `perdure chaos list` names them.
        seeds: How many seeds, one after the other, each with a node, workers and a world of its own; 10 unless --seed or --short is given.
        runs: Runs of each seed; 30 unless --short is given. Each tenth seed from 1 on has 72, most of them in flight when it is upgraded.
        seed: The first seed; it decides workload, faults and kills. Alone it is that one seed.
        short: One seed of 10 runs with a few kills.
        timeout: Seconds that one seed may take.
        out: An empty or new directory where books and logs stay. When left out they stay only if something is wrong.
        output: text for people, json for programs, or markdown for a page.
    """
    from perdure.chaos.run import Plan
    from perdure.chaos.run import run as perform

    return perform(trial, Plan(seeds, runs, seed, short, timeout), out=out, output=output)


@app.command(name="list")
def list_(*, output: Annotated[Literal["text", "json"], Parameter(name=["--output", "-o"])] = "text") -> int:
    """List the trials there are."""
    from perdure.chaos.run import TRIALS
    from perdure.cli.show import emit, table

    if output == "json":
        emit([{"trial": name, "about": about} for name, about in TRIALS.items()], "json")
    else:
        table(("trial", "what happens"), TRIALS.items())
    return OK


@app.command
def report(directory: Path, /, *, output: Output = "text") -> int:
    """Judge what a trial left, anew from its books and logs, and print its table again. Exits as `run` does.

    Args:
        directory: What was given to `run` as --out.
        output: text for people, json for programs, or markdown for a page.
    """
    from perdure.chaos.run import report as judge

    return judge(directory, output=output)
