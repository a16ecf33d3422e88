"""Connections that ask a rule about each address before they open it, also behind a name, a proxy and a redirect."""

from __future__ import annotations

import socket
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError

from pools.domain.configuration.cluster_addresses import AddressRule
from scheduling.kube.connection.errors import BadCredentials
from scheduling.kube.connection.tls_connections import TlsConnection


def guard_connections(manager: urllib3.PoolManager, rule: AddressRule) -> None:
    """Let every connection of `manager` follow `rule`. A refused address raises BadCredentials before a byte is sent,
    and so does a SOCKS proxy, which has connections of another kind."""
    if type(manager) not in {urllib3.PoolManager, urllib3.ProxyManager}:
        raise BadCredentials("The kubeconfig is refused: a SOCKS proxy is used only for kubeconfigs on the server.")

    class GuardedConnection(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return _connect_to_checked_address(self, super()._new_conn, rule)

    class GuardedTlsConnection(TlsConnection):
        def _new_conn(self) -> socket.socket:
            return _connect_to_checked_address(self, super()._new_conn, rule)

    class GuardedPool(HTTPConnectionPool):
        ConnectionCls = GuardedConnection

    class GuardedTlsPool(HTTPSConnectionPool):
        ConnectionCls = GuardedTlsConnection

    manager.pool_classes_by_scheme = {"http": GuardedPool, "https": GuardedTlsPool}


def _connect_to_checked_address(connection: HTTPConnection, connect: Any, rule: AddressRule) -> socket.socket:
    """Resolve the name once and connect to the addresses that were checked: a second answer of the name server could
    name another one."""
    name = connection._dns_host
    try:
        found = socket.getaddrinfo(name, connection.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        reason = error if isinstance(error, socket.gaierror) else socket.gaierror(str(error))
        raise NameResolutionError(name, connection, reason) from error
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    for address in addresses:
        if (fault := rule.find_fault(address)) is not None:
            of_name = "" if address == name else f" of {name}"
            raise BadCredentials(f"The kubeconfig is refused: the address {address}{of_name} {fault}.")
    last: Exception | None = None
    for address in addresses:
        connection._dns_host = address
        try:
            return connect()  # type: ignore[no-any-return]
        except (NewConnectionError, ConnectTimeoutError) as error:
            last = error
        finally:
            connection._dns_host = name
    assert last is not None, "a name without an address is an error above"
    raise last
