"""Every public call of the async client has a twin that blocks, with the same parameters and types, and none has more."""

import inspect
import re
from typing import Any, get_overloads

import pytest

import perdure
from perdure import SyncClient
from perdure.sdk.client import Client, Listing, Page
from perdure.sdk.handle import Handle
from perdure.sdk.sync_client import SyncCaller, SyncListing
from perdure.sdk.sync_handle import SyncHandle, SyncUpdateHandle
from perdure.sdk.update_handle import UpdateHandle

TWINS = {"client": (Client, SyncCaller), "handle": (Handle, SyncHandle), "update": (UpdateHandle, SyncUpdateHandle)}
OURS = {"reach", "fresh_id", "fresh_run", "signal_body", "update_request", "through", "call", "of", "close"}
"""Public to other parts of perdure, or how a client is let go of: nothing a caller asks of a run."""


def verbs(cls: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(cls, inspect.isroutine) if not name.startswith("_")} - OURS


def blocking(annotation: Any) -> str:
    """An annotation of the async side, as it reads on the other one."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?<!Sync)(Handle|UpdateHandle|Listing)\b", r"Sync\1", plain(text))


def plain(text: str) -> str:
    """Without the modules in which names live: where a hint is read differs between the files."""
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", re.sub(r"['~+]", "", text))


def shape(function: Any, *, read: Any) -> list[Any]:
    """Names, kinds, defaults and hints, and what comes back."""
    told = inspect.signature(function)
    parameters = [
        (one.name, one.kind, one.default, read(one.annotation) if one.annotation is not one.empty else "")
        for one in told.parameters.values()
        if one.name != "self"
    ]
    return [*parameters, read(told.return_annotation)]


def as_told(annotation: Any) -> str:
    return plain(annotation if isinstance(annotation, str) else inspect.formatannotation(annotation))


@pytest.mark.parametrize("name", TWINS)
def test_every_call_has_a_twin(name: str) -> None:
    """Nothing is missing on either side."""
    ours, theirs = TWINS[name]
    assert verbs(ours) == verbs(theirs)
    assert len(verbs(ours)) >= 1


@pytest.mark.parametrize(("name", "verb"), [(name, verb) for name, (ours, _) in TWINS.items() for verb in sorted(verbs(ours))])
def test_twins_take_and_give_the_same(name: str, verb: str) -> None:
    """Parameters, kinds, defaults, hints and overloads are equal, but for the handles they give; and only one is awaited."""
    ours, theirs = (getattr(cls, verb) for cls in TWINS[name])
    assert shape(theirs, read=as_told) == shape(ours, read=blocking)
    mine, other = get_overloads(ours), get_overloads(theirs)
    assert [shape(one, read=as_told) for one in other] == [shape(one, read=blocking) for one in mine]
    assert not inspect.iscoroutinefunction(theirs)
    assert (theirs.__doc__ or "").strip()


def test_overloads_are_compared() -> None:
    """There are some, and a difference in one would be seen."""
    assert len(get_overloads(SyncCaller.start)) == len(get_overloads(Client.start)) == 9
    first, second = get_overloads(SyncCaller.start)[:2]
    assert shape(first, read=as_told) != shape(second, read=as_told)
    assert "SyncHandle[R]" in shape(first, read=as_told)[-1]


def test_both_are_made_alike() -> None:
    """`SyncClient` takes what `connect` takes."""
    assert shape(SyncClient, read=as_told)[:-1] == shape(perdure.connect, read=as_told)[:-1]


def test_both_handles_have_the_same_attributes() -> None:
    """What one reads off a handle or a page is there on either side."""
    for ours, theirs in (*TWINS.values(), (Listing, SyncListing)):
        annotated = set(inspect.get_annotations(ours)) - {"namespace", "payload_bytes_max"}
        assert annotated <= set(inspect.get_annotations(theirs)), ours
    assert issubclass(SyncListing, Page)
