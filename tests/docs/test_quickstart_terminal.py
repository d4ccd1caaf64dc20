"""What the quickstart and the README type into two terminals works as it stands there."""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
TERMINALS = [
    re.findall(r"^\$ (export|perdure) (.*)$", block, re.MULTILINE)
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE.partition("## 3.")[2], re.MULTILINE | re.DOTALL)
]


def words(command: str) -> list[str]:
    return [sys.executable, "-m", "perdure", *shlex.split(command)]


def test_a_node_and_who_talks_to_it(tmp_path: Path) -> None:
    """The first terminal's node serves the module of the page, and every command of the second one is answered."""
    (tmp_path / "shop.py").write_text(
        re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0], encoding="utf-8"
    )
    first, second = TERMINALS
    surroundings = [dict(line.split("=", 1) for verb, line in lines if verb == "export") for lines in (first, second)]
    [node_command] = [line for verb, line in first if verb == "perdure"]
    with subprocess.Popen(
        [*words(node_command), "--port", "0"], cwd=tmp_path, env=os.environ | surroundings[0], stdout=subprocess.PIPE, text=True
    ) as node:
        try:
            assert node.stdout is not None
            assert "serves" in node.stdout.readline()
            told = ""
            for command in [line for verb, line in second if verb == "perdure"]:
                done = subprocess.run(
                    words(command),
                    cwd=tmp_path,
                    env=os.environ | surroundings[1],
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=False,
                )
                assert done.returncode == 0, done.stderr
                told += done.stdout
            assert "receipt for order-43: 12.50" in told
            assert "timer_fired" in told
        finally:
            node.send_signal(signal.SIGTERM)
            node.communicate(timeout=60)


def test_the_first_screen_of_the_readme(tmp_path: Path) -> None:
    """Its program, saved under the name it is given there, is served by the first command and run by the second."""
    (tmp_path / "app.py").write_text(
        re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[0], encoding="utf-8"
    )
    console = re.findall(r"^```console\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[0]
    node_command, command = re.findall(r"^\$ perdure (.*)$", console, re.MULTILINE)
    with subprocess.Popen([*words(node_command), "--port", "0"], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as node:
        try:
            assert node.stdout is not None
            assert "serves" in node.stdout.readline()
            done = subprocess.run(words(command), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
            assert (done.returncode, done.stdout) == (0, '"receipt for order-43"\n'), done.stderr
        finally:
            node.send_signal(signal.SIGTERM)
            node.communicate(timeout=60)
