"""`perdure config` and `perdure key`: values with their sources, and nothing of a secret."""

import json
from pathlib import Path

import pytest

from perdure.cli.app import run
from perdure.runtime.api_key import hash_of
from perdure.runtime.settings.loading import load


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of its own, without the variables of whoever runs this."""
    monkeypatch.chdir(tmp_path)
    for name in ("PERDURE_CONFIG", "PERDURE_DATA"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("form", ["text", "json", "jsonl"])
def test_every_setting_is_printed_with_its_source(
    form: str, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """A line, a variable, the default; and a hash only as what it is not."""
    secret = hash_of("a key")
    Path("perdure.toml").write_text(f'[access.keys.ci]\nhash = "{secret}"\nrole = "admin"\n', encoding="utf-8")
    monkeypatch.setenv("PERDURE_SERVER__PORT", "80")
    monkeypatch.setenv("PERDURE_RETENTION__CLOSED", "forever")
    assert run(["config", "-o", form]) == 0
    out = capsysbinary.readouterr().out.decode()
    assert secret[7:15] not in out
    told: dict[str, list[object]]
    if form == "json":
        told = {key: [value["value"], value["source"]] for key, value in json.loads(out)["settings"].items()}
    elif form == "jsonl":
        told = {line["key"]: [line["value"], line["source"]] for line in map(json.loads, out.splitlines())}
    else:
        lines = [line.split() for line in out.splitlines()[1:]]
        told = {key: [json.loads(value) if value != "***" else value, source] for key, value, source in lines}
    assert told["server.port"] == [80, "PERDURE_SERVER__PORT"]
    assert told["retention.closed"] == ["forever", "PERDURE_RETENTION__CLOSED"]
    assert told["access.keys.ci.hash"] == ["***", "perdure.toml:2"]
    assert told["access.keys.ci.role"] == ["admin", "perdure.toml:3"]
    assert told["server.host"] == ["127.0.0.1", "default"]


def test_a_mistake_is_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2."""
    Path("perdure.toml").write_text("server.prot = 1", encoding="utf-8")
    assert run(["config"]) == 2
    assert capsys.readouterr().err == "perdure: perdure.toml:1: server.prot is no setting: did you mean server.port?\n"


def test_what_a_new_key_prints_is_what_a_node_reads(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """The key, and the very lines for the file, which hold no part of it."""
    assert run(["key", "create", "--name", "ci", "--role", "read-only"]) == 0
    out = capsysbinary.readouterr().out.decode()
    (key,) = [line for line in out.splitlines() if line.startswith("pdk_")]
    lines = out.partition("[access")
    Path("perdure.toml").write_text(lines[1] + lines[2], encoding="utf-8")
    found = load(None, {}, {}).settings.access.keys["ci"]
    assert (found.hash, found.role) == (hash_of(key), "read-only")
    assert key[4:] not in lines[2]


def test_a_new_key_as_json(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """For programs that set up nodes."""
    assert run(["key", "create", "--name", "ci", "--role", "worker", "-o", "json"]) == 0
    told = json.loads(capsysbinary.readouterr().out)
    assert told == {"name": "ci", "role": "worker", "key": told["key"], "hash": hash_of(told["key"])}


@pytest.mark.parametrize(
    "tokens", [["--name", "a b", "--role", "admin"], ["--name", "local", "--role", "admin"], ["--name", "a", "--role", "boss"]]
)
def test_names_and_roles_are_checked(tokens: list[str], capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """Before a key is made."""
    assert run(["key", "create", *tokens]) == 2
    assert capsysbinary.readouterr().out == b""
