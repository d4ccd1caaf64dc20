"""The OpenAPI 3.1 document of a table of routes: written from the very types that read requests and write answers, so it cannot be wrong.

Made once, when somebody asks for it. Descriptions are the docstrings of the types and of their fields.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

import msgspec
from msgspec import Struct

from perdure.server.envelope import OWN, STATUS, ErrorEnvelope
from perdure.server.parameters import Id
from perdure.server.route import Route

_REF: Final = "#/components/schemas/{name}"
_ALWAYS: Final = ("REQUEST_TIMEOUT", "URL_TOO_LONG", "HEADERS_TOO_LARGE", "PERDURE_ERROR")
_GUARDED: Final = ("INVALID_ARGUMENT", "UNAUTHENTICATED", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "UNAVAILABLE")
_WITH_BODY: Final = ("PAYLOAD_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE")
_RETRY_AFTER: Final = {"description": "Seconds after which to come back", "schema": {"type": "integer", "minimum": 1}}


def document(routes: Iterable[Route], version: str) -> dict[str, Any]:
    """The document. WebSockets are left out: OpenAPI has no words for them."""
    shown = [route for route in routes if route.method != "WEBSOCKET"]
    schemas = _schemas(shown)
    paths: dict[str, dict[str, Any]] = {}
    for route in shown:
        paths.setdefault(route.path, {})[route.method.lower()] = operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "perdure",
            "version": version,
            "description": "Durable execution. Ids stand percent-encoded in paths, slashes and dots too.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "An API key"}},
        },
    }


def codes_of(route: Route) -> tuple[str, ...]:
    """Codes of everything that may go wrong with a request of this route."""
    codes = [*route.errors, *_ALWAYS]
    if route.permission is not None:
        codes += _GUARDED
    else:
        codes.append("INVALID_ARGUMENT")
    if route.body is not None:
        codes += _WITH_BODY
    return tuple(dict.fromkeys(codes))


def operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    """One method of one path."""
    found: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": [*_path_parameters(route), *_query_parameters(route), *_headers(route)],
        "responses": _responses(route),
    }
    if route.description:
        found["description"] = route.description
    if route.body is not None:
        found["requestBody"] = {
            "required": not route.is_body_optional,
            "content": {"application/json": {"schema": _ref(route.body, schemas)}},
        }
    if route.permission is not None:
        found["security"] = [{"key": []}, {}]
        found["x-permission"] = route.permission
    return found


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    names = [segment[1:-1] for segment in route.path.split("/") if segment.startswith("{")]
    schema = msgspec.json.schema(Id)
    return [{"name": name, "in": "path", "required": True, "schema": schema} for name in names]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    _, components = msgspec.json.schema_components((route.query,), ref_template=_REF)
    shape = components[route.query.__name__]
    told = field_texts(route.query)
    required = shape.get("required", ())
    return [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            "schema": schema,
            "description": told.get(name) or schema.get("description", ""),
        }
        for name, schema in shape["properties"].items()
    ]


def _headers(route: Route) -> list[dict[str, Any]]:
    if not route.takes_idempotency_key:
        return []
    return [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "schema": {"type": "string", "maxLength": 255},
            "description": "The request id: a request repeated with it is carried out once",
        }
    ]


def _responses(route: Route) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status, kind in route.answers.items():
        found[str(status)] = {"description": HTTPStatus(status).phrase}
        if kind is not None:
            schema = {"type": "object"} if kind is dict else {"$ref": _REF.format(name=kind.__name__)}
            found[str(status)]["content"] = {route.content_type: {"schema": schema}}
        elif status != 101:
            found[str(status)]["content"] = {route.content_type: {"schema": {"type": "string"}}}
    by_status: dict[int, list[str]] = {}
    for code in codes_of(route):
        by_status.setdefault(STATUS.get(code) or OWN[code], []).append(code)
    for status, codes in sorted(by_status.items()):
        if str(status) in found:
            continue
        error = {"description": " or ".join(codes), "content": {"application/json": {"schema": _error()}}}
        found[str(status)] = error | ({"headers": {"Retry-After": _RETRY_AFTER}} if status in {429, 503} else {})
    return found


def _error() -> dict[str, str]:
    return {"$ref": _REF.format(name=ErrorEnvelope.__name__)}


def _ref(kind: type[Struct], schemas: dict[str, Any]) -> dict[str, str]:
    assert kind.__name__ in schemas
    return {"$ref": _REF.format(name=kind.__name__)}


def _schemas(routes: list[Route]) -> dict[str, Any]:
    kinds: dict[Any, None] = {ErrorEnvelope: None}
    for route in routes:
        kinds |= dict.fromkeys(kind for kind in (route.body, *route.answers.values()) if kind not in {None, dict})
    _, schemas = msgspec.json.schema_components(tuple(kinds), ref_template=_REF)
    for kind in _all_structs(kinds):
        told = field_texts(kind)
        for name, schema in schemas.get(kind.__name__, {}).get("properties", {}).items():
            if name in told:
                schema["description"] = told[name]
    return schemas


def _all_structs(kinds: Iterable[Any]) -> list[type[Struct]]:
    """The types, and those in their fields."""
    found: dict[type[Struct], None] = {}
    left: list[Any] = [msgspec.inspect.type_info(kind) for kind in kinds]
    while left:
        info = left.pop()
        if isinstance(info, msgspec.inspect.StructType):
            if info.cls in found:
                continue
            found[info.cls] = None
            left += [field.type for field in info.fields]
        else:
            left += [value for value in _parts_of(info) if isinstance(value, msgspec.inspect.Type)]
    return list(found)


def _parts_of(info: Any) -> Iterable[Any]:
    for name in info.__struct_fields__:
        value = getattr(info, name)
        if isinstance(value, tuple):
            yield from value
        else:
            yield value


def field_texts(kind: type[Struct]) -> dict[str, str]:
    """The docstrings under the fields of a type, inherited ones too; none where there is no source to read."""
    texts: dict[str, str] = {}
    for cls in reversed(kind.__mro__):
        if not issubclass(cls, Struct) or cls is Struct:
            continue
        try:
            body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
        except (OSError, TypeError, SyntaxError):
            continue
        texts |= _texts_in(body)
    return texts


def _texts_in(body: ast.stmt) -> dict[str, str]:
    texts: dict[str, str] = {}
    before: ast.stmt | None = None
    for statement in body.body if isinstance(body, ast.ClassDef) else ():
        match before, statement:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                texts[name] = inspect.cleandoc(text)
            case _:
                pass
        before = statement
    return texts
