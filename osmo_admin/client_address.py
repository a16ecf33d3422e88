"""The address of the client of a request, so that failed logins are counted by client and not by proxy."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network

from django.conf import settings
from django.http import HttpRequest


def client_address(request: HttpRequest) -> str | None:
    """The address that the outermost of our own proxies has seen.

    Every proxy appends what it saw to `X-Forwarded-For`; `OSMO_PROXY_COUNT` of those entries, from the right, are ours;
    the client may have forged the others. An IPv6 client owns a whole network of 2⁶⁴ addresses, so the network counts.
    """
    count: int = settings.OSMO.proxy_count
    if count:
        addresses = [part.strip() for part in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",") if part.strip()]
        if len(addresses) >= count and (forwarded := _client_network(addresses[-count])) is not None:
            return forwarded
    return _client_network(request.META.get("REMOTE_ADDR", ""))


def _client_network(text: str) -> str | None:
    """The address, or the first address of its /64 network; None for a text that is none, such as that of a socket."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ip_network((address, 64), strict=False).network_address)
