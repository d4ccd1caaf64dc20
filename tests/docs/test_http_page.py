"""The page about HTTP lists every route with its parameters, answers and errors, as the route table has them.

`python tests/docs/test_http_page.py` writes that part of the page anew.
"""

from pathlib import Path
from typing import Any

from perdure.server.access import Gate
from perdure.server.app import build_app
from perdure.server.envelope import OWN, STATUS
from perdure.server.openapi import document

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "http.md"
MARK = "<!-- What follows is written from the route table. -->\n"


def told(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def ended(sentence: str) -> str:
    return sentence if sentence.endswith("?") else f"{sentence}."


def kind(schema: Any) -> str:
    """A type in a few words."""
    if "$ref" in schema:
        return f"`{schema['$ref'].rsplit('/', 1)[1]}`"
    if "anyOf" in schema:
        return " or ".join(kind(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {kind(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object of {kind(schema['additionalProperties'])}"
    return str(schema.get("type", "any JSON"))


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    if not rows:
        return []
    lines = [head, tuple("---" for _ in head), *rows]
    return ["", *("| " + " | ".join(line) + " |" for line in lines)]


def operation(method: str, path: str, found: dict[str, Any]) -> list[str]:
    lines = ["", f"### `{method.upper()} {path}`", "", ended(told(found["summary"]))]
    if "description" in found:
        lines += ["", told(found["description"])]
    asks = f"Permission: `{found['x-permission']}`." if "x-permission" in found else "Open to all."
    if "requestBody" in found:
        body = found["requestBody"]
        asks += f" Body: {kind(body['content']['application/json']['schema'])}"
        asks += "." if body["required"] else ", which may be left out."
    lines += ["", asks]
    parameters = [(f"`{each['name']}`", each["in"], told(each.get("description", ""))) for each in found["parameters"]]
    lines += table(("Parameter", "In", ""), [each for each in parameters if each[1] != "path"])
    answers, errors = [], []
    for status, each in sorted(found["responses"].items()):
        body = ", ".join(map(content, each.get("content", {}).items()))
        if body != "`ErrorEnvelope`":
            answers.append(f"{status} {body}")
        elif status not in COMMON:
            errors.append(f"{status} {each['description']}")
    lines += ["", f"Answers: {', '.join(answers)}."]
    return [*lines, f"Errors: {', '.join(errors)}."] if errors else lines


COMMON = {"401", "403", "408", "414", "431", "500"}
"""Said once on the page."""


def content(item: tuple[str, Any]) -> str:
    media, shape = item
    return kind(shape["schema"]) if media == "application/json" else f"`{media}`"


def generated() -> str:
    nothing: Any = object()
    found = document(build_app(nothing, Gate.open(), overview=nothing, news=nothing).routes, "")
    tags: dict[str, list[str]] = {}
    for path, methods in found["paths"].items():
        for method, each in methods.items():
            tags.setdefault(each["tags"][0], []).extend(operation(method, path, each))
    lines = [line for tag, part in tags.items() for line in ("", f"## {tag}", *part)]
    lines += ["", "## Types"]
    for name, schema in sorted(found["components"]["schemas"].items()):
        rows = [
            (f"`{field}`", kind(shape), told(shape.get("description", ""))) for field, shape in schema["properties"].items()
        ]
        lines += ["", f"### {name}", "", told(schema.get("description", "")), *table(("Field", "Type", ""), rows)]
    codes = sorted({**STATUS, **OWN}.items(), key=lambda item: (item[1], item[0]))
    lines += ["", "## Error codes", *table(("Code", "Status"), [(f"`{code}`", str(status)) for code, status in codes])]
    return "\n".join(lines[1:]) + "\n"


def test_every_route_stands_there() -> None:
    """Run this file when it differs."""
    assert PAGE.read_text(encoding="utf-8").partition(MARK)[2].strip() == generated().strip()


if __name__ == "__main__":
    before = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    PAGE.write_text(before + MARK + "\n" + generated(), encoding="utf-8")
