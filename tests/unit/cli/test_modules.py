"""MODULE arguments: what a dotted name or a path stands for, and what is said of one that stands for nothing."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.cli.modules import load
from perdure.core.errors import InvalidArgument


@pytest.fixture(autouse=True)
def untouched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Each test in a folder of its own; what it imports is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    yield
    for name in set(sys.modules) - known:
        del sys.modules[name]


def test_a_dotted_name_is_looked_for_here_first(tmp_path: Path) -> None:
    """As `python -m` would, though the console script's own folder is first on the path."""
    (tmp_path / "shop_flows").mkdir()
    (tmp_path / "shop_flows" / "__init__.py").write_text("")
    (tmp_path / "shop_flows" / "orders.py").write_text("mark = 1")
    assert load("shop_flows.orders").mark == 1


@pytest.mark.parametrize("name", ["flows_a.py", "01_flows.py", "flows-b.py"])
def test_a_path_may_have_any_name(tmp_path: Path, name: str) -> None:
    """The module is known under the file's stem, beside modules it imports itself; twice is once."""
    (tmp_path / "beside_it.py").write_text("mark = 2")
    (tmp_path / name).write_text("import beside_it\nmark = beside_it.mark")
    module = load(str(tmp_path / name))
    assert module.mark == 2
    assert sys.modules[module.__name__] is module
    assert module.__name__ == Path(name).stem
    assert load(f"./{name}") is module


def test_a_file_of_a_package_is_imported_as_part_of_it(tmp_path: Path) -> None:
    """Relative imports work, and the module is the same one that others import by its name."""
    package = tmp_path / "place" / "bakery" / "oven"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package.parent / "__init__.py").write_text("heat = 3")
    (package / "flows.py").write_text("from .. import heat")
    module = load(str(package / "flows.py"))
    assert (module.heat, module.__name__) == (3, "bakery.oven.flows")


@pytest.mark.parametrize(
    ("text", "source", "about"),
    [
        ("missing_module", "", "there is no module missing_module"),
        ("missing_module.part", "", "there is no module missing_module.part"),
        ("a b", "", "neither"),
        ("", "", "neither"),
        ("some/folder", "", "is no .py file"),
        ("gone.py", "", "there is no file gone.py"),
        ("broken_flows.py", "def (", "broken_flows.py, line 1"),
        ("raising_flows.py", "x = 1\nraise ValueError('two\\nlines')", "ValueError: two lines (.*raising_flows.py, line 2)"),
        ("raising_flows", "import missing_part", "No module named 'missing_part'"),
        ("leaving_flows.py", "raise SystemExit", "SystemExit"),
        ("random.py", "x = 1", "rename the file"),
        ("asyncio.py", "x = 1", "rename the file"),
    ],
)
def test_what_cannot_be_imported_is_said_in_one_line(tmp_path: Path, text: str, source: str, about: str) -> None:
    """With the place at fault; and nothing half imported stays behind."""
    if source:
        (tmp_path / (text if text.endswith(".py") else f"{text}.py")).write_text(source)
    with pytest.raises(InvalidArgument, match=about) as told:
        load(text)
    assert "\n" not in str(told.value)
    assert text.removesuffix(".py") in sys.stdlib_module_names or text.removesuffix(".py") not in sys.modules


def test_an_interrupt_is_no_import_error(tmp_path: Path) -> None:
    """Ctrl-C while a slow module is imported ends the command, not the explanation."""
    (tmp_path / "slow_flows.py").write_text("raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        load("slow_flows.py")
