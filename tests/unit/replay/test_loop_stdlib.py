"""CPython's own asyncio tests pass on workflow loops, but for what a workflow loop is not meant to do."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import perdure.replay

DIFFERENT = {
    # Inputs are fed one at a time, so two timers due at one instant are two inputs.
    "test_nested_timeouts",
    # They block the thread, or use executors and other threads: refused.
    "test_nested_timeouts_concurrent",
    "test_nested_timeouts_loop_busy",
    "test_context_3",
    "test_run_coroutine_threadsafe",
    "test_run_coroutine_threadsafe_task_cancelled",
    "test_run_coroutine_threadsafe_task_factory_exception",
    "test_run_coroutine_threadsafe_with_exception",
    "test_run_coroutine_threadsafe_with_timeout",
    "test_wrap_future",
    # SystemExit ends the task that raised it, never the worker.
    "test_baseexception_during_cancel",
    # "A brief run" is a run until idle, and running is not `run_forever` with its own callbacks and `stop`.
    "test_cancel_yield",
    "test_stop_while_run_in_complete",
    "test_subclasses_ctask_cfuture",
    # Errors nobody looked at are collected, never logged or printed.
    "test_future_exception_never_retrieved",
    "test_future_exception_never_retrieved_debug",
    "test_tb_logger_exception_unretrieved",
    "test_set_exception_causes_invalid_state",
    "test_set_result_causes_invalid_state",
    # There is no debug mode.
    "test_error_in_call_soon",
    "test_future_repr",
    "test_future_source_traceback",
    "test_task_source_traceback",
    # They reach into private parts of the stock loop and its handles.
    "test_issue46672",
    "test_log_destroyed_pending_task",
    "test_sleep_cancel",
}


def run(*modules: str) -> dict[str, dict]:
    """What CPython's tests say, in a process of their own."""
    if importlib.util.find_spec("test") is None or importlib.util.find_spec("test.test_asyncio") is None:
        pytest.skip("this Python was installed without its tests")
    env = {**os.environ, "PYTHONPATH": str(Path(perdure.replay.__file__).parents[2])}
    program = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("stdlib_suite.py")), *modules]
    done = subprocess.run(program, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def wrong(report: dict) -> dict[str, str]:
    return {case: why for case, why in report["wrong"].items() if case.split(" ")[0].rpartition(".")[2] not in DIFFERENT}


def test_locks_queues_groups_timeouts():
    """Every synchronisation primitive, task groups, timeouts and wait_for, one loop a test."""
    for name, report in run("test_locks", "test_queues", "test_taskgroups", "test_timeouts", "test_waitfor").items():
        assert report["loops"] >= report["run"] > 10, name
        assert wrong(report) == {}, name


@pytest.mark.slow
def test_tasks_and_futures():
    """Tasks, futures, gather, wait, as_completed, shield and cancellation."""
    for name, report in run("test_tasks", "test_futures").items():
        assert report["loops"] >= report["run"] > 100, name
        assert wrong(report) == {}, name


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with 3.12")
def test_eager_tasks():
    """Tasks that begin at once."""
    report = run("test_eager_task_factory")["test_eager_task_factory"]
    assert report["loops"] >= report["run"] > 10
    assert wrong(report) == {}
