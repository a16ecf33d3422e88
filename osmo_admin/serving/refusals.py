"""Answers to requests that no view of Django sees: JSON for programs, a page for people."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

from django.template import loader

from pools.domain.errors import BadInput, Busy, DomainError, ErrorCode, Fault, NotFound, Violation

if TYPE_CHECKING:
    from granian.rsgi import HTTPProtocol

_TITLES = {
    400: "This request could not be read",
    404: "There is nothing at this address",
    408: "The request took too long",
    413: "The request is too large",
    415: "This request could not be read",
    503: "Busy, try again",
}
_ADVICE = {
    408: "Go back in your browser: what you typed is still there.",
    413: "Go back in your browser: what you typed is still there. OSMO_BODY_LIMIT_MB is the limit of this server.",
}
_PROGRAM_PATHS = ("/api/", "/webhooks/")


class RequestRefused(Exception):
    """A request that is refused before it reaches Django, with its HTTP status."""

    def __init__(self, status: int, code: Fault, message: str, **numbers: int) -> None:
        super().__init__(message)
        violation = Violation("", code, message, numbers=tuple(numbers.items()))
        kind: type[DomainError] = {404: NotFound, 503: Busy}.get(status, BadInput)
        self.status = status
        self.code = code
        self.error = kind(message, [violation], retry_after=1 if status == 503 else None)


def internal_error() -> RequestRefused:
    """A mistake of ours outside of Django."""
    refusal = RequestRefused(
        500, Fault.DEFECT, "The service had an internal error, which is not caused by your request."
    )
    refusal.error.error_code = ErrorCode.SERVER
    return refusal


def send_refusal(proto: HTTPProtocol, path: str, refusal: RequestRefused) -> None:
    """Answer and end the connection, because the rest of the body may still be on its way."""
    headers = [("connection", "close"), ("x-content-type-options", "nosniff"), ("cache-control", "no-store")]
    if refusal.error.retry_after is not None:
        headers.append(("retry-after", str(refusal.error.retry_after)))
    if path.startswith(_PROGRAM_PATHS):
        headers.append(("content-type", "application/json"))
        text = json.dumps(refusal.error.as_dict())
    else:
        headers.append(("content-type", "text/html; charset=utf-8"))
        title = _TITLES.get(refusal.status, "An error occurred")
        text = _page(title, " ".join(filter(None, (refusal.error.message, _ADVICE.get(refusal.status)))))
    proto.response_bytes(refusal.status, headers, text.encode())


@lru_cache(maxsize=64)  # the event loop renders it, so it has to be cheap
def _page(title: str, message: str) -> str:
    return loader.render_to_string("osmo/plain.html", {"title": title, "message": message})
