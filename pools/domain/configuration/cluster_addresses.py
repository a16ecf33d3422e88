"""Addresses that a client may make the server call: the cluster of a kubeconfig, the target of a notice. The server
calls from its own machine, so an address that only this machine or its cloud answers (loopback, link-local, instance
metadata) would let the client reach behind the firewall. Clusters are often inside the network; targets of notices are
not, unless an operator says so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

LOOPBACK = ("127.0.0.0/8", "::1/128")
_METADATA = tuple(
    ip_network(text)
    for text in ("100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::254/128", "fd20:ce::254/128")
)
"""Metadata services of clouds that are outside the link-local networks."""
_INSIDE = (ip_network("192.0.0.0/24"), ip_network("64:ff9b:1::/48"))
"""Networks of protocols and of a local NAT64, which older versions of Python take for public."""
_THIS_NETWORK = ip_network("0.0.0.0/8")
_NAT64 = ip_network("64:ff9b::/96")
_COMPATIBLE = ip_network("::/96")


@dataclass(frozen=True, slots=True)
class AddressRule:
    """The networks that are allowed although they are refused otherwise. `advice` ends the sentence of a refusal."""

    allowed: tuple[Network, ...] = ()
    advice: str = (
        "no cluster of a kubeconfig is there. An operator can allow it by OSMO_CLUSTER_ADDRESSES, or keep the "
        "kubeconfig on the server (kubeconfig_file)"
    )
    is_public_only: bool = False

    @classmethod
    def of(cls, texts: Iterable[str]) -> AddressRule:
        """The rule of these networks (`10.0.0.0/8`) and addresses. Raises ValueError."""
        return cls(_networks(texts))

    @classmethod
    def of_notices(cls, texts: Iterable[str]) -> AddressRule:
        """The rule of targets of notices: outside the network, or in these networks. Raises ValueError."""
        advice = "notices leave the network. An operator can allow it by OSMO_NOTICE_ADDRESSES"
        return cls(_networks(texts), advice, is_public_only=True)

    def find_fault(self, host: str) -> str | None:
        """Why this address is refused, as the end of a sentence that begins with the address; None for an address that
        is allowed, and for a name: the addresses of a name are known when it is called."""
        name = host.strip("[]").partition("%")[0].rstrip(".").lower()
        if name == "localhost" or name.endswith(".localhost"):
            name = "127.0.0.1"
        try:
            address = ip_address(name)
        except ValueError:
            return None
        kind = next(filter(None, map(_kind, _embedded(address))), None)
        if kind is None and self.is_public_only and any(map(_is_inside, _embedded(address))):
            kind = "an address inside the network"
        allowed = [network for network in self.allowed if network.version == address.version]
        if kind is None or any(address in network for network in allowed):
            return None
        return f"is {kind}: {self.advice}"


def _networks(texts: Iterable[str]) -> tuple[Network, ...]:
    return tuple(ip_network(text.strip(), strict=False) for text in texts if text.strip())


def _embedded(address: Address) -> list[Address]:
    """The address, and the IPv4 address that it stands for in a form of IPv6."""
    if isinstance(address, IPv4Address):
        return [address]
    found: list[Address] = [address]
    found += [each for each in (address.ipv4_mapped, address.sixtofour) if each is not None]
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        found.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return found


def _is_inside(address: Address) -> bool:
    return not address.is_global or any(address in network for network in _INSIDE if network.version == address.version)


def _kind(address: Address) -> str | None:
    if address.is_loopback:
        return "a loopback address"
    if any(address in network for network in _METADATA if network.version == address.version):
        return "the metadata service of a cloud"
    if address.is_link_local:
        return "a link-local address (the metadata service of a cloud has one)"
    if address.is_unspecified or (isinstance(address, IPv4Address) and address in _THIS_NETWORK):
        return "an unspecified address, which means this machine"
    if address.is_multicast or (isinstance(address, IPv4Address) and address.is_reserved):
        return "no address of one machine"
    return None
