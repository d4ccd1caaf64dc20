"""One frozen tree from a file, the environment and flags: which of them wins, and what is said of mistakes."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.admission import AdmissionRules, OriginQuota
from perdure.core.errors import InvalidArgument
from perdure.core.limits import Limits
from perdure.runtime.api_key import hash_of, new_api_key
from perdure.runtime.settings.given import variable_of
from perdure.runtime.settings.loading import Loaded, load
from perdure.runtime.settings.tree import Settings


def loaded(tmp_path: Path, text: str = "", environment: dict[str, str] | None = None, **flags: object) -> Loaded:
    file = tmp_path / "perdure.toml"
    file.write_text(text, encoding="utf-8")
    return load(file, environment or {}, {name.replace("__", "."): value for name, value in flags.items()})


def complaint(tmp_path: Path, text: str = "", environment: dict[str, str] | None = None, **flags: object) -> str:
    with pytest.raises(InvalidArgument) as caught:
        loaded(tmp_path, text, environment, **flags)
    return str(caught.value).replace(f"{tmp_path}/", "")


def test_with_nothing_given_everything_is_as_the_tree_says() -> None:
    """And no file is needed."""
    found = load(None, {}, {})
    assert found.settings == Settings()
    assert {value.source for value in found.values.values()} == {"default"}


# -------------------------------------------------------------------------------------------------------------------- precedence

SETTABLE: dict[str, st.SearchStrategy[Any]] = {
    "server.port": st.integers(0, 65_535),
    "server.host": st.sampled_from(["127.0.0.1", "0.0.0.0", "::1", "perdure.internal"]),
    "server.insecure": st.booleans(),
    "server.hosts": st.lists(st.sampled_from(["a", "b.example", "c"]), max_size=3).map(tuple),
    "limits.fused_ahead_s": st.floats(0, 1e6, allow_nan=False),
    "limits.attributes_max": st.integers(0, 10_000),
    "log.level": st.sampled_from(["debug", "info", "warning", "error"]),
    "node.data": st.text(st.characters(codec="ascii", exclude_categories=["C"]), min_size=1, max_size=20),
}


def layer() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=SETTABLE)


def as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@given(in_file=layer(), in_environment=layer(), as_flags=layer())
def test_flags_win_over_the_environment_and_that_over_the_file(
    tmp_path_factory: pytest.TempPathFactory, in_file: dict[str, Any], in_environment: dict[str, Any], as_flags: dict[str, Any]
) -> None:
    """Key by key, whatever else is given: the last source that has the key says its value, and is named as its source."""
    file = tmp_path_factory.mktemp("config") / "f.toml"
    file.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in in_file.items()), encoding="utf-8")
    environment = {variable_of(tuple(key.split("."))): as_text(value) for key, value in in_environment.items()}
    found = load(file, environment, as_flags)
    lines = list(in_file)
    for key, value in found.values.items():
        if key in as_flags:
            expected = as_flags[key], "--" + key.partition(".")[2].replace("_", "-")
        elif key in in_environment:
            expected = in_environment[key], variable_of(tuple(key.split(".")))
        elif key in in_file:
            expected = in_file[key], f"{file}:{lines.index(key) + 1}"
        else:
            expected = value.value, "default"
        assert (value.value, value.source) == expected
        section, name = key.split(".")
        assert getattr(getattr(found.settings, section), name) == value.value


def test_the_short_variable_for_the_data_directory_gives_way_to_the_long_one(tmp_path: Path) -> None:
    """PERDURE_DATA is what every command knows."""
    assert loaded(tmp_path, environment={"PERDURE_DATA": "a"}).settings.node.data == "a"
    assert loaded(tmp_path, environment={"PERDURE_DATA": "a", "PERDURE_NODE__DATA": "b"}).settings.node.data == "b"


def test_the_file_is_the_one_named_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the flag, by PERDURE_CONFIG, or the one in the working directory."""
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(("perdure.toml", "variable.toml", "flag.toml"), 1):
        Path(name).write_text(f"server.port = {number}", encoding="utf-8")
    variable = {"PERDURE_CONFIG": "variable.toml"}
    assert load(None, {}, {}).settings.server.port == 1
    assert load(None, variable, {}).settings.server.port == 2
    assert load(Path("flag.toml"), variable, {}).settings.server.port == 3
    with pytest.raises(InvalidArgument, match="there is no configuration file elsewhere"):
        load(Path("elsewhere"), {}, {})


@pytest.mark.parametrize(
    ("written", "means"),
    [('"30d"', timedelta(days=30)), ("3600", timedelta(hours=1)), ("0.5", timedelta(seconds=0.5)), ('"forever"', None)],
)
def test_durations_are_words_or_seconds(tmp_path: Path, written: str, means: timedelta | None) -> None:
    """In a file and in a variable alike."""
    assert loaded(tmp_path, f"retention.closed = {written}").settings.retention.closed == means
    variables = {"PERDURE_RETENTION__CLOSED": written.strip('"')}
    assert loaded(tmp_path, environment=variables).settings.retention.closed == means


def test_keys_are_tables_of_their_names(tmp_path: Path) -> None:
    """From the file and from the environment."""
    one, two = hash_of(new_api_key()), hash_of(new_api_key())
    text = f'[access.keys.ann]\nhash = "{one}"\nrole = "admin"\n'
    environment = {"PERDURE_ACCESS__KEYS__BOB__HASH": two, "PERDURE_ACCESS__KEYS__BOB__ROLE": "read-only"}
    keys = loaded(tmp_path, text, environment).settings.access.keys
    assert {name: (key.hash, key.role) for name, key in keys.items()} == {"ann": (one, "admin"), "bob": (two, "read-only")}
    with pytest.raises(TypeError):
        keys["eve"] = keys["ann"]  # type: ignore[index]  # ty: the tree is frozen


def test_origins_are_tables_of_their_names(tmp_path: Path) -> None:
    """Beside the keys of their section; some in the file, some in the environment, and nothing is limited that is not named."""
    text = "[admission]\nqueue_depth_max = 7\n[admission.origins.default]\nstarts_per_second = 5\n"
    environment = {
        "PERDURE_ADMISSION__ORIGINS__VISITOR__STARTS_PER_SECOND": "0.5",
        "PERDURE_ADMISSION__ORIGINS__VISITOR__BURST": "3",
    }
    rules = loaded(tmp_path, text, environment).settings.admission
    assert rules == AdmissionRules(
        queue_depth_max=7,
        origins={"default": OriginQuota(starts_per_second=5), "visitor": OriginQuota(starts_per_second=0.5, burst=3)},
    )
    assert rules.is_set
    assert not loaded(tmp_path).settings.admission.is_set


# ---------------------------------------------------------------------------------------------------------------------- mistakes

TOML_MISTAKES = {
    "[server]\nprot = 1": "perdure.toml:2: server.prot is no setting: did you mean server.port?",
    "port = 1": "perdure.toml:1: port is no setting: did you mean server.port?",
    "\n[sever]": "perdure.toml:2: sever is no setting: did you mean server?",
    "server.port.x = 1": "perdure.toml:1: server.port.x is no setting: did you mean server.port?",
    "server = 1": "perdure.toml:1: server is a section of settings, no key",
    "qqqq = 1": "perdure.toml:1: qqqq is no setting (`perdure config` lists them all)",
    "limits.payload_byte_max = 1": "perdure.toml:1: limits.payload_byte_max is no setting: did you mean limits.payload_bytes_max?",
    "[access.keys.ci]\nrol = 'admin'": "perdure.toml:2: access.keys.ci.rol is no setting: did you mean access.keys.ci.role?",
    "[server]\n'port' = 65536": "server.port: expected `int` <= 65535, not 65536 (perdure.toml:2)",
    "server.port = '80'": "server.port: expected `int`, not '80' (perdure.toml:1)",
    "server.port = true": "server.port: expected `int`, not True (perdure.toml:1)",
    "server.insecure = 1": "server.insecure: expected `bool`, not 1 (perdure.toml:1)",
    "server.hosts = 'a'": "server.hosts: expected `array`, not 'a' (perdure.toml:1)",
    "node.data = ''": "node.data: expected `str` of length >= 1, not '' (perdure.toml:1)",
    "log.level = 'loud'": "log.level: expected debug or info or warning or error, not 'loud' (perdure.toml:1)",
    "retention.closed = 'soon'": "retention.closed: expected a duration such as 30d, 12h, 90m, seconds, or forever, not 'soon' (perdure.toml:1)",
    "retention.closed = -1": "retention.closed: expected a duration such as 30d, 12h, 90m, seconds, or forever, not -1 (perdure.toml:1)",
    "limits.payload_bytes_max = -1": "limits.payload_bytes_max must be a number from 0 to 9007199254740992, not -1 (perdure.toml:1)",
    "server.tls_key = 'k'": "server.tls_certificate is missing: tls_key is given, and TLS takes both (perdure.toml:1)",
    "access.keys.ci.role = 'admin'": "access.keys.ci.hash is missing: a key has both (perdure.toml:1)",
    "admission.origins.v.burst = 3": "admission.origins.v.starts_per_second is missing: a quota has one (perdure.toml:1)",
    "admission.origins.v.start_per_second = 3": "perdure.toml:1: admission.origins.v.start_per_second is no setting: did you mean admission.origins.v.starts_per_second?",
    "admission.origins.v.starts_per_second = 0": "admission.origins.v.starts_per_second: expected `float` > 0.0, not 0 (perdure.toml:1)",
    "admission.queue_wait_p99_s = 'x'": "admission.queue_wait_p99_s: expected `float`, not 'x' (perdure.toml:1)",
    "access.keys.ci.role = 'boss'": "access.keys.ci.role: expected admin or operator or read-only or worker, not 'boss' (perdure.toml:1)",
    "access.keys.ci = 'x'": "perdure.toml:1: access.keys.ci is a section of settings, no key",
}


@pytest.mark.parametrize(("text", "said"), TOML_MISTAKES.items())
def test_a_mistake_in_the_file_is_named_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    """Unknown keys with the nearest real one; values with what would be right."""
    assert complaint(tmp_path, text) == said


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("PERDURE_SERVER__PRT", "1", "PERDURE_SERVER__PRT is no setting: did you mean PERDURE_SERVER__PORT?"),
        ("PERDURE_SERVER_PORT", "1", "PERDURE_SERVER_PORT is no setting: did you mean PERDURE_SERVER__PORT?"),
        ("PERDURE_PORT", "1", "PERDURE_PORT is no setting: did you mean PERDURE_SERVER__PORT?"),
        ("PERDURE_SERVER__PORT", "x", "PERDURE_SERVER__PORT: expected `int`, not 'x'"),
        ("PERDURE_SERVER__PORT", "-1", "PERDURE_SERVER__PORT: expected `int` >= 0, not '-1'"),
        ("PERDURE_SERVER__INSECURE", "perhaps", "PERDURE_SERVER__INSECURE: expected `bool`, not 'perhaps'"),
        ("PERDURE_SERVER__HOSTS", "[1]", "PERDURE_SERVER__HOSTS: expected `str`, not '[1]'"),
        ("PERDURE_SERVER__", "1", "PERDURE_SERVER__ is no setting: did you mean PERDURE_SERVER__…?"),
        ("PERDURE_LOG__FORMAT", "yaml", "PERDURE_LOG__FORMAT: expected text or json, not 'yaml'"),
    ],
)
def test_a_mistake_in_a_variable_is_named(tmp_path: Path, name: str, value: str, said: str) -> None:
    """A missing underscore is one too: nobody would notice that it does nothing."""
    assert complaint(tmp_path, environment={name: value}) == said


def test_variables_kubernetes_makes_for_a_service_are_left_alone(tmp_path: Path) -> None:
    """Services named perdure or perdure-server put them into every pod, the node's own among them."""
    made = {
        "PERDURE_PORT": "tcp://10.0.0.1:7373",
        "PERDURE_SERVER_PORT": "tcp://10.0.0.1:7373",
        "PERDURE_SERVER_SERVICE_PORT": "7373",
    }
    assert load(None, made, {}).settings == Settings()


def test_variables_of_others_are_left_alone(tmp_path: Path) -> None:
    """Those without two underscores, and those of other programs."""
    others = {"PERDURE_ADDRESS": "x", "PERDURE_API_KEY": "pdk_x", "PERDURE_PROFILE": "ci", "OTHER__SERVER__PORT": "1"}
    assert loaded(tmp_path, environment=others).settings == Settings()


def test_a_mistake_in_a_flag_is_named(tmp_path: Path) -> None:
    """By the flag, not the key."""
    assert complaint(tmp_path, server__port=70_000) == "--port: expected `int` <= 65535, not 70000"


def test_all_mistakes_are_said_at_once(tmp_path: Path) -> None:
    """Nobody mends one at a time."""
    said = complaint(tmp_path, "server.port = -1\nlog.levl = 'info'", {"PERDURE_LOG__FORMAT": "yaml"})
    assert said.count(";") == 2


@pytest.mark.parametrize("text", ["[server", "server.port = ", "a = 1\na = 2", "\xff"])
def test_what_is_no_toml_is_refused(tmp_path: Path, text: str) -> None:
    """With the name of the file and what its reader says."""
    file = tmp_path / "broken.toml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidArgument, match=r"broken\.toml is no configuration file: "):
        load(file, {}, {})


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="cannot be read: Is a directory"):
        load(tmp_path, {}, {})


@pytest.mark.parametrize("place", ["hash", "role", "nonsense"])
def test_a_key_that_stands_where_it_should_not_is_not_repeated(tmp_path: Path, place: str) -> None:
    """Not its tail either: what is said may go into a log."""
    key = new_api_key()
    said = complaint(
        tmp_path,
        f'[access.keys.ci]\n{place} = "{key}"\nrole = "admin"' if place != "role" else f'access.keys.ci.role = "{key}"',
    )
    assert "access.keys.ci" in said
    assert key[4:12] not in said


def test_the_node_s_own_key_name_is_taken(tmp_path: Path) -> None:
    """So that who did something can be told from the name."""
    text = f'[access.keys.local]\nhash = "{hash_of(new_api_key())}"\nrole = "admin"'
    assert "not 'local'" in complaint(tmp_path, text)


def test_limits_are_those_of_the_engine(tmp_path: Path) -> None:
    """The section is the struct itself."""
    assert loaded(tmp_path, "[limits]\nattributes_max = 7").settings.limits == Limits(attributes_max=7)


def test_lines_are_found_in_files_of_every_manner(tmp_path: Path) -> None:
    """Quoted and dotted keys, headers with blanks and comments, inline tables, a byte order mark."""
    text = '\ufeff# head\n\n[ "server" ] # c\n"port" = 1\n[log]\nlevel="debug"\n[access]\nkeys = {ci = {hash = "%s", role = "worker"}}\n'
    found = loaded(tmp_path, text % hash_of("k")).values
    lines = {key: int(value.source.rpartition(":")[2]) for key, value in found.items() if value.source != "default"}
    assert lines == {"server.port": 4, "log.level": 6, "access.keys.ci.hash": 8, "access.keys.ci.role": 8}
