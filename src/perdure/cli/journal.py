"""`perdure journal …`: what a data directory holds. Works through the node that runs there, or on its files when none does."""

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from perdure.cli.exits import FAILED, OK, say
from perdure.cli.options import KEPT_FOR, Output, Retention
from perdure.cli.typed import TEXT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.ports import Files
    from perdure.store.journal.repair import Findings

app = App(name="journal", help="Work with a data directory.")


@app.command
async def export(
    data: Path,
    id: str | None = None,
    /,
    *,
    run: Annotated[str | None, Parameter(name="--run")] = None,
    namespace: str = "default",
) -> int:
    """Print runs as lines under checksums, for `replay` and for keeping: one run's header, events, notes and footer after the other.

    Args:
        data: The data directory.
        id: A workflow id; every run of the namespace when left out.
        run: One run of it; its current one when left out.
        namespace: The namespace the runs are in.
    """
    from perdure.cli.connection import connected
    from perdure.cli.options import Place
    from perdure.cli.progress import Bar
    from perdure.cli.show import write
    from perdure.core.errors import InvalidArgument
    from perdure.sdk.options import identifier
    from perdure.store.export import lines_of

    if run is not None and id is None:
        raise InvalidArgument("--run needs the workflow id it is a run of")
    _check(data)
    damaged = 0
    async with connected(Place(data=data, namespace=namespace)) as client:
        if id is not None:
            wanted = [(identifier(id, "workflow id"), run or "")]
        else:
            wanted = [(row.workflow_id, row.run_id) async for row in client.list(limit=1_000)]
        with Bar("exporting runs", len(wanted)) as bar:
            for workflow_id, run_id in reversed(wanted):
                record = await client.frontend.record(namespace, workflow_id, run_id)
                for line in lines_of(namespace, record):
                    write(line)
                bar.advance()
                if record.damage is not None:
                    damaged += 1
                    say(f"perdure: run {record.run_id} of workflow {workflow_id!r} is not whole: {record.damage.reason}")
    return FAILED if damaged else OK


@app.command
def verify(data: Path, /, *, output: Output = TEXT) -> int:
    """Read everything in a journal and report every fault: where it is and whose history it took. Changes nothing.

    Exit code 1 when there is a fault that no repair has dealt with. On a journal that is being written to, what is just being written
    counts as torn.

    Args:
        data: The data directory.
    """
    from perdure.store.journal.repair import verify as look

    _check(data)
    with _watched(data, "verifying") as files:
        findings = look(files)
    _tell(findings, output.output)
    return FAILED if any(not fault.kept for fault in findings.faults) else OK


@app.command
async def repair(data: Path, /, *, output: Output = TEXT) -> int:
    """Mend the journal of a stopped node: cut a torn end, and write damaged segments anew without what is damaged.

    Nothing is thrown away: each segment that is written anew is kept as it was under another name. Runs part of whose history is lost
    stay quarantined; the node opens without a fault.

    Args:
        data: The data directory.
    """
    from perdure.runtime.chance import RealChance
    from perdure.store.index.file import remove
    from perdure.store.index.schema import INDEX_FILE
    from perdure.store.journal.repair import repair as mend

    _check(data)
    with _watched(data, "reading") as files:
        findings = await mend(files, RealChance(), lambda: remove(data / INDEX_FILE))
    _tell(findings, output.output)
    if output.output == "text":
        for kept in findings.kept:
            say(f"what was in {kept.partition('.damaged')[0]} is kept in {kept}")
        say("the journal is whole" if findings.kept or findings.torn_bytes else "there was nothing to repair")
    return OK


@app.command
async def compact(data: Path, /, *, retention: Retention = KEPT_FOR, output: Output = TEXT) -> int:
    """Drop closed runs past their keep time from the journal of a stopped node, and the bytes they take up.

    A running node does this by itself, every now and then.

    Args:
        data: The data directory.
        retention: How long closed runs are kept: 30d, 12h, or seconds.
    """
    from perdure.cli.progress import Bar
    from perdure.cli.show import emit, text
    from perdure.runtime.chance import RealChance
    from perdure.runtime.clock import RealClock
    from perdure.runtime.files import LocalFiles
    from perdure.sdk.duration import length
    from perdure.store.index.index import Index
    from perdure.store.index.schema import INDEX_FILE
    from perdure.store.journal.store import JournalStore

    _check(data)
    files = LocalFiles(data)
    store = JournalStore(files, RealClock(), RealChance(), index=Index(data / INDEX_FILE))
    await store.open()
    try:
        with Bar("compacting", sum(files.size(name) for name in files.names("journal") if name.endswith(".jsonl"))) as bar:
            done = await store.compact(length(retention, "retention"), share=0.0, progress=bar.advance)
    finally:
        await store.close()
    if output.output == "text":
        text(
            f"{done.runs} runs dropped, {done.segments} segments written anew: {done.bytes_before} bytes became {done.bytes_after}"
        )
    else:
        emit(done, output.output)
    return OK


def _check(data: Path) -> None:
    from perdure.core.errors import NotFound

    if not (data / "journal").is_dir():
        raise NotFound(f"there is no journal at {data}")


@contextmanager
def _watched(data: Path, what: str) -> "Iterator[Files]":
    """The files of a data directory, with a bar that shows how much of the journal was read."""
    from perdure.cli.progress import Bar, Watched
    from perdure.runtime.files import LocalFiles

    files = LocalFiles(data)
    with Bar(what, sum(files.size(name) for name in files.names("journal") if name.endswith(".jsonl"))) as bar:
        yield Watched(files, bar)


def _tell(findings: "Findings", form: str) -> None:
    from perdure.cli.show import emit, text
    from perdure.store.journal.damaged import words_of

    if form != "text":
        emit(findings, "jsonl" if form == "jsonl" else "json")
        return
    for fault in findings.faults:
        text(words_of(fault))
        for run in fault.runs:
            who = f"of workflow {run.workflow_id!r} ({run.namespace})" if run.workflow_id else "of a workflow nobody knows"
            text(f"  run {run.run_id} {who}, told by {fault.named}")
    if findings.torn_bytes:
        text(
            f"torn at segment {findings.torn_at[0]}, byte {findings.torn_at[1]}: {findings.torn_bytes} bytes nobody was promised"
        )
    text(f"{findings.segments} segments, {findings.lines} lines, {findings.transitions} transitions, {findings.bytes} bytes")
