"""The public surface is a list one can read; a name enters or leaves it only together with this test and the changelog."""

import perdure

PUBLIC = [
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


def test_public_names_are_pinned() -> None:
    """`perdure.__all__` is exactly this list."""
    assert sorted(perdure.__all__) == sorted(PUBLIC)


def test_every_public_name_is_there() -> None:
    """Names that are loaded late resolve, and `dir()` shows them."""
    for name in perdure.__all__:
        assert getattr(perdure, name) is not None
    assert set(perdure.__all__) <= set(dir(perdure))


def test_an_unknown_name_is_an_attribute_error() -> None:
    """Late loading does not hide typing mistakes."""
    assert not hasattr(perdure, "workflw")
