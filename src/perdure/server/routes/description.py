"""What the API says of itself: the OpenAPI document, and the page made of it. Open to all: it holds nothing but this program's own text."""

from collections.abc import Callable, Sequence

import perdure
from perdure.server.route import HttpAnswer, HttpRequest, Route, encode

_HTML = "text/html; charset=utf-8"
_POLICY = b"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


class SelfDescription:
    """`routes` gives the whole table, of other parts too; it is asked when the first caller is."""

    def __init__(self, routes: Callable[[], Sequence[Route]]) -> None:
        self._routes = routes
        self._document = b""
        self._page = b""

    def table(self) -> tuple[Route, ...]:
        """The routes."""
        return (
            Route(
                method="GET",
                path="/api/v1/openapi.json",
                name="openapi",
                summary="This API as an OpenAPI 3.1 document",
                tag="Description",
                permission=None,
                handler=self.document,
                answers={200: dict},
            ),
            Route(
                method="GET",
                path="/docs",
                name="docs",
                summary="This API as a page for people",
                tag="Description",
                permission=None,
                handler=self.page,
                answers={200: None},
                content_type=_HTML,
            ),
        )

    async def document(self, _: HttpRequest) -> HttpAnswer:
        self._make()
        return HttpAnswer(self._document)

    async def page(self, _: HttpRequest) -> HttpAnswer:
        self._make()
        return HttpAnswer(self._page, headers=((b"content-security-policy", _POLICY),), content_type=_HTML.encode())

    def _make(self) -> None:
        if self._document:
            return
        from perdure.server.docs_page import page
        from perdure.server.openapi import document

        found = document(self._routes(), perdure.__version__)
        self._document, self._page = encode(found), page(found).encode()
