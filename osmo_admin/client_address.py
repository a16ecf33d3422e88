"""Which machine a request came from, so that failed logins are counted per machine and not per proxy."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest


def client_address(request: HttpRequest) -> str | None:
    """The address that the outermost of our own proxies saw.

    Every proxy appends what it saw to `X-Forwarded-For`; `OSMO_PROXY_COUNT` of those entries, from the right, are ours
    and everything before them is the client's own claim.
    """
    count: int = settings.OSMO.proxy_count
    if count:
        seen = [part.strip() for part in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",") if part.strip()]
        if len(seen) >= count:
            return str(seen[-count])
    address: str | None = request.META.get("REMOTE_ADDR")
    return address or None
