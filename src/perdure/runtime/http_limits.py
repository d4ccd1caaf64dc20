"""Every bound of the HTTP side, with its name, unit and default. What happens when it is reached is said at each field."""

from perdure.runtime.positive import PositiveBounds


class HttpLimits(PositiveBounds, frozen=True, kw_only=True):
    """Bounds on connections and requests. Whoever passes one is answered with a typed error where that can be done, else cut."""

    connections_max: int = 2_000
    """Open connections, WebSockets among them: one more is answered 503 and closed."""
    requests_max: int = 1_000
    """Requests under way, long polls among them, probes not: `RESOURCE_EXHAUSTED`, 429."""
    waits_max: int = 800
    """Long polls under way: `RESOURCE_EXHAUSTED`, 429. Below `requests_max`, so that who waits leaves room for who does not."""
    news_readers_max: int = 64
    """Readers of the event stream: `RESOURCE_EXHAUSTED`, 429."""
    news_beat_s: float = 15.0
    """Seconds of silence after which the event stream sends a comment, so that proxies keep it open."""
    wait_s_max: float = 60.0
    """Seconds one long poll may ask for: `INVALID_ARGUMENT`."""
    body_bytes_max: int = 4 * 1024 * 1024
    """One request's body: 413. A payload of the largest size fits with what stands around it."""
    bodies_bytes_max: int = 256 * 1024 * 1024
    """Bodies of all requests under way together: `RESOURCE_EXHAUSTED`, 429."""
    url_bytes_max: int = 64 * 1024
    """Path and query of one request: 414. The longest list query fits, percent-encoded."""
    header_bytes_max: int = 32 * 1024
    """All header fields of one request, trailers included: 431."""
    headers_max: int = 100
    """Header fields of one request: 431."""
    pipelined_max: int = 32
    """Requests one connection may send ahead of their answers: the connection is closed."""
    head_s: float = 10.0
    """Seconds from a connection's or request's first byte to the end of its headers: 408, closed."""
    body_s: float = 60.0
    """Seconds from the end of the headers to that of the body: 408, closed."""
    idle_s: float = 75.0
    """Seconds a connection may stay open between requests."""
    unread_s: float = 30.0
    """Seconds in which a caller reads nothing at all of its answer: the connection is cut."""


HTTP_LIMITS = HttpLimits()
