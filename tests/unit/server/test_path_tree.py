"""Routes are found by the raw path: segments first, decoding then, nothing normalised."""

from typing import Any

import pytest

from perdure.core.errors import InvalidArgument, NotFound
from perdure.server.envelope import Refusal
from perdure.server.path_tree import PathTree, decoded
from perdure.server.route import HttpRequest, Route, answer


async def nothing(_: HttpRequest) -> Any:
    return answer({})


def route(method: Any, path: str) -> Route:
    return Route(method=method, path=path, name=f"{method} {path}", summary="", tag="", permission=None, handler=nothing)


TREE = PathTree(
    [
        route("GET", "/a"),
        route("POST", "/a"),
        route("GET", "/a/{id}"),
        route("GET", "/a/{id}/b/{name}"),
        route("GET", "/a/known"),
        route("WEBSOCKET", "/socket"),
    ]
)


@pytest.mark.parametrize(
    ("path", "found", "values"),
    [
        ("/a", "GET /a", {}),
        ("/a/x", "GET /a/{id}", {"id": "x"}),
        ("/a/known", "GET /a/known", {}),
        ("/a/..", "GET /a/{id}", {"id": ".."}),
        ("/a/%2E%2e", "GET /a/{id}", {"id": ".."}),
        ("/a/x%2Fy", "GET /a/{id}", {"id": "x/y"}),
        ("/a/%25", "GET /a/{id}", {"id": "%"}),
        ("/a/%C3%A9", "GET /a/{id}", {"id": "é"}),
        ("/a/x%3Fy/b/%20", "GET /a/{id}/b/{name}", {"id": "x?y", "name": " "}),
    ],
)
def test_a_path_finds_its_route(path: str, found: str, values: dict[str, str]) -> None:
    """With its parameters decoded."""
    route, parameters = TREE.find("GET", path)
    assert (route.name, dict(parameters)) == (found, values)


@pytest.mark.parametrize("path", ["", "/", "/b", "/a/", "/a//b/x", "/a/x/b", "/a/x/b/", "/a/x/c/y", "//a", "a"])
def test_a_path_there_is_not(path: str) -> None:
    """Empty segments are no parameters."""
    with pytest.raises(NotFound):
        TREE.find("GET", path)


def test_a_method_a_path_does_not_have() -> None:
    """Says which there are; HEAD is GET's, and a WebSocket is no GET."""
    with pytest.raises(Refusal) as refused:
        TREE.find("DELETE", "/a")
    assert refused.value.headers == ((b"allow", b"GET, POST, HEAD"),)
    assert TREE.find("HEAD", "/a")[0].name == "GET /a"
    with pytest.raises(Refusal, match="WebSocket"):
        TREE.find("GET", "/socket")
    with pytest.raises(NotFound):
        TREE.find("POST", "/socket")
    assert TREE.find("WEBSOCKET", "/socket")[0].method == "WEBSOCKET"


@pytest.mark.parametrize("segment", ["%", "%2", "%zz", "a%", "%FF", "%C3", "%ED%A0%80", "%-1"])
def test_a_segment_that_cannot_be_decoded(segment: str) -> None:
    """Is refused, not guessed at."""
    with pytest.raises(InvalidArgument):
        decoded(segment)
