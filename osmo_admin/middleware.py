"""What happens to every request: its address is put right, and it carries the id that its log lines and its audit
entries share."""

from __future__ import annotations

from collections.abc import Callable

import structlog
from django.http import HttpRequest, HttpResponse

from pools.transactions import request_id


class OneSlashMiddleware:
    """`//api/pool` is `/api/pool`: OSMO's clients build such addresses, and a redirect would turn a POST into a GET."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info.startswith("//"):
            request.path_info = request.path = "/" + request.path_info.lstrip("/")
        return self.get_response(request)


class AuditContextMiddleware:
    """Hand the request id that structlog gave this request to the ledger, and tell the client."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        known = str(structlog.contextvars.get_contextvars().get("request_id", ""))
        mark = request_id.set(known)
        try:
            response = self.get_response(request)
        finally:
            request_id.reset(mark)
        response.headers.setdefault("X-Request-ID", known)
        return response
