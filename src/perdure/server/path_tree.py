"""Finds the route of a request by its raw path, so that an id may hold anything, slashes and dots too, when it is percent-encoded.

A path is cut at its slashes first and decoded then, segment by segment. Nothing is ever normalised: `..` is an id like any other.
"""

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import unquote_to_bytes

from perdure.core.errors import InvalidArgument, NotFound
from perdure.server.envelope import Refusal
from perdure.server.route import Route

_HEX: Final = frozenset("0123456789abcdefABCDEF")


class _Node:
    __slots__ = ("below", "parameter", "routes")

    def __init__(self) -> None:
        self.below: dict[str, _Node] = {}
        self.parameter: _Node | None = None
        self.routes: dict[str, tuple[Route, tuple[str, ...]]] = {}


class PathTree:
    """The routes by their segments. A literal segment goes before a parameter."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Node()
        for route in routes:
            self._add(route)

    def _add(self, route: Route) -> None:
        node, names = self._root, list[str]()
        for segment in route.path.split("/")[1:]:
            if segment.startswith("{"):
                names.append(segment[1:-1])
                node.parameter = node = node.parameter or _Node()
            else:
                node = node.below.setdefault(segment, _Node())
        assert route.method not in node.routes, route.path
        node.routes[route.method] = (route, tuple(names))

    def find(self, method: str, raw_path: str) -> tuple[Route, Mapping[str, str]]:
        """The route, and its parameters. Raises `NotFound` for a path there is not, `InvalidArgument` for one that cannot be decoded,
        and a `Refusal` for a method the path does not have."""
        node, values = self._root, list[str]()
        for segment in raw_path.split("/")[1:]:
            following = node.below.get(segment)
            if following is None:
                following = node.parameter
                if following is None or not segment:
                    raise NotFound("there is no such path; /docs lists those there are")
                values.append(segment)
            node = following
        found = node.routes.get(method) or (node.routes.get("GET") if method == "HEAD" else None)
        if found is None:
            raise _no_such_method(node, method)
        route, names = found
        return route, {name: decoded(value) for name, value in zip(names, values, strict=True)} if names else _NONE


_NONE: Final[dict[str, str]] = {}


def _no_such_method(node: _Node, method: str) -> Exception:
    known = sorted(name for name in node.routes if name != "WEBSOCKET")
    if "GET" in known:
        known.append("HEAD")
    if known:
        allowed = ", ".join(known)
        return Refusal("METHOD_NOT_ALLOWED", f"this path takes {allowed}", headers=((b"allow", allowed.encode()),))
    if "WEBSOCKET" in node.routes and method == "GET":
        return Refusal("METHOD_NOT_ALLOWED", "this path speaks WebSocket alone", headers=((b"allow", b""),))
    return NotFound("there is no such path; /docs lists those there are")


def decoded(segment: str) -> str:
    """A segment without its percent-encoding. Raises `InvalidArgument` where that is wrong."""
    if "%" not in segment:
        return segment
    for piece in segment.split("%")[1:]:
        if len(piece) < 2 or piece[0] not in _HEX or piece[1] not in _HEX:
            raise InvalidArgument("the path holds a % that begins no %XX: a percent sign is written %25")
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise InvalidArgument("the path holds %XX that are no UTF-8 text") from None
