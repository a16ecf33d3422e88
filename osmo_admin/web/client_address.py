"""The address of the client of a request, so that failed logins are counted by client and not by proxy."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from django.conf import settings
from django.http import HttpRequest


def client_address(request: HttpRequest) -> str | None:
    """The address that the outermost of our own proxies has seen; behind a gateway, the address that this has seen.

    Every proxy appends what it saw to `X-Forwarded-For`; `OSMO_PROXY_COUNT` of those entries, from the right, are ours;
    the client may have forged the others. If the client itself is one of `OSMO_GATEWAYS` (`osmo mcp --listen`), the
    entry before it is the gateway's, and names the caller. An IPv6 client owns a whole network of 2⁶⁴ addresses, so the
    network counts.
    """
    env = settings.OSMO
    peer = request.META.get("REMOTE_ADDR", "")
    if not env.proxy_count and not env.gateways:
        return _client_network(peer)
    seen = [part.strip() for part in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",") if part.strip()]
    seen.append(peer)
    place = len(seen) - 1 - env.proxy_count
    if place < 0 or (found := _client_network(seen[place])) is None:
        return _client_network(peer)
    if place and env.gateways and _is_gateway(seen[place], tuple(env.gateways)):
        return _client_network(seen[place - 1]) or found
    return found


def _is_gateway(text: str, gateways: tuple[str, ...]) -> bool:
    address = ip_address(text)
    plain = address.ipv4_mapped if isinstance(address, IPv6Address) and address.ipv4_mapped else address
    return any(plain in network for network in _networks(gateways))


@lru_cache(maxsize=1)
def _networks(texts: tuple[str, ...]) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(ip_network(text, strict=False) for text in texts)


def _client_network(text: str) -> str | None:
    """The address, or the first address of its /64 network; None for a text that is not an address, such as that of a
    socket."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ip_network((address, 64), strict=False).network_address)
