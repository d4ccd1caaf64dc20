"""The linter follows workflow code where it goes, and nowhere else."""

from pathlib import Path

import pytest

from perdure.core.errors import InvalidArgument
from perdure.lint.linter import lint

WORKFLOW = "from perdure import activity, workflow\n"


def written(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / f"{name.replace('__in__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def places(folder: Path, *modules: str, **options: list[str]) -> list[tuple[str, str, str]]:
    findings = lint([str(folder / module) for module in modules], **options)
    return [(Path(finding.path).name, finding.function, finding.workflow) for finding in findings]


def test_plain_functions_are_followed_through_others(tmp_path: Path) -> None:
    """What a workflow calls, hands to a task or maps is workflow code too; what nobody uses is not."""
    written(
        tmp_path,
        flows=WORKFLOW
        + """
async def outer(): return [*map(inner, range(3))]
def inner(_): return hash("x")
def unused(): return hash("y")

@workflow
async def flow(): await outer()
""",
    )
    assert places(tmp_path, "flows.py") == [("flows.py", "inner", "flow")]


def test_every_method_of_a_workflow_class_is_read(tmp_path: Path) -> None:
    """Handlers, helpers and inherited methods; an activity among them is left out."""
    written(
        tmp_path,
        flows=WORKFLOW
        + """
class Base:
    def shared(self): return id(self)

@workflow
class Cart(Base):
    def __init__(self): self.key = hash("x")
    async def run(self): return self.key
    def size(self): return hash("y")
    @activity
    def charge(self): return hash("z")
""",
    )
    assert [function for _file, function, _workflow in places(tmp_path, "flows.py")] == [
        "Base.shared",
        "Cart.__init__",
        "Cart.size",
    ]


def test_other_files_of_the_package_are_followed(tmp_path: Path) -> None:
    """Relative and absolute imports, modules and names, and names that a package hands on."""
    written(
        tmp_path,
        shop__in____init__="from .prices import total\n",
        shop__in__prices="def total(): return hash('x')\ndef other(): return id(1)\ndef unused(): return id(2)\n",
        shop__in__steps="from perdure import activity\n@activity\ndef charge(): return hash('x')\n",
        shop__in__flows=WORKFLOW
        + """
from . import prices
from shop import total
from shop.steps import charge

@workflow
async def flow():
    charge()
    return total() + prices.other()
""",
    )
    assert places(tmp_path, "shop/flows.py") == [
        ("flows.py", "flow", "flow"),
        ("prices.py", "total", "flow"),
        ("prices.py", "other", "flow"),
    ]
    assert places(tmp_path, "shop") == places(tmp_path, "shop/flows.py")


def test_nothing_is_imported(tmp_path: Path) -> None:
    """A module that would end the process is read all the same, by path and by name."""
    written(tmp_path, bomb=WORKFLOW + "raise SystemExit(3)\n@workflow\nasync def flow(): return hash('x')\n")
    assert places(tmp_path, "bomb.py") == [("bomb.py", "flow", "flow")]
    assert len(lint(["bomb"], folders=[tmp_path])) == 1


def test_a_file_that_cannot_be_read_ends_only_what_asked_for_it(tmp_path: Path) -> None:
    """One that a workflow imports is passed over, and the rest is read."""
    written(
        tmp_path, broken="def (:\n", flows=WORKFLOW + "from broken import x\n@workflow\nasync def flow(): return hash(x())\n"
    )
    assert places(tmp_path, "flows.py") == [("flows.py", "flow", "flow")]


def test_decorators_are_known_by_what_they_are(tmp_path: Path) -> None:
    """With options, through the module and under another name; a stranger's `workflow` is none."""
    written(
        tmp_path,
        flows="""
import perdure
from perdure import workflow as durable
from elsewhere import workflow

@perdure.workflow(name="a")
async def first(): return hash("x")
@durable
async def second(): return hash("x")
@workflow
async def third(): return hash("x")
def make():
    @durable(timeout=3)
    async def nested(): return hash("x")
""",
    )
    assert [function for _f, function, _w in places(tmp_path, "flows.py")] == ["first", "second", "nested"]


def test_comments_select_and_ignore(tmp_path: Path) -> None:
    """A line, a function or a rule can be left out, by name and by code."""
    written(
        tmp_path,
        flows=WORKFLOW
        + """
@workflow
async def flow():
    a = hash("x")  # perdure: ignore[identity] – the key of a cache of this process
    b = hash("x")  # perdure: ignore
    c = hash("x")  # perdure: ignore[clock]
    d = hash(
        "x"
    )  # perdure: ignore[PD302, clock]
    print(a)

@workflow
async def quiet():  # perdure: ignore[identity]
    return hash("x")
""",
    )
    lines = [(finding.line, finding.code) for finding in lint([str(tmp_path / "flows.py")])]
    assert lines == [(7, "PD302"), (11, "PD204")]
    assert places(tmp_path, "flows.py", select=["PRINT"]) == [("flows.py", "flow", "flow")]
    assert places(tmp_path, "flows.py", ignore=["print", "pd302"]) == []


@pytest.mark.parametrize(
    ("modules", "options", "told"),
    [
        (["nowhere.py"], {}, "there is no file nowhere.py"),
        (["no.such.module"], {}, "there is no module no.such.module"),
        (["flows.py"], {"select": ["zeal"]}, "--select: there is no rule 'zeal'"),
        (["broken.py"], {}, "broken.py:1 is no Python"),
    ],
)
def test_what_cannot_be_done_is_said(
    modules: list[str], options: dict[str, list[str]], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unknown modules and rules, and files that are no Python, are usage errors."""
    monkeypatch.chdir(written(tmp_path, flows="", broken="def (:\n"))
    with pytest.raises(InvalidArgument, match=told.replace(".", r"\.")):
        lint(modules, **options)


@pytest.mark.parametrize("folder", ["examples", "src/perdure/testing/workloads", "src/perdure/demo", "src/perdure/bench"])
def test_good_code_gives_no_finding(folder: str) -> None:
    """The examples, the workloads and the demo are read whole and nothing is found."""
    assert lint([str(Path(__file__).parents[3] / folder)]) == []
