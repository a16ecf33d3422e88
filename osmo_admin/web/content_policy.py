"""The Content-Security-Policy of each address: nothing for the API, our own files for pages. Nothing is kept by a cache
that its view does not allow: a refusal, too, has the name of the person and a token against forged forms."""

from __future__ import annotations

from collections.abc import Callable

from csp.constants import HEADER
from csp.utils import build_policy
from django.http import HttpRequest, HttpResponseBase

_OWN_FILES_POLICY = {
    "default-src": ["'self'"],
    "script-src": ["'self'"],
    # Swagger and our bars set styles of single elements; a style cannot run code.
    "style-src": ["'self'", "'unsafe-inline'"],
    "img-src": ["'self'", "data:"],
    "font-src": ["'self'", "data:"],
    "connect-src": ["'self'"],
    "object-src": ["'none'"],
    "frame-ancestors": ["'none'"],
    "base-uri": ["'self'"],
    "form-action": ["'self'"],
}
API_PREFIXES = ("/api/", "/client/", "/health", "/ready", "/metrics", "/webhooks/")
_DOCS_PAGES = "/api/docs/"


class ContentPolicyMiddleware:
    """Chooses the policy by address; `CONTENT_SECURITY_POLICY` allows nothing. Both are built once."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response
        self._nothing, self._own_files = build_policy(), build_policy(config=_OWN_FILES_POLICY)

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self._get_response(request)
        is_page = f"{request.path_info}/".startswith(_DOCS_PAGES) or not request.path_info.startswith(API_PREFIXES)
        response.headers.setdefault(HEADER, self._own_files if is_page else self._nothing)
        response.headers.setdefault("Cache-Control", "no-store")
        return response
