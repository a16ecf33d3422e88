"""Domain errors as HTTP answers (design, A1). Views never build an error answer themselves."""

from __future__ import annotations

import logging
import math
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import DataError, IntegrityError
from django.http import Http404
from psycopg.errors import ReadOnlySqlTransaction
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import set_rollback

from pools.api.authentication import SESSION_ADVICE
from pools.database.errors import is_database_away
from pools.database.transactions import conflict_from_integrity_error, is_in_snapshot
from pools.domain.errors import BadInput, Busy, DomainError, ErrorKind, Forbidden, NotFound, Throttled, Unauthenticated

logger = logging.getLogger(__name__)

STATUS_OF_KIND = {
    ErrorKind.BAD_INPUT: 400,
    ErrorKind.UNAUTHENTICATED: 401,
    ErrorKind.FORBIDDEN: 403,
    ErrorKind.NOT_FOUND: 404,
    ErrorKind.CONFLICT: 409,
    ErrorKind.STALE: 412,
    ErrorKind.UNSUPPORTED: 415,
    ErrorKind.THROTTLED: 429,
    ErrorKind.BUSY: 503,
}


def exception_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    """Each domain error as its JSON, with the status of its kind."""
    refusal = to_domain_error(error)
    if refusal is None:
        return None
    set_rollback()
    if isinstance(error, exceptions.MethodNotAllowed):
        allowed = ", ".join(context["view"].allowed_methods)
        refusal = BadInput(f"This address does not take this method. Send one of {allowed}.")
        return Response(refusal.as_dict(), status=error.status_code)
    headers = retry_after_header(refusal)
    if refusal.kind is ErrorKind.UNAUTHENTICATED:
        headers["WWW-Authenticate"] = "Bearer"
    if refusal.kind is ErrorKind.UNSUPPORTED:
        headers["Accept-Encoding"] = "identity"
    return Response(refusal.as_dict(), status=STATUS_OF_KIND[refusal.kind], headers=headers)


def retry_after_header(refusal: DomainError) -> dict[str, str]:
    """The header with the seconds until the next attempt, if the error has them."""
    return {} if refusal.retry_after is None else {"Retry-After": str(refusal.retry_after)}


def to_domain_error(error: Exception) -> DomainError | None:
    """The domain error for an error that is not a programming mistake; None for one that is."""
    if isinstance(error, DomainError):
        return error
    if isinstance(error, IntegrityError):
        return conflict_from_integrity_error(error)
    if is_database_away(error) and not (is_in_snapshot() and isinstance(error.__cause__, ReadOnlySqlTransaction)):
        logger.warning("database unavailable: %s", error)
        return Busy("The database did not answer; try again.", retry_after=1)
    if isinstance(error, Http404 | exceptions.NotFound):
        return NotFound("There is nothing at this address.")
    if isinstance(error, exceptions.NotAuthenticated):
        return Unauthenticated(f"The request names no login. Send Authorization: Bearer TOKEN; {SESSION_ADVICE}")
    if isinstance(error, exceptions.AuthenticationFailed):
        return Unauthenticated(str(error.detail))
    if isinstance(error, exceptions.Throttled):
        return Throttled("Too many attempts; wait a while.", retry_after=math.ceil(getattr(error, "wait", None) or 60))
    if isinstance(error, PermissionDenied | exceptions.PermissionDenied):
        return Forbidden(str(getattr(error, "detail", error)) or "This is not allowed.")
    if isinstance(error, DataError):
        logger.warning("unstorable value: %s", error)
        return BadInput("A value is larger than the database can store, or of another type.")
    if isinstance(error, RequestDataTooBig):
        return BadInput(f"The body is too large; send at most {settings.DATA_UPLOAD_MAX_MEMORY_SIZE} bytes.")
    if isinstance(error, exceptions.APIException):
        return BadInput(str(error.detail))
    return None
