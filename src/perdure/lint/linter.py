"""The whole of it: modules in, findings out."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from perdure.lint.finding import Finding
from perdure.lint.library import Library
from perdure.lint.reach import Reached, workflow_code
from perdure.lint.reader import Reader
from perdure.lint.rules import RULES, named


def lint(
    modules: Iterable[str],
    *,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    folders: list[Path] | None = None,
) -> list[Finding]:
    """What breaks a rule in the workflow code of `modules` (dotted names, files or folders), sorted by place, each once.

    `select` leaves only those rules, `ignore` takes some away (names or codes). `folders` is where dotted names are looked for.
    Raises `InvalidArgument` for a rule or module there is not and for a file that is no Python.
    """
    rules = (named(select, "--select") or RULES.keys()) - named(ignore, "--ignore")
    library = Library(folders)
    sources = [source for module in modules for source in library.asked(module)]
    met: set[int] = set()
    found: set[Finding] = set()
    for source in sources:
        for reached in workflow_code(source, library):
            if id(reached.function) not in met:
                met.add(id(reached.function))
                found.update(finding for finding in _read(reached, library) if finding.rule in rules)
    return sorted(found)


def _read(reached: Reached, library: Library) -> Iterator[Finding]:
    for name, node, message in Reader(reached, library).found:
        place: Any = node
        if not reached.source.is_ignored(name, place.lineno, place.end_lineno, reached.function.lineno):
            rule = RULES[name]
            yield Finding(
                path=reached.source.shown,
                line=place.lineno,
                column=place.col_offset + 1,
                code=rule.code,
                rule=name,
                message=message,
                why=rule.why,
                mend=rule.mend,
                function=reached.qualname,
                workflow=reached.workflow,
            )
