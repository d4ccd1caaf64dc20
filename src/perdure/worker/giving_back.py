"""Giving a workflow claim back without a decision: why the run cannot go on here, as a request to its owner."""

import logging
from typing import Protocol

from perdure.core.requests import ReleaseWorkflow
from perdure.replay.mismatch import Mismatch, OldBuild, Stale

log = logging.getLogger(__name__)


class OneRun(Protocol):
    """Whatever names a run."""

    @property
    def namespace(self) -> str: ...

    @property
    def workflow_id(self) -> str: ...

    @property
    def run_id(self) -> str: ...


def release(of: OneRun, token: str, build_id: str, fault: Mismatch | OldBuild | Stale) -> ReleaseWorkflow:
    """The request that gives the claim back; a mismatch is logged, since it quarantines the run."""
    head = {
        "namespace": of.namespace,
        "workflow_id": of.workflow_id,
        "run_id": of.run_id,
        "token": token,
        "build_id": build_id,
    }
    if isinstance(fault, OldBuild):
        return ReleaseWorkflow(**head, why="old_build", reason=str(fault), change_id=fault.change_id)
    if isinstance(fault, Stale):
        return ReleaseWorkflow(**head, why="draining", reason=str(fault))
    log.error(
        "workflow %r (run %s) is quarantined: %s%s%s",
        of.workflow_id,
        of.run_id,
        fault.reason,
        f"; expected {fault.expected}" if fault.expected else "",
        f"; found {fault.found}" if fault.found else "",
    )
    return ReleaseWorkflow(**head, why="nondeterminism", reason=fault.reason, expected=fault.expected, found=fault.found)


def release_unknown(of: OneRun, token: str, build_id: str, worker: str) -> ReleaseWorkflow:
    """The request that gives back a run whose type is not registered here."""
    return ReleaseWorkflow(
        namespace=of.namespace,
        workflow_id=of.workflow_id,
        run_id=of.run_id,
        token=token,
        build_id=build_id,
        why="unknown_type",
        worker=worker,
    )
