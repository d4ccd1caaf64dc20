"""The bounds of the HTTP side, which are settings: defined in `perdure.runtime.http_limits`; nothing else lives here."""

from perdure.runtime.http_limits import HTTP_LIMITS, HttpLimits

__all__ = ["HTTP_LIMITS", "HttpLimits"]
