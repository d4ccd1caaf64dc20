"""The docs page: the API for people, written from the OpenAPI document on the server, in one file that loads nothing from anywhere."""

from collections.abc import Sequence
from html import escape
from typing import Any, Final

_STYLE: Final = """
:root{color-scheme:light dark;--line:#8884;--soft:#8881;--word:#0a6cb8}
@media(prefers-color-scheme:dark){:root{--word:#6cb6f2}}
body{font:15px/1.55 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}
code{font:13px/1.4 ui-monospace,monospace}h1,h2{line-height:1.2}h2{margin-top:2.5rem;border-bottom:1px solid var(--line)}
details{border:1px solid var(--line);border-radius:6px;margin:.5rem 0}summary{padding:.5rem .75rem;cursor:pointer}
details>div{padding:0 .75rem .75rem}.method{display:inline-block;min-width:4rem;font-weight:600;color:var(--word)}
table{border-collapse:collapse;width:100%;margin:.25rem 0 1rem}td,th{text-align:left;padding:.3rem .5rem;
border-top:1px solid var(--line);vertical-align:top}th{font-weight:600}nav a{margin-right:1rem}a{color:var(--word)}
"""


def page(document: dict[str, Any]) -> str:
    """The page of a document of `openapi.document`."""
    tags: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tags.setdefault(operation["tags"][0], []).append(_operation(method.upper(), path, operation))
    schemas = [_schema(name, schema) for name, schema in sorted(document["components"]["schemas"].items())]
    info = document["info"]
    links = "".join(f'<a href="#{escape(tag)}">{escape(tag)}</a>' for tag in (*tags, "Types"))
    sections = "".join(f'<h2 id="{escape(tag)}">{escape(tag)}</h2>{"".join(parts)}' for tag, parts in tags.items())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(info['title'])} API</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(info['title'])} API</h1><p>Version {escape(info['version'])}. {escape(info['description'])} "
        'As a document: <a href="/api/v1/openapi.json">OpenAPI 3.1</a>.</p>'
        f'<nav>{links}</nav>{sections}<h2 id="Types">Types</h2>{"".join(schemas)}</body></html>'
    )


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    parts = [f"<p>{_prose(operation['description'])}</p>"] if "description" in operation else []
    if "x-permission" in operation:
        parts.append(f"<p>Permission: <code>{escape(operation['x-permission'])}</code></p>")
    rows = [
        (f"<code>{escape(each['name'])}</code>", each["in"], _type(each["schema"]), _prose(each.get("description", "")))
        for each in operation["parameters"]
    ]
    parts.append(_table(("Parameter", "In", "Type", ""), rows))
    if "requestBody" in operation:
        body = operation["requestBody"]
        told = "" if body["required"] else " (may be left out)"
        parts.append(f"<p>Body: {_content(body['content'])}{told}</p>")
    answers = [
        (f"<code>{status}</code>", _content(each.get("content", {})), _prose(each["description"]))
        for status, each in operation["responses"].items()
    ]
    parts.append(_table(("Status", "Body", ""), answers))
    return (
        f'<details id="{escape(operation["operationId"])}"><summary><span class="method">{method}</span> '
        f"<code>{escape(path)}</code> — {escape(operation['summary'])}</summary><div>{''.join(parts)}</div></details>"
    )


def _schema(name: str, schema: dict[str, Any]) -> str:
    required = schema.get("required", ())
    rows = [
        (
            f"<code>{escape(field)}</code>",
            _type(shape) + (", required" if field in required else ""),
            _prose(shape.get("description", "")),
        )
        for field, shape in schema.get("properties", {}).items()
    ]
    told = f"<p>{_prose(schema.get('description', ''))}</p>"
    body = told + _table(("Field", "Type", ""), rows)
    return f'<details id="{escape(name)}"><summary><code>{escape(name)}</code></summary><div>{body}</div></details>'


def _content(content: dict[str, Any]) -> str:
    return ", ".join(_type(each["schema"]) if kind == "application/json" else escape(kind) for kind, each in content.items())


def _type(schema: Any) -> str:
    """A type in a few words."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rsplit("/", 1)[1])
        return f'<a href="#{name}"><code>{name}</code></a>'
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"])
    kind = schema.get("type", "any JSON")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    return escape(str(kind)) + _bounds(schema)


def _bounds(schema: dict[str, Any]) -> str:
    low, high = schema.get("minimum", schema.get("minLength")), schema.get("maximum", schema.get("maxLength"))
    if low is None and high is None:
        return ""
    return f", {'' if low is None else f'{low:,}'} … {'' if high is None else f'{high:,}'}"


def _prose(text: str) -> str:
    """Text with its `code` shown as such."""
    pieces = escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if place % 2 else piece for place, piece in enumerate(pieces))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    first = "".join(f"<th>{word}</th>" for word in head)
    return f"<table><tr>{first}</tr>{''.join('<tr>' + ''.join(f'<td>{cell}</td>' for cell in row) + '</tr>' for row in rows)}</table>"
