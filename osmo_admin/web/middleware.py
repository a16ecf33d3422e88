"""Middleware of every request: it normalises the path, sets the request id of log lines and audit entries, and answers
each read from one snapshot of the database."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Mapping

import structlog
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django_structlog.middlewares import RequestMiddleware

from osmo_admin.monitoring.logged_address import logged_request
from osmo_admin.web.client_address import client_address
from osmo_admin.web.content_policy import API_PREFIXES
from pools.database.transactions import one_snapshot, request_id
from pools.domain.page_addresses import is_preview_address, is_sign_on_address, without_last_slash
from pools.representations.page_parameters import RememberingQuery

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
"""The ids of clients that are taken over: each audit entry and log line of the request stores its id."""


class OneSlashMiddleware:
    """`//api/pool` becomes `/api/pool`: OSMO's clients send such paths; a redirect would turn a POST into a GET. And
    `/pools/` is `/pools`."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info.startswith("//"):
            request.path_info = request.path = "/" + request.path_info.lstrip("/")
        if request.path_info.endswith("/"):
            request.path_info = request.path = without_last_slash(request.path_info)
        return self.get_response(request)


class RequestLogMiddleware(RequestMiddleware):
    """One log line for each request, when it is answered, with the milliseconds until then (of a stream: until it
    begins). Its id is in all lines of the request, in audit entries and in the answer."""

    @staticmethod
    def format_request(request: HttpRequest) -> str:
        return logged_request(request)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get("X-Request-ID", "")
        current_id = given if _REQUEST_ID.fullmatch(given) else str(uuid.uuid4())
        structlog.contextvars.bind_contextvars(request_id=current_id, ip=client_address(request))
        token, began = request_id.set(current_id), time.monotonic()
        try:
            response = self.get_response(request)
        finally:
            request_id.reset(token)
        assert isinstance(response, HttpResponseBase)
        response.headers.setdefault("X-Request-ID", current_id)
        with structlog.contextvars.bound_contextvars(duration_ms=round(1000 * (time.monotonic() - began), 1)):
            self.handle_response(request, response)
        return response


READS_WITHOUT_SNAPSHOT: Mapping[str, str] = {
    "/health": "Answers without the database, also while that is down.",
    "/ready": "Checks the database and the other services one by one, each with its own error.",
    "/client/version": "Reads nothing.",
    "/api/version": "Reads nothing.",
    "/api/schema": "Reads nothing.",
    "/api/docs/try": "Reads nothing.",
    "/api/auth/login": "Reads nothing.",
}
"""The addresses whose GET is not answered from one snapshot, with the reason."""


class PageParametersMiddleware:
    """Lets each page say which parameters of its address it does not know (the tag `known_parameters`); a file has no
    place for a note, so it is refused."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        is_api = request.path_info.startswith(API_PREFIXES)  # whose views warn in a header
        if is_api or request.method not in {"GET", "HEAD"} or not request.META.get("QUERY_STRING"):
            return self.get_response(request)
        query = RememberingQuery(request.META["QUERY_STRING"], encoding=request.encoding)
        request.GET = query  # type: ignore[assignment]
        response = self.get_response(request)
        is_file = response.status_code == 200 and not response.headers.get("Content-Type", "").startswith("text/html")
        if is_file and (fault := query.fault("This file")):
            return HttpResponse(fault, status=400, content_type="text/plain; charset=utf-8")
        return response


class SnapshotMiddleware:
    """Answer each read (GET, HEAD) from one snapshot of the database, login and page included, so that no part of an
    answer contradicts another part. A preview is a dry run, which takes a snapshot and a transaction that is rolled
    back; the return from an identity provider, which is a GET, writes the account and the session.

    The snapshot ends before the answer is sent, so a slow client keeps nothing open; an answer that is read from the
    database while it is sent (the event stream) takes a snapshot for each part. Sessions are saved outside
    (:mod:`osmo_admin.access.sessions`).
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        path = request.path_info
        if (
            request.method not in {"GET", "HEAD"}
            or path in READS_WITHOUT_SNAPSHOT
            or is_preview_address(path)
            or is_sign_on_address(path)
        ):
            return self.get_response(request)
        with one_snapshot():
            return self.get_response(request)
