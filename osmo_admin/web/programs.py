"""Requests of programs, and the middlewares of pages that they skip.

A browser sends no request with a Bearer token and without cookies. Such a request has no session and no messages, so
the middlewares of `SKIPPED_BY_PROGRAMS` would only cost it time. Everything else is the same for both: URLs, views,
headers, authentication, limits, snapshot, metrics, log line and errors. The tests send the same requests both ways and
compare the answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib.auth import middleware as of_logins
from django.contrib.auth.models import AnonymousUser
from django.contrib.messages import middleware as of_messages
from django.contrib.sessions import middleware as of_sessions
from django.http import HttpRequest, HttpResponseBase

PAGE_PREFIXES = ("/api/docs", "/api/schema", "/api/auth/")
"""Addresses that are never a program's: pages and files for browsers; and logins, whose failures are limited."""


def is_program_request(request: HttpRequest) -> bool:
    """Whether a program has sent this request."""
    headers = request.META
    return (
        request.path_info.startswith("/api/")
        and headers.get("HTTP_AUTHORIZATION", "")[:7].lower() == "bearer "
        and not headers.get("HTTP_COOKIE")
        and not request.path_info.startswith(PAGE_PREFIXES)
        and not settings.DEBUG  # in which Django answers errors with pages
    )


class ProgramMiddleware:
    """Marks the requests of programs. Their user is nobody until the view has authenticated the caller."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if is_program_request(request):
            request.is_of_program = True  # type: ignore[attr-defined]
            request.user = AnonymousUser()
        return self._get_response(request)


class SkippedByPrograms:
    """The first base class of a middleware that requests of programs skip. The settings name each of them."""

    get_response: Any

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if hasattr(request, "is_of_program"):
            skipping: HttpResponseBase = self.get_response(request)
            return skipping
        response: HttpResponseBase = super().__call__(request)  # type: ignore[misc]
        return response


class SessionMiddleware(SkippedByPrograms, of_sessions.SessionMiddleware):
    """Django's."""


class AuthenticationMiddleware(SkippedByPrograms, of_logins.AuthenticationMiddleware):
    """Django's."""


class MessageMiddleware(SkippedByPrograms, of_messages.MessageMiddleware):
    """Django's."""
