"""Interceptors under their public address. Defined in `perdure.sdk.interceptors`; nothing else lives here."""

from perdure.sdk.interceptors import ActivityCall, ClientCall, Interceptor, WorkflowCall

__all__ = ["ActivityCall", "ClientCall", "Interceptor", "WorkflowCall"]
