"""Warnings that go with any answer, in the header that OSMO's clients print (design, O1)."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.utils import timezone
from rest_framework.request import Request

from pools.models import AccessToken

WARNING_HEADER = "x-osmo-warning"
CLIENT_VERSION_HEADER = "x-osmo-client-version"
CONTRACT_VERSION = (6, 4, 0)  # this service implements the wire contract of this release of OSMO
TOKEN_WARNING_PERIOD = timedelta(days=7)
LOGIN_WARNING_PERIOD = timedelta(hours=1)
_VERSION = re.compile(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})(\..*)?\Z")


def warning_header(warnings: Sequence[str]) -> dict[str, str]:
    """The header with these warnings; empty without any."""
    return {WARNING_HEADER: base64.b64encode("\n".join(warnings).encode()).decode()} if warnings else {}


def merge_warnings(request: Request, existing: str | None, further: Sequence[str] = ()) -> str | None:
    """The warning header of an answer: the warnings of the view, `further` ones, and those that follow from the
    request. None without warnings. This function never refuses a request."""
    own = [base64.b64decode(existing).decode()] if existing else []
    # `_auth` exists after the authentication; reading `request.auth` would authenticate again.
    warnings = [*own, *further, *_old_client(request), *_token_ends_soon(vars(request).get("_auth"))]
    return base64.b64encode("\n".join(warnings).encode()).decode() if warnings else None


def _old_client(request: Request) -> list[str]:
    found = _VERSION.match(request.headers.get(CLIENT_VERSION_HEADER, ""))
    if not found or tuple(map(int, found.groups()[:3])) >= CONTRACT_VERSION:
        return []
    ours = ".".join(map(str, CONTRACT_VERSION))
    return [f"WARNING: your client is version {found[0]}; this service speaks {ours}. Update the client."]


def _token_ends_soon(token: Any) -> list[str]:
    if not isinstance(token, AccessToken):
        return []
    left, day = token.expires_at - timezone.now(), f"{token.expires_at:%Y-%m-%d %H:%M}"
    if token.ends_with_login:  # a session of hours, so a longer period would warn from its first minute
        message = f"WARNING: the login of this command ends on {day} UTC. Log in again: osmo login."
        return [message] if left <= LOGIN_WARNING_PERIOD else []
    if left > TOKEN_WARNING_PERIOD:
        return []
    return [f"WARNING: the access token {token.name} ends on {day} UTC. Create a new one in time: osmo token set NAME."]
