"""What a client's request may hold, whoever sent it."""

from typing import Any

import pytest
from msgspec import Raw

from perdure.core.errors import InvalidArgument
from perdure.core.limits import LIMITS, Limits
from perdure.core.requests import (
    RequestCancel,
    ResumeWorkflow,
    SignalBody,
    SignalWorkflow,
    StartWorkflow,
    TerminateWorkflow,
    UpdateWorkflow,
)
from perdure.engine.door import Door

check = Door(LIMITS).check

ODD = (404, "\ud800", None, type("Text", (str,), {})("x"))


def start(**fields: Any) -> StartWorkflow:
    known: dict[str, Any] = {"workflow_id": "w", "workflow_type": "t", "run_id": "r", "seed": 1, "request_id": "q"}
    return StartWorkflow(**known | fields)


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize(
    ("kind", "field"),
    [
        *(
            (StartWorkflow, name)
            for name in ("workflow_id", "namespace", "workflow_type", "run_id", "request_id", "queue", "origin")
        ),
        *(
            (kind, name)
            for kind in (RequestCancel, TerminateWorkflow)
            for name in ("workflow_id", "run_id", "reason", "request_id")
        ),
        *((ResumeWorkflow, name) for name in ("workflow_id", "run_id", "reason")),
    ],
)
def test_text_that_could_not_be_read_back_is_refused(kind: Any, field: str, odd: Any) -> None:
    """In every field of every request, before anything is written."""
    make = start if kind is StartWorkflow else kind
    with pytest.raises(InvalidArgument):
        check(make(**{"workflow_id": "w"} | {field: odd}))


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_so_it_is_further_inside(odd: Any) -> None:
    """Names of signals, memos and keywords; numbers that are none."""
    one = Raw(b"1")
    bodies = (SignalBody(name=odd, signal_id="i"), SignalBody(name="s", signal_id=odd))
    keyworded = SignalBody(name="s", signal_id="i", keywords={odd: one})
    for body in (*bodies, keyworded):
        for request in (SignalWorkflow(workflow_id="w", signal=body), start(signal=body)):
            with pytest.raises(InvalidArgument):
                check(request)
    for fields in ({"memo": {odd: one}}, {"keywords": {odd: one}}, {"timeout": True}, {"timeout": 1.5}, {"seed": "1"}):
        with pytest.raises(InvalidArgument):
            check(start(**fields))


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_an_update_is_refused_for_what_is_in_it(odd: Any) -> None:
    """Its names, and payloads that would make the decision that takes it unwritable: a run must not be set aside for them."""
    one = Raw(b"1")
    head = {"workflow_id": "w", "update_id": "u", "name": "n"}
    for fields in ({"name": odd}, {"update_id": odd}, {"keywords": {odd: one}}, {"run_id": odd}):
        with pytest.raises(InvalidArgument):
            check(UpdateWorkflow(**{**head, **fields}))
    for payload in (b"{bad", b"1 2", b"[" * 301 + b"]" * 301):
        for fields in ({"input": (one, Raw(payload))}, {"keywords": {"k": Raw(payload)}}):
            with pytest.raises(InvalidArgument, match="update n"):
                check(UpdateWorkflow(**head, **fields))
    check(UpdateWorkflow(**head, input=(Raw(b"[1,\n2]"),), keywords={"k": one}))


def test_what_is_well_passes() -> None:
    """With all there is to say, and with as little as can be; a reason has its bound."""
    check(start(memo={"a": Raw(b"1")}, keywords={"é b": Raw(b"1")}, timeout=5, signal=SignalBody(name="s", signal_id="i")))
    check(RequestCancel(workflow_id="w"))
    check(TerminateWorkflow(workflow_id="w", reason="é" * 10_000, run_id="r", request_id="q"))
    with pytest.raises(InvalidArgument, match="10,000"):
        check(ResumeWorkflow(workflow_id="w", reason="x" * 10_001))


def test_a_node_may_allow_shorter_ids_only() -> None:
    """The bound is that of the node, named with its value; no node allows more than can be kept, or less than ids made by itself need."""
    door = Door(Limits(id_bytes_max=64))
    door.check(SignalWorkflow(workflow_id="w" * 64, signal=SignalBody(name="go", signal_id="s")))
    with pytest.raises(InvalidArgument, match=r"65 bytes long; the limit \(id_bytes_max\) is 64"):
        door.check(SignalWorkflow(workflow_id="w" * 65, signal=SignalBody(name="go", signal_id="s")))
    for bound in (63, 256):
        with pytest.raises(ValueError, match="id_bytes_max must be a number from 64 to 255"):
            Limits(id_bytes_max=bound)
