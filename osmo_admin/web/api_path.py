"""The short path of the API: requests of programs pass only the middlewares that have an effect on them.

A request with a Bearer token and without cookies is no browser's. It has no session, no CSRF token and no message, its
answer is no page and no static file; so twelve middlewares of pages would only cost it time, more than many a view
takes. Everything else is the same on both paths: URLs, views, authentication, snapshot, metrics, log line, errors and
headers. The tests send the same requests on both and compare the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from io import BytesIO
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.core.handlers.base import BaseHandler
from django.core.handlers.exception import convert_exception_to_response
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import ResolverMatch, get_resolver, get_urlconf
from django.utils.module_loading import import_string

GetResponse = Callable[[HttpRequest], HttpResponseBase]

API_MIDDLEWARE = (
    "osmo_admin.web.api_path.FixedHeadersMiddleware",
    "osmo_admin.web.middleware.SnapshotMiddleware",
    "django.middleware.common.CommonMiddleware",
    "osmo_admin.web.middleware.RequestLogMiddleware",
    "osmo_admin.monitoring.request_metrics.RequestMetricsMiddleware",
)
"""The middlewares of the short path, the outermost first, in the order of `MIDDLEWARE`."""

FIXED_HEADERS = (
    "django.middleware.security.SecurityMiddleware",
    "osmo_admin.web.content_policy.ContentPolicyMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
)
"""The middlewares of pages that give each answer of the API the same headers."""

PAGE_PREFIXES = ("/api/docs", "/api/schema", "/api/auth/")
"""Addresses that keep the long path: pages and files for browsers; and logins, whose failures are limited."""

MAX_KEPT_LENGTH = 300
"""The longest address, in characters, whose view is kept: a client without a valid token may send any address, too."""


class ApiPathMiddleware:
    """Answers requests of programs on the short path, and passes all others on."""

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response
        self._answer_program = _ShortHandler().chain

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not is_program_request(request):
            return self._get_response(request)
        request.user = AnonymousUser()  # until the view has authenticated the caller
        return self._answer_program(request)


def is_program_request(request: HttpRequest) -> bool:
    """Whether the short path answers this request as the long one would."""
    headers = request.META
    return (
        request.path_info.startswith("/api/")
        and headers.get("HTTP_AUTHORIZATION", "")[:7].lower() == "bearer "
        and not headers.get("HTTP_COOKIE")
        and not request.path_info.startswith(PAGE_PREFIXES)
        and not settings.DEBUG  # in which Django answers errors with pages
    )


class _ShortHandler(BaseHandler):
    """Django's way from a request to its view, with the middlewares of the short path."""

    def __init__(self) -> None:
        self._view_middleware: list[Any] = []
        self._template_response_middleware: list[Any] = []
        self._exception_middleware: list[Any] = []
        self.chain = _build_chain(API_MIDDLEWARE, self._get_response, self)  # type: ignore[attr-defined]

    def resolve_request(self, request: HttpRequest) -> Any:
        """The view of an address. Clients ask for a few addresses again and again, and one is compared with up to a
        hundred patterns."""
        path = request.path_info
        resolve = _resolve if len(path) <= MAX_KEPT_LENGTH else _resolve.__wrapped__
        request.resolver_match = resolve(get_urlconf(), path)
        return request.resolver_match

    def add(self, middleware: Any) -> None:
        """Call the hooks of this middleware, the outermost last."""
        if hasattr(middleware, "process_view"):
            self._view_middleware.insert(0, middleware.process_view)
        if hasattr(middleware, "process_template_response"):
            self._template_response_middleware.append(middleware.process_template_response)
        if hasattr(middleware, "process_exception"):
            self._exception_middleware.append(middleware.process_exception)


@lru_cache(maxsize=1024)
def _resolve(urlconf: str | None, path: str) -> ResolverMatch:
    return get_resolver(urlconf).resolve(path)


def _build_chain(names: Sequence[str], innermost: GetResponse, handler: _ShortHandler | None = None) -> GetResponse:
    chain: Any = convert_exception_to_response(innermost)
    for name in reversed(names):
        middleware = import_string(name)(chain)
        if handler is not None:
            handler.add(middleware)
        chain = convert_exception_to_response(middleware)
    answer: GetResponse = chain
    return answer


class FixedHeadersMiddleware:
    """Adds the headers that the middlewares in FIXED_HEADERS add to an answer of the API. They are asked once."""

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response
        self._plain, self._secure = _fixed_headers("http"), _fixed_headers("https")

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self._get_response(request)
        headers: Any = response.headers
        for name, value in self._secure if request.is_secure() else self._plain:
            headers.setdefault(name, value)
        return response


def _fixed_headers(scheme: str) -> tuple[tuple[str, str], ...]:
    environ: dict[str, Any] = {
        "REQUEST_METHOD": "GET", "PATH_INFO": "/api/", "wsgi.url_scheme": scheme, "wsgi.input": BytesIO(),
        "SERVER_NAME": "localhost", "SERVER_PORT": "80",
    }  # fmt: skip
    if settings.SECURE_PROXY_SSL_HEADER is not None:
        environ[settings.SECURE_PROXY_SSL_HEADER[0]] = scheme
    bare = HttpResponse()
    own = set(bare.headers)
    response = _build_chain(FIXED_HEADERS, lambda _request: bare)(WSGIRequest(environ))
    return tuple((name, value) for name, value in response.items() if name not in own)
