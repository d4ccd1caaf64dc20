"""Loggers that know what is running. The workflow's is silent while replaying: what it would say was said when it happened."""

import logging
from collections.abc import MutableMapping
from typing import Any, Final

from perdure.sdk.context import activity_context, current_workflow


class WorkflowLogger(logging.LoggerAdapter[logging.Logger]):
    """Adds `workflow_id` and `run_id` to every record; outside workflow code an ordinary logger."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802  logging's own name
        """As logging says, but never while replaying."""
        context = current_workflow()
        return (context is None or not context.is_replaying()) and super().isEnabledFor(level)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Put the run's ids beside whatever `extra` the caller gave."""
        context = current_workflow()
        if context is not None:
            info = context.info()
            _add(kwargs, workflow_id=info.workflow_id, run_id=info.run_id)
        return msg, kwargs


class ActivityLogger(logging.LoggerAdapter[logging.Logger]):
    """Adds `workflow_id`, `run_id`, `activity` and `attempt` to every record; outside an activity an ordinary logger."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Put the attempt's ids beside whatever `extra` the caller gave."""
        context = activity_context.get()
        if context is not None:
            _add(kwargs, workflow_id=context.workflow_id, run_id=context.run_id, activity=context.name, attempt=context.attempt)
        return msg, kwargs


def _add(kwargs: MutableMapping[str, Any], **ids: object) -> None:
    kwargs["extra"] = {**ids, **(kwargs.get("extra") or {})}


WORKFLOW_LOGGER: Final = WorkflowLogger(logging.getLogger("perdure.workflow"), {})
ACTIVITY_LOGGER: Final = ActivityLogger(logging.getLogger("perdure.activity"), {})
