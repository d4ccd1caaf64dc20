"""The watchdog names the run and the frame that block a thread, by CPU time, and accuses nobody else."""

import queue
import threading

import pytest

from perdure.replay.watchdog import BlockedLoop, SystemClocks, Watchdog

pytestmark = pytest.mark.scenario(59)


class HandClocks:
    """Clocks moved by hand."""

    def __init__(self, *, per_thread: bool = True):
        self.wall_now = 100.0
        self.cpu_now = 7.0
        self.per_thread = per_thread

    def wall(self):
        return self.wall_now

    def cpu_clock_of_this_thread(self):
        return 1 if self.per_thread else None

    def cpu(self, clock):
        return self.cpu_now

    def pass_(self, wall, cpu):
        self.wall_now += wall
        self.cpu_now += cpu


def make(**clocks):
    reports: list[BlockedLoop] = []
    hand = HandClocks(**clocks)
    return Watchdog(2.0, reports.append, clocks=hand), hand, reports


def test_reports_once_past_the_limit_and_once_past_ten():
    """Each activation is named at most twice, with this very line."""
    watchdog, clocks, reports = make()
    with watchdog.watch("run-1"):
        watchdog.look()
        clocks.pass_(3, 1.5)
        watchdog.look()
        assert reports == []
        for _ in range(5):
            clocks.pass_(1, 1)
            watchdog.look()
        assert [(r.label, r.cpu_s, r.file) for r in reports] == [("run-1", 2.5, __file__)]
        assert "run-1" in str(reports[0])
        clocks.pass_(20, 20)
        watchdog.look()
        watchdog.look()
    assert len(reports) == 2


def test_a_starved_machine_accuses_nobody_until_ten_limits_of_wall_time():
    """CPU time counts; a thread blocked without using any is found by the wall clock."""
    watchdog, clocks, reports = make()
    with watchdog.watch("waits"):
        watchdog.look()
        clocks.pass_(19, 0)
        watchdog.look()
        assert reports == []
        clocks.pass_(2, 0)
        watchdog.look()
    assert [r.wall_s for r in reports] == [21.0]


def test_many_short_activations_are_no_blocked_one():
    """Time is counted from the activation seen, not over activations."""
    watchdog, clocks, reports = make()
    for _ in range(10):
        watchdog.begin("short")
        watchdog.look()
        clocks.pass_(1, 1)
        watchdog.look()
        watchdog.end()
        clocks.pass_(100, 100)
        watchdog.look()
    assert reports == []


def test_without_thread_clocks_wall_time_counts():
    """Where the system has no such clock."""
    watchdog, clocks, reports = make(per_thread=False)
    with watchdog.watch("run"):
        watchdog.look()
        clocks.pass_(2.5, 0)
        watchdog.look()
    assert [(r.cpu_s, r.wall_s) for r in reports] == [(None, 2.5)]


def test_a_failing_report_or_an_ended_thread_does_not_end_the_watch():
    """Reports that raise are dropped; threads that are gone are forgotten."""
    clocks = HandClocks()

    def fail(blocked):
        raise ValueError(blocked.label)

    watchdog = Watchdog(2.0, fail, clocks=clocks)
    thread = threading.Thread(target=watchdog.begin, args=("gone",))
    thread.start()
    thread.join()
    with watchdog.watch("here"):
        for _ in range(3):
            watchdog.look()
            clocks.pass_(5, 5)

    def gone(clock):
        raise OSError

    clocks.cpu = gone
    watchdog.look()
    watchdog.forget_thread()


def test_the_real_thing_finds_a_busy_loop():
    """With real clocks and its own thread it names the function that spins; stopping twice is fine."""
    found: queue.Queue[BlockedLoop] = queue.Queue()
    seen = threading.Event()

    def report(blocked):
        found.put(blocked)
        seen.set()

    watchdog = Watchdog(0.02, report)
    watchdog.start()
    watchdog.start()

    def spin():
        while not seen.is_set():
            pass

    with watchdog.watch("busy"):
        spin()
    watchdog.stop()
    watchdog.stop()
    blocked = found.get_nowait()
    assert (blocked.label, blocked.file) == ("busy", __file__)
    assert "spin" in blocked.function
    # On a busy machine the thread may hardly have run when ten times the limit has passed on the wall.
    assert blocked.cpu_s is None or blocked.cpu_s > 0.02 or blocked.wall_s > 0.2
    assert SystemClocks().wall() > 0
