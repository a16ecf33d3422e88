"""The address of the client of a request, so that failed logins are counted by client and not by proxy."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest


def client_address(request: HttpRequest) -> str | None:
    """The address that the outermost of our own proxies has seen.

    Every proxy appends what it saw to `X-Forwarded-For`; `OSMO_PROXY_COUNT` of those entries, from the right, are ours;
    the client may have forged the others.
    """
    count: int = settings.OSMO.proxy_count
    if count:
        addresses = [part.strip() for part in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",") if part.strip()]
        if len(addresses) >= count:
            return str(addresses[-count])
    address: str | None = request.META.get("REMOTE_ADDR")
    return address or None
