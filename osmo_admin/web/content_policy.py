"""The Content-Security-Policy of each address: nothing for the API, our own files for pages."""

from __future__ import annotations

from csp.middleware import CSPMiddleware, PolicyParts
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
_DOCS_PAGE = "/api/docs"


class ContentPolicyMiddleware(CSPMiddleware):
    """Chooses the policy by address; `CONTENT_SECURITY_POLICY` allows nothing."""

    def get_policy_parts(
        self, request: HttpRequest, response: HttpResponseBase, report_only: bool = False
    ) -> PolicyParts:
        parts: PolicyParts = super().get_policy_parts(request, response, report_only)
        if report_only:
            return parts
        if request.path_info == _DOCS_PAGE or not request.path_info.startswith(API_PREFIXES):
            parts.config = dict(_OWN_FILES_POLICY)
        return parts
