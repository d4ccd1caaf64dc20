"""`perdure lint`: nondeterminism, found by reading. Imports none of what it reads."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from perdure.cli.exits import FAILED, OK, say
from perdure.cli.options import Module, Output

if TYPE_CHECKING:
    from perdure.lint.finding import Finding

TEXT = Output()


def lint(
    module: Module,
    /,
    *modules: Module,
    select: Annotated[list[str] | None, Parameter(negative="")] = None,
    ignore: Annotated[list[str] | None, Parameter(negative="")] = None,
    output: Output = TEXT,
) -> int:
    """Look for what would not replay, by reading workflow code. Exits with 1 when there is any.

    A comment `# perdure: ignore[rule]` on a line, or on the line of the function's `def`, leaves it out.

    Args:
        module: Where the workflows are: a dotted name, a .py file or a folder.
        modules: More of them.
        select: Only these rules: names or codes, separated by commas; repeatable.
        ignore: All but these.
    """
    from perdure.lint.linter import lint as find

    findings = find([module, *modules], select=_split(select), ignore=_split(ignore))
    _tell(findings, output)
    if findings and not output.is_json:
        say(f"perdure: {len(findings)} {'finding' if len(findings) == 1 else 'findings'}")
    return FAILED if findings else OK


def _split(texts: list[str] | None) -> list[str]:
    return [part for text in texts or () for part in text.split(",") if part.strip()]


def _tell(findings: "list[Finding]", output: Output) -> None:
    from perdure.cli.show import emit, text

    if output.output == "json":
        emit(findings, "json")
        return
    for finding in findings:
        if output.output == "jsonl":
            emit(finding, "jsonl")
            continue
        place = f"{finding.path}:{finding.line}:{finding.column}"
        text(f"{place}: {finding.code} [{finding.rule}] {finding.message} (in {finding.function}): {finding.why}")
        text(f"    {finding.mend}")
