"""What people see while a trial goes on: how many of its runs are accepted and ended, and what is done to its processes."""

from typing import Any

from perdure.demo.show import Teller


class Watcher:
    """Hears the lines of courses, one seed after the other, and tells what matters of them."""

    def __init__(self, telling: Teller) -> None:
        self._telling = telling
        self._accepted = 0
        self._ended = 0
        self._kills = 0

    def __call__(self, line: dict[str, Any]) -> None:
        match line["what"]:
            case "accepted":
                self._accepted += 1
                self._telling.progress(self._accepted, self._ended)
            case "ended":
                self._ended += 1
                self._telling.progress(self._accepted, self._ended)
            case "killed" if line["role"] == "worker":
                self._kills += 1
            case "killed":
                self._telling.note(f"{line['s']:7.1f} s  killed the node ({self._kills} workers so far)")
            case "deploy begun":
                self._telling.note(f"{line['s']:7.1f} s  deploying v2 over v1 with {line['in_flight']} runs in flight")
            case "seed begun":
                self._telling.note(f"seed {line['seed']}: {line['runs']} runs")
            case "gave up" | "died":
                self._telling.note(f"{line['s']:7.1f} s  {line['what']}: {line.get('why') or line.get('role')}")
            case _:
                pass
