"""The public surface is exact to type checkers: right calls pass, wrong ones are errors, results keep their type."""

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import perdure
from perdure.sdk.saga import Saga
from perdure.sdk.sync_handle import SyncHandle, SyncUpdateHandle
from perdure.sdk.update_handle import UpdateHandle

ROOT = Path(__file__).parents[2]
FILES = [Path(__file__).with_name(name) for name in ("author_calls.py", "caller_calls.py", "every_name.py", "sync_calls.py")]


def marked(path):
    """Lines that must be errors."""
    return {
        (path.name, n) for n, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if line.endswith("# error")
    }


MARKED = set().union(*map(marked, FILES))


def run(*command):
    return subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)


def mypy(tmp_path):
    done = run("mypy", "--strict", "--no-error-summary", "--hide-error-context", "--cache-dir", str(tmp_path), *map(str, FILES))
    found = re.findall(r"^(\S+?):(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    assert found, done.stdout + done.stderr
    return [(Path(name).name, int(line), text) for name, line, text in found]


def pyright(_):
    done = run("pyright", "--outputjson", *map(str, FILES))
    assert done.stdout.startswith("{"), done.stdout + done.stderr
    errors = [item for item in json.loads(done.stdout)["generalDiagnostics"] if item["severity"] == "error"]
    return [(Path(item["file"]).name, item["range"]["start"]["line"] + 1, item["message"]) for item in errors]


@pytest.mark.slow
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_right_calls_pass_and_wrong_ones_do_not(checker, tmp_path):
    """Exactly the marked lines are errors, under mypy --strict and pyright strict."""
    found = checker(tmp_path)
    assert [error for error in found if error[:2] not in MARKED] == []
    assert sorted(MARKED - {error[:2] for error in found}) == []


def test_there_are_enough_of_both():
    """The files have not been emptied by a careless edit."""
    assert len(MARKED) >= 120
    assert sum(path.read_text(encoding="utf-8").count("assert_type(") for path in FILES) >= 100


# --------------------------------------------------------------------------------------------------------------- nothing is left out

SURFACE = {
    "workflow": type(perdure.workflow),
    "activity": type(perdure.activity),
    "client": perdure.Client,
    "handle": perdure.Handle,
    "child": perdure.ChildHandle,
    "env": perdure.testing.Environment,
    "saga": Saga,
    "worker": perdure.Worker,
    "sync": perdure.SyncClient,
    "talking": SyncHandle,
    "answer": SyncUpdateHandle,
    "accepted": UpdateHandle,
}
"""How instances are called in the files, and their classes."""

OWN = {
    "sync": {"call"},
    "talking": {"of"},
    "accepted": {"through"},
    "client": {"reach", "fresh_id", "fresh_run", "signal_body", "update_request"},
    "env": {"wait", "pump", "push_began", "push_ended", "holding"},
}
"""Public to other parts of perdure, not to callers."""

ANYTHING = {"continue_as_new", "heartbeat", "register"}
"""Take whatever they are given: nothing is wrong to a type checker."""


def verbs(cls):
    """Public methods of a class, and whether they take anything."""
    for name, member in inspect.getmembers(cls, inspect.isfunction):
        if not name.startswith("_"):
            yield name, len(inspect.signature(member).parameters) > 1


def lines(*, wrong):
    text = [line for path in FILES for line in path.read_text(encoding="utf-8").splitlines()]
    return "\n".join(line for line in text if line.endswith("# error") == wrong)


def called(name, verb, text):
    """Used as a call, or as a decorator."""
    return re.search(rf"\b{name}(?:\w*\(.*?\))?\.{verb}\b", text) is not None


@pytest.mark.parametrize("name", SURFACE)
def test_every_verb_is_called_rightly_and_wrongly(name):
    """A verb that takes anything has a line that must pass and one that must not."""
    right, wrong = lines(wrong=False), lines(wrong=True)
    mine = [(verb, takes) for verb, takes in verbs(SURFACE[name]) if verb not in OWN.get(name, ())]
    assert mine
    assert [verb for verb, _takes in mine if not called(name, verb, right)] == []
    assert [verb for verb, takes in mine if takes and verb not in ANYTHING and not called(name, verb, wrong)] == []


def test_every_name_of_the_package_is_used():
    """Nothing public is unknown to these files."""
    text = lines(wrong=False)
    assert [name for name in perdure.__all__ if not re.search(rf"\b{name}\b", text)] == []


HOMES = (perdure, perdure.errors, perdure.codecs, perdure.interceptors, perdure.testing)


@pytest.mark.parametrize("home", HOMES, ids=lambda home: home.__name__)
def test_one_program_uses_every_public_name(home):
    """`every_name.py` names all that a module promises: what is added to it must be added there."""
    text = "\n".join(
        line
        for line in Path(__file__).with_name("every_name.py").read_text(encoding="utf-8").splitlines()
        if not line.endswith("# error")
    )
    assert len(home.__all__) >= 3
    used = text.partition("\n\n\n")[2]  # an import alone is no use
    assert [name for name in home.__all__ if not re.search(rf"\b{name}\b", used)] == []
