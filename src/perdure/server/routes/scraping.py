"""`GET /metrics`, for Prometheus and whatever reads its text."""

from typing import Final

from perdure.server.loop_lag import lag_s
from perdure.server.metrics import Metrics
from perdure.server.route import HttpAnswer, HttpRequest, Route

TEXT: Final = b"text/plain; version=0.0.4; charset=utf-8"


class Scraping:
    """The route."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def table(self) -> tuple[Route, ...]:
        """The route."""
        return (
            Route(
                method="GET",
                path="/metrics",
                name="metrics",
                summary="Metrics in Prometheus' text format",
                tag="Node",
                permission="read",
                handler=self.scrape,
                answers={200: None},
                content_type="text/plain",
            ),
        )

    async def scrape(self, _: HttpRequest) -> HttpAnswer:
        return HttpAnswer(self._metrics.text(await lag_s()), content_type=TEXT)
