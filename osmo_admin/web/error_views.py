"""The answers when no view of ours responds: JSON for programs, Django's own page for people."""

from __future__ import annotations

import sys
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.core.exceptions import TooManyFieldsSent
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template import loader
from django.template.response import TemplateResponse
from django.views import defaults

from osmo_admin.web.error_responses import retry_after_header, to_domain_error
from pools.database.transactions import request_id
from pools.domain.errors import BadInput, Busy, DomainError, ErrorCode, Fault, NotFound, Violation


def not_found_view(request: HttpRequest, exception: Any = None) -> HttpResponse:
    """404."""
    if _is_api_request(request):
        return _json_response(NotFound("There is nothing at this address."), 404)
    return not_found_page(request, "This address does not exist, or you have no role that lets you see it.", exception)


def not_found_page(request: HttpRequest, message: str, exception: Any = None) -> HttpResponse:
    """404 for people: with the menu, which leads on, if they are signed in."""
    if hasattr(request, "user") and request.user.is_authenticated:
        page: TemplateResponse = admin.site.refusal_page(request, NotFound(message))  # type: ignore[attr-defined]
        return page.render()
    return defaults.page_not_found(request, exception)


def bad_request_view(request: HttpRequest, exception: Any = None) -> HttpResponse:
    """400: refused before any view was called."""
    if _is_api_request(request):
        return _json_response(_unreadable_request(exception), 400)
    return defaults.bad_request(request, exception)


def _unreadable_request(exception: Any) -> BadInput:
    message, limit = "The request cannot be read.", settings.DATA_UPLOAD_MAX_NUMBER_FIELDS
    if isinstance(exception, TooManyFieldsSent):
        message = f"The request has too many parameters; send at most {limit}."
        return BadInput(message, [Violation("", Fault.TOO_MANY_PARAMETERS, message, numbers=(("limit", limit),))])
    return BadInput(message)


def server_error_view(request: HttpRequest) -> HttpResponse:
    """500: an error of ours, with the request id that leads to the log; 503: a dependency does not respond."""
    error = sys.exc_info()[1]
    refusal = to_domain_error(error) if isinstance(error, Exception) else None
    if isinstance(refusal, Busy):
        return _busy_response(request, refusal)
    if _is_api_request(request):
        identifier = request_id.get() or "unknown"
        message = f"The service had an internal error, which is not caused by your request. Request id: {identifier}."
        return _json_response(
            BadInput(message, [Violation("", Fault.DEFECT, message)], error_code=ErrorCode.SERVER), 500
        )
    return defaults.server_error(request)


def _busy_response(request: HttpRequest, refusal: Busy) -> HttpResponse:
    if _is_api_request(request):
        response: HttpResponse = _json_response(refusal, 503)
    else:
        response = HttpResponse(loader.render_to_string("503.html", {"message": refusal.message}), status=503)
    for name, value in retry_after_header(refusal).items():
        response.headers[name] = value
    return response


def _is_api_request(request: HttpRequest) -> bool:
    return request.path_info.startswith(("/api/", "/webhooks/"))


def _json_response(refusal: DomainError, status: int) -> JsonResponse:
    return JsonResponse(refusal.as_dict(), status=status)
