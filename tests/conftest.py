"""What every test run has in common: Hypothesis profiles, the seed on top of a failure, and which rules were proved.

Profiles: `dev` (50 examples), `ci` (500, the same ones every time; taken when CI is set), `nightly` (20,000). PERDURE_PROFILE chooses.
A test that draws a seed of its own says so with `record_property("seed", seed)`; Hypothesis tests are found by themselves.
Results of tests marked `rule` or `scenario` go to `.pytest_cache/rules.json`: mark → test → outcome, of each test as it ended when it
last ran; tests that are there no longer are dropped.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from perdure.core.errors import InvalidArgument
from perdure.proof.results import Results, merged, read_results

# No deadline: cores are shared and pytest-timeout bounds a test as a whole.
settings.register_profile("dev", max_examples=50, deadline=None, print_blob=True)
settings.register_profile(
    "ci",
    max_examples=500,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("nightly", max_examples=20_000, deadline=None, print_blob=True)
settings.load_profile(
    os.environ.get("PERDURE_PROFILE") or ("ci" if os.environ.get("CI", "").lower() in {"1", "true"} else "dev")
)

PROOFS = pytest.StashKey[Results]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[PROOFS] = {"rule": {}, "scenario": {}}
    config.pluginmanager.register(ProofReport(config), "perdure-proofs")


# ----------------------------------------------------------------------------------------------------------- seed of a failure


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report: pytest.TestReport = yield
    if report.failed and (line := seed_line(item)):
        put_first(report, line)
    return report


def seed_line(item: pytest.Item) -> str:
    """How to see this failure again, or nothing when the test draws no seed."""
    for name, value in item.user_properties:
        if name == "seed":
            return f"seed {value}"
    seed = getattr(getattr(item, "obj", None), "_hypothesis_internal_use_generated_seed", None)
    return "" if seed is None else f"seed {seed}: pytest '{item.nodeid}' --hypothesis-seed={seed}"


def put_first(report: pytest.TestReport, line: str) -> None:
    """Make `line` the first of the printed failure and of its place in the summary."""
    longrepr: Any = report.longrepr
    crash = getattr(longrepr, "reprcrash", None)
    if crash is not None:
        crash.message = f"{line} | {crash.message}"
    chain = getattr(longrepr, "chain", None) or [(getattr(longrepr, "reprtraceback", None), None, None)]
    entries = getattr(chain[0][0], "reprentries", None)
    if entries:
        native = type(entries[0]).__name__ == "ReprEntryNative"
        entries[0].lines.insert(0, f"{line}\n" if native else f"    # {line}")


# ----------------------------------------------------------------------------------------------------------- rules and scenarios


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Properties travel from the processes of pytest-xdist to the one that writes the report; marks do not."""
    for item in items:
        for kind in ("rule", "scenario"):
            item.user_properties += [(kind, str(number)) for mark in item.iter_markers(kind) for number in mark.args]


class ProofReport:
    """Gathers the outcome of every marked test and writes them down when the session ends."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.proofs = config.stash[PROOFS]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        for name, value in report.user_properties:
            if name in self.proofs:
                outcomes = self.proofs[name].setdefault(str(value), {})
                outcomes[report.nodeid] = max(report.outcome, outcomes.get(report.nodeid, ""), key=SEVERITY.index)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if hasattr(self.config, "workerinput") or not self.config.pluginmanager.hasplugin("cacheprovider"):
            return
        path = self.config.rootpath / Path(self.config.getini("cache_dir")) / "rules.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        results = merged(
            before(path),
            self.proofs,
            self.config.rootpath,
            whole=exitstatus <= pytest.ExitCode.TESTS_FAILED and was_whole(session),
        )
        new = path.with_name(f"rules.{os.getpid()}.json")
        new.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        new.replace(path)  # another session may read or write it at this moment


def before(path: Path) -> Results:
    """What earlier sessions left; nothing when it cannot be read."""
    try:
        return read_results(path)
    except InvalidArgument:
        return {}


def was_whole(session: pytest.Session) -> bool:
    """True when every test ran with all its parameters: nothing was picked out, nothing broke the session off."""
    option = session.config.option
    picked = (
        option.keyword or option.markexpr or getattr(option, "lf", False) or any("::" in arg for arg in session.config.args)
    )
    return not picked and not session.shouldstop and not session.shouldfail


SEVERITY = ("", "passed", "skipped", "failed")


# -------------------------------------------------------------------------------------------------------------------------- TLS


@pytest.fixture
def make_certificate(tmp_path: Path) -> Callable[..., tuple[Path, Path]]:
    """Makes a self-signed certificate for 127.0.0.1 and localhost, and its key, as PEM files."""
    pytest.importorskip("cryptography")
    import datetime as dt
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    def make(name: str = "node", *, passphrase: bytes | None = None) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = dt.datetime.now(dt.UTC)
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")])
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(hours=1))
            .add_extension(names, critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        encryption = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
        pem = serialization.Encoding.PEM
        certificate_file, key_file = tmp_path / f"{name}.pem", tmp_path / f"{name}.key"
        certificate_file.write_bytes(certificate.public_bytes(pem))
        key_file.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, encryption))
        return certificate_file, key_file

    return make
