"""`perdure bench …`: the commands around `perdure.bench`, which reads its own options."""

from typing import Annotated

from cyclopts import App, Parameter

app = App(name="bench", help="Measure.")


@app.command(help_flags=[])
def embedded(*options: Annotated[str, Parameter(allow_leading_hyphen=True)]) -> int:
    """Measure the embedded engine on this machine. Its own options: perdure bench embedded --help."""
    from importlib import import_module

    code: int = import_module("perdure.bench.embedded").main(list(options))
    return code
