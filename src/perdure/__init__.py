"""perdure: durable execution for Python. Ordinary functions whose every step is written down, so a crash costs a retry, never an order.

The names below are all there is to know; each is loaded when it is first used, so that authors do not pay for the engine.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from perdure import codecs, errors, interceptors, testing
    from perdure.core.admission import AdmissionRules, OriginQuota
    from perdure.core.limits import Limits
    from perdure.node import embedded
    from perdure.remote import SyncClient, connect
    from perdure.sdk.activity import activity
    from perdure.sdk.child import ChildHandle
    from perdure.sdk.client import Client
    from perdure.sdk.codecs import PayloadCodec
    from perdure.sdk.handle import Handle
    from perdure.sdk.interceptors import Interceptor
    from perdure.sdk.options import Retry
    from perdure.sdk.workflow import workflow
    from perdure.standalone import Worker

    __version__: str

__all__ = [
    "AdmissionRules",
    "ChildHandle",
    "Client",
    "Handle",
    "Interceptor",
    "Limits",
    "OriginQuota",
    "PayloadCodec",
    "Retry",
    "SyncClient",
    "Worker",
    "activity",
    "codecs",
    "connect",
    "embedded",
    "errors",
    "interceptors",
    "testing",
    "workflow",
]

_HOMES: Final = {
    "AdmissionRules": "perdure.core.admission",
    "ChildHandle": "perdure.sdk.child",
    "Client": "perdure.sdk.client",
    "Handle": "perdure.sdk.handle",
    "Interceptor": "perdure.sdk.interceptors",
    "Limits": "perdure.core.limits",
    "OriginQuota": "perdure.core.admission",
    "PayloadCodec": "perdure.sdk.codecs",
    "Retry": "perdure.sdk.options",
    "SyncClient": "perdure.remote",
    "Worker": "perdure.standalone",
    "activity": "perdure.sdk.activity",
    "codecs": "",
    "connect": "perdure.remote",
    "embedded": "perdure.node",
    "errors": "",
    "interceptors": "",
    "testing": "",
    "workflow": "perdure.sdk.workflow",
}


if not TYPE_CHECKING:  # a checker that saw it would take every misspelt name for right

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from importlib.metadata import version

            return version("perdure")
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'perdure' has no attribute {name!r}")
        value = getattr(import_module(home), name) if home else import_module(f"perdure.{name}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
