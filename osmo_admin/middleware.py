"""Middleware of every request: it normalises the path and sets the request id of log lines and audit entries."""

from __future__ import annotations

from collections.abc import Callable

import structlog
from django.http import HttpRequest, HttpResponse

from pools.transactions import request_id


class OneSlashMiddleware:
    """`//api/pool` becomes `/api/pool`: OSMO's clients send such paths; a redirect would turn a POST into a GET."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info.startswith("//"):
            request.path_info = request.path = "/" + request.path_info.lstrip("/")
        return self.get_response(request)


class AuditContextMiddleware:
    """Pass the request id of structlog to the ledger, and return it to the client."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        current_id = str(structlog.contextvars.get_contextvars().get("request_id", ""))
        token = request_id.set(current_id)
        try:
            response = self.get_response(request)
        finally:
            request_id.reset(token)
        response.headers.setdefault("X-Request-ID", current_id)
        return response
