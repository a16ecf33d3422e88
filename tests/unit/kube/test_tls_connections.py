"""A connection that the other side resets before TLS begins, as a server does that is killed, is closed at once: Python
3.11 left it to the garbage collector."""

from __future__ import annotations

import os
import select
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import closing

import pytest
from urllib3.connection import HTTPConnection

from pools.domain.configuration.cluster_addresses import LOOPBACK, AddressRule
from pools.security.tls_sockets import close_unfinished
from pools.sign_on.directories import authorities
from pools.sign_on.providers import LdapDirectory
from scheduling.kube.connection import errors
from scheduling.kube.connection.client import KubernetesCluster
from scheduling.kube.connection.cluster_access import KubeconfigAccess

RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        yield found


def reset(listener: socket.socket, connected: socket.socket) -> None:
    """The other side resets this connection; it is noticed here when this returns."""
    other, _ = listener.accept()
    other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    other.close()
    noticed = select.poll()
    noticed.register(connected, select.POLLHUP)
    assert noticed.poll(10_000)


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


DIRECTORY = LdapDirectory(name="d", title="D", issuer="ldap", urls=("ldaps://localhost",), user_base="dc=example")


@pytest.mark.parametrize(
    "context",
    [close_unfinished(ssl.create_default_context()), authorities(DIRECTORY)],
    ids=["any", "of a directory"],
)
def test_a_socket(listener: socket.socket, context: ssl.SSLContext) -> None:
    plain = socket.create_connection(listener.getsockname())
    descriptor = plain.fileno()
    reset(listener, plain)
    with pytest.raises(ConnectionResetError):
        context.wrap_socket(plain, server_hostname="localhost")
    assert not is_open(descriptor)


def test_a_socket_that_is_not_connected_yet_stays_open() -> None:
    with socket.socket() as plain:
        descriptor = plain.fileno()
        wrapped = close_unfinished(ssl.create_default_context()).wrap_socket(plain, server_hostname="localhost")
    with closing(wrapped):
        assert wrapped.fileno() == descriptor


@pytest.mark.parametrize("rule", [None, AddressRule.of(LOOPBACK)], ids=["file", "sent"])
def test_a_call_of_a_cluster(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch, rule: AddressRule | None
) -> None:
    connect, descriptors = HTTPConnection._new_conn, []

    def connect_and_reset(connection: HTTPConnection) -> socket.socket:
        connected = connect(connection)
        descriptors.append(connected.fileno())
        reset(listener, connected)
        return connected

    monkeypatch.setattr(HTTPConnection, "_new_conn", connect_and_reset)
    server = {"server": f"https://127.0.0.1:{listener.getsockname()[1]}", "insecure-skip-tls-verify": True}
    content = {
        "clusters": [{"name": "c", "cluster": server}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    with closing(KubernetesCluster(KubeconfigAccess(content, addresses=rule))) as cluster:
        with pytest.raises(errors.Unreachable, match="connection broke.*reset"):
            cluster.version()
        assert [is_open(each) for each in descriptors] == [False]
