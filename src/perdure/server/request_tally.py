"""Counts HTTP requests by route and class of status, with how long they took: a few additions a request."""

from bisect import bisect_left
from typing import Final

from perdure.core.overview import Histogram

BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 10.0, 60.0)


class RequestTally:
    """By the route's template, never by the path: a label has as many values as there are routes."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, str], int] = {}
        self._times: dict[str, list[float]] = {}

    def add(self, method: str, path: str, status: int, seconds: float) -> None:
        """A request was answered. Without a `path` there was no such route."""
        key = (method if path else "", path, f"{status // 100}xx")
        self._counts[key] = self._counts.get(key, 0) + 1
        times = self._times.get(path)
        if times is None:
            times = self._times[path] = [0] * (len(BOUNDS_S) + 2)
        times[bisect_left(BOUNDS_S, seconds)] += 1
        times[-1] += seconds

    def counts(self) -> dict[tuple[str, str, str], int]:
        """Requests by method, route and class of status."""
        return dict(self._counts)

    def times(self) -> dict[str, Histogram]:
        """How long they took, by route."""
        return {
            path: Histogram(bounds=BOUNDS_S, counts=tuple(map(int, times[:-1])), total=times[-1])
            for path, times in self._times.items()
        }
