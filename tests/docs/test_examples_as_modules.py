"""Examples as modules: `perdure dev examples/x.py` imports them."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_importing_an_example_runs_nothing(example: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Its definitions are there, and no engine was started, nothing printed."""
    names = runpy.run_path(str(example), run_name="an_example")
    assert callable(names["main"])
    assert capfd.readouterr() == ("", "")
