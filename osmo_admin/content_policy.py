"""Which scripts and styles a page may use: nothing for the API, our own files for the docs page, and for the dashboard
what the theme's Alpine needs on top."""

from __future__ import annotations

from csp.middleware import CSPMiddleware, PolicyParts
from django.http import HttpRequest, HttpResponseBase

_OWN_FILES = {
    "default-src": ["'self'"],
    "script-src": ["'self'"],
    # Swagger and the theme set the styles of single elements; a style cannot run code.
    "style-src": ["'self'", "'unsafe-inline'"],
    "img-src": ["'self'", "data:"],
    "font-src": ["'self'", "data:"],
    "connect-src": ["'self'"],
    "object-src": ["'none'"],
    "frame-ancestors": ["'none'"],
    "base-uri": ["'self'"],
    "form-action": ["'self'"],
}
DOCS = _OWN_FILES
# Alpine compiles the expressions of its attributes; without eval not even the login page can be clicked.
DASHBOARD = {**_OWN_FILES, "script-src": ["'self'", "'unsafe-eval'"]}
_MACHINES = ("/api/", "/client/", "/health", "/ready", "/metrics", "/webhooks/")
_DOCS_PAGE = "/api/docs"


class PagePolicyMiddleware(CSPMiddleware):
    """The policy by address; `CONTENT_SECURITY_POLICY` is the one that allows nothing."""

    def get_policy_parts(
        self, request: HttpRequest, response: HttpResponseBase, report_only: bool = False
    ) -> PolicyParts:
        parts: PolicyParts = super().get_policy_parts(request, response, report_only)
        if report_only:
            return parts
        if request.path_info == _DOCS_PAGE:
            parts.config = dict(DOCS)
        elif not request.path_info.startswith(_MACHINES):
            parts.config = dict(DASHBOARD)
        return parts
