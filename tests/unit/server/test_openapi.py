"""The OpenAPI document says of every route what there is to know, in words that are written down once."""

from typing import Any

import pytest

from perdure.server.access import Gate
from perdure.server.app import build_app
from perdure.server.docs_page import page
from perdure.server.openapi import codes_of, document
from perdure.server.route import Route

_NOTHING: Any = object()
ROUTES: tuple[Route, ...] = build_app(_NOTHING, Gate.open(), overview=_NOTHING, news=_NOTHING).routes
DOCUMENT = document(ROUTES, "1.2.3")


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_a_route_is_told_whole(route: Route) -> None:
    """Operation, parameters, body, answers, errors and permission."""
    told = DOCUMENT["paths"][route.path][route.method.lower()]
    assert told["operationId"] == route.name
    assert route.summary
    assert told.get("x-permission") == route.permission
    assert ("requestBody" in told) == (route.body is not None)
    named = {each["name"] for each in told["parameters"]}
    assert set(route.query.__struct_encode_fields__) <= named
    assert {segment[1:-1] for segment in route.path.split("/") if segment.startswith("{")} <= named
    assert {str(status) for status in route.answers} <= told["responses"].keys()
    assert codes_of(route)


def test_names_are_used_once() -> None:
    """Operation ids tell routes apart, and types of one name are one type."""
    names = [route.name for route in ROUTES]
    assert len(set(names)) == len(names)


def test_every_reference_leads_somewhere() -> None:
    """In the document, and on the page made of it."""
    references: list[str] = []

    def look(value: Any) -> None:
        if isinstance(value, dict):
            references.extend([value["$ref"]] if "$ref" in value else [])
            for each in value.values():
                look(each)
        elif isinstance(value, list | tuple):
            for each in value:
                look(each)

    look(DOCUMENT)
    assert len(references) > 50
    assert {reference.rsplit("/", 1)[1] for reference in references} <= DOCUMENT["components"]["schemas"].keys()
    text = page(DOCUMENT)
    assert all(f'id="{name}"' in text for name in DOCUMENT["components"]["schemas"])


def test_fields_say_what_they_are() -> None:
    """A field's docstring is its description."""
    body = DOCUMENT["components"]["schemas"]["StartBody"]
    assert body["properties"]["queue"]["default"] == "default"
    assert "open run of that id" in body["properties"]["on_conflict"]["description"]
    assert body["required"] == ["type"]
    assert body["additionalProperties"] is False
