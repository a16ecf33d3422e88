"""The address of a request as logs show it: without the values that often are secrets."""

from __future__ import annotations

import re
from typing import Any

from django.http import HttpRequest
from structlog.typing import EventDict

HIDDEN_PARAMETERS = ("env_vars", "code", "state")
"""Environments of work, and what an identity provider or a login of a client sends."""

_VALUE = re.compile(rf"(?<=[?&;])((?:{'|'.join(HIDDEN_PARAMETERS)})=)[^&;]*")


def logged_request(request: HttpRequest) -> str:
    """Method and address of a request."""
    return f"{request.method} {without_secrets(request.get_full_path())}"


def without_secrets(address: str) -> str:
    """The address with hidden values."""
    return _VALUE.sub(r"\1[hidden]", address)


def hide_in_requests(_logger: Any, _name: str, event: EventDict) -> EventDict:
    """The processor of log lines: Django gives some the request itself, whose text has the whole address."""
    if isinstance(request := event.get("request"), HttpRequest):
        event["request"] = logged_request(request)
    return event
