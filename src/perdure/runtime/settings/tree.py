"""Every setting of a node, with its default, its bounds and what it means. The reference page and `perdure config` are this list.

A section is a struct, a key is a field. Whoever adds one reads it somewhere: a setting that nothing heeds is a lie.
"""

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from perdure.core.admission import AdmissionRules
from perdure.core.limits import Limits
from perdure.core.principal import Role
from perdure.runtime.api_key import PREFIX, is_hash
from perdure.runtime.http_limits import HttpLimits
from perdure.runtime.wire_limits import WireLimits

SECRET: Final = {"secret": True}
"""In a field's `Meta(extra=…)`: the value is never shown, in an error neither."""
LOCAL_NAME: Final = "local"
"""The name of the key a node makes for the command line beside it; no other key may have it."""


class NodeSettings(Struct, frozen=True, kw_only=True):
    data: Annotated[str, Meta(min_length=1, description="the data directory: journal, index and lock")] = "perdure-data"


class RetentionSettings(Struct, frozen=True, kw_only=True):
    closed: Annotated[
        timedelta | None, Meta(description="how long closed runs are kept: `30d`, `12h`, seconds, or `forever`")
    ] = timedelta(days=30)


class ServerSettings(Struct, frozen=True, kw_only=True):
    host: Annotated[
        str, Meta(min_length=1, description="the address to listen on; beyond loopback it takes a key, or `insecure`")
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535, description="the TCP port; 0: any that is free, which is printed")] = 7373
    tls_certificate: Annotated[
        str, Meta(description="a PEM file with the certificate and what leads to its root; empty: no TLS")
    ] = ""
    tls_key: Annotated[str, Meta(description="the PEM file of its private key, without a passphrase")] = ""
    insecure: Annotated[
        bool, Meta(description="listen beyond loopback though no key is known: whoever reaches the port is an admin")
    ] = False
    hosts: Annotated[
        tuple[str, ...],
        Meta(description="names the node is reached by, beside addresses and localhost, compared with the `Host` header"),
    ] = ()
    origins: Annotated[
        tuple[str, ...],
        Meta(
            description="origins (`https://ui.example`) whose web pages may reach the node and read its answers, beside its own"
        ),
    ] = ()

    grace_s: Annotated[
        float, Meta(ge=0, le=3_600, description="seconds that requests under way have to be answered at a stop")
    ] = 10.0

    def __post_init__(self) -> None:
        if bool(self.tls_certificate) != bool(self.tls_key):
            missing, given = ("tls_key", "tls_certificate") if self.tls_certificate else ("tls_certificate", "tls_key")
            raise ValueError(f"{missing} is missing: {given} is given, and TLS takes both")


class KeySettings(Struct, frozen=True, kw_only=True):
    hash: Annotated[str, Meta(description="what the node knows of the key; `perdure key create` prints it", extra=SECRET)] = ""
    role: Annotated[
        Role | Literal[""], Meta(description="what its bearer may do: `admin`, `operator`, `read-only` or `worker`")
    ] = ""

    def __post_init__(self) -> None:
        if not self.hash or not self.role:
            raise ValueError(f"{'role' if self.hash else 'hash'} is missing: a key has both")
        if not is_hash(self.hash):
            amiss = (
                "that is a key itself, which belongs to its bearer alone" if self.hash.startswith(PREFIX) else "that is none"
            )
            raise ValueError(f"hash must be sha256: and 64 hexadecimal digits, as `perdure key create` prints it; {amiss}")


class AccessSettings(Struct, frozen=True, kw_only=True):
    keys: Mapping[str, KeySettings] = field(default_factory=lambda: MappingProxyType[str, KeySettings]({}))


class LogSettings(Struct, frozen=True, kw_only=True):
    level: Annotated[Literal["debug", "info", "warning", "error"], Meta(description="the least that is logged")] = "info"
    format: Annotated[Literal["text", "json"], Meta(description="lines for people, or a JSON document a line")] = "text"


class Settings(Struct, frozen=True, kw_only=True):
    """The whole tree. Each field is a section."""

    node: NodeSettings = NodeSettings()
    retention: RetentionSettings = RetentionSettings()
    server: ServerSettings = ServerSettings()
    access: AccessSettings = field(default_factory=AccessSettings)
    http: HttpLimits = HttpLimits()
    wire: WireLimits = WireLimits()
    limits: Limits = Limits()
    admission: AdmissionRules = field(default_factory=AdmissionRules)
    log: LogSettings = LogSettings()
