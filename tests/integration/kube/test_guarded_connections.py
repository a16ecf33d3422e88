"""A kubeconfig that a client sent reaches no address of this machine or of its cloud: neither by name, by proxy, nor by
redirect (reproduction of a review, in which a server on loopback got 14 requests)."""

from __future__ import annotations

import dataclasses
import gc
import socket
import threading
import weakref
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from pools.domain.configuration.cluster_addresses import LOOPBACK, AddressRule
from pools.models import Backend, KubernetesSettings
from scheduling.kube.connection.client import KubernetesCluster
from scheduling.kube.connection.cluster_access import KubeconfigAccess
from scheduling.kube.connection.errors import BadCredentials, ClusterError
from scheduling.services.kubernetes import connections

NOTHING = AddressRule()
OWN_MACHINE = AddressRule.of(LOOPBACK)


class Listener:
    """A server on loopback that notes the requests it gets; `location` makes it redirect."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.location = ""
        notes = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                notes.requests.append(self.path)
                body = b'{"gitVersion": "v1.36.0"}'
                self.send_response(302 if notes.location else 200)
                if notes.location:
                    self.send_header("Location", notes.location)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Silent."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def listener() -> Iterator[Listener]:
    found = Listener()
    yield found
    found.close()


@pytest.fixture
def other() -> Iterator[Listener]:
    found = Listener()
    yield found
    found.close()


def kubeconfig(server: str, **more: str) -> dict[str, Any]:
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": server, **more}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }


def call(server: str, rule: AddressRule | None, **more: str) -> str:
    return KubernetesCluster(KubeconfigAccess(kubeconfig(server, **more), addresses=rule)).version()


def names(monkeypatch: pytest.MonkeyPatch, **addresses: str) -> None:
    """The name server's answers."""
    real = socket.getaddrinfo

    def resolve(host: str, port: Any, *more: Any, **options: Any) -> Any:
        return real(addresses.get(host, host), port, *more, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


def test_loopback_only_where_it_is_allowed(listener: Listener) -> None:
    address = f"http://127.0.0.1:{listener.port}"
    with pytest.raises(BadCredentials, match=r"the address 127\.0\.0\.1 is a loopback address"):
        call(address, NOTHING)
    assert listener.requests == []
    assert call(address, OWN_MACHINE) == call(address, None) == "v1.36.0"


def test_a_name_is_refused_by_its_address(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    names(monkeypatch, metadata="127.0.0.1")
    with pytest.raises(BadCredentials, match=r"the address 127\.0\.0\.1 of metadata is a loopback"):
        call(f"http://metadata:{listener.port}", NOTHING)
    with pytest.raises(BadCredentials):
        call(f"https://metadata:{listener.port}", NOTHING)
    assert listener.requests == []
    assert call(f"http://metadata:{listener.port}", OWN_MACHINE) == "v1.36.0"


def test_old_forms_of_an_address(listener: Listener) -> None:
    for host in ("0x7f.1", "2130706433", "0"):
        with pytest.raises(ClusterError):
            call(f"http://{host}:{listener.port}", NOTHING)
    assert listener.requests == []


def test_a_proxy_is_an_address_too(listener: Listener) -> None:
    for server in ("http://kube.example", "https://kube.example"):
        with pytest.raises(BadCredentials, match="loopback"):
            call(server, NOTHING, **{"proxy-url": f"http://127.0.0.1:{listener.port}"})
    assert listener.requests == []


def test_nobody_is_redirected(listener: Listener, other: Listener) -> None:
    listener.location = f"http://127.0.0.1:{other.port}/latest/meta-data"
    for rule in (OWN_MACHINE, None):
        with pytest.raises(ClusterError, match="302"):
            call(f"http://127.0.0.1:{listener.port}", rule)
    assert other.requests == []


def test_several_addresses_of_a_name_are_tried(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(host: str, port: Any, *_: Any, **__: Any) -> Any:
        addresses = ["127.0.0.9", "127.0.0.1"] if host == "kube" else [host]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert call(f"http://kube:{listener.port}", OWN_MACHINE) == "v1.36.0"


def test_a_name_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with pytest.raises(ClusterError, match="No connection|not known"):
        call("http://kube.example", NOTHING)


@pytest.mark.django_db
def test_a_stored_kubeconfig_follows_the_rule_of_now(listener: Listener, settings: Any, tmp_path: Any) -> None:
    """One that was stored on a machine of one's own does not work on a server for others; an operator's file does."""
    from pools.security.sealing import fingerprint, seal

    text = str(kubeconfig(f"http://127.0.0.1:{listener.port}"))
    backend = Backend.objects.create(name="k", namespace="ns", kind=Backend.Kind.KUBERNETES)
    row = KubernetesSettings.objects.create(
        backend=backend, access="kubeconfig", sealed_kubeconfig=seal(text), credential_mark=fingerprint(text)
    )
    settings.OSMO = dataclasses.replace(settings.OSMO, cluster_addresses=list(LOOPBACK), kubeconfig_dir=tmp_path)
    assert KubernetesCluster(connections._cluster_access(row)).version() == "v1.36.0"
    settings.OSMO = dataclasses.replace(settings.OSMO, cluster_addresses=[])
    with pytest.raises(BadCredentials, match="OSMO_CLUSTER_ADDRESSES"):
        KubernetesCluster(connections._cluster_access(row)).version()
    (tmp_path / "own").write_text(text)
    row.access, row.kubeconfig_file = "file", "own"
    assert KubernetesCluster(connections._cluster_access(row)).version() == "v1.36.0"


def test_a_client_that_nobody_uses_leaves_no_connection_to_the_garbage_collector(listener: Listener) -> None:
    cluster = KubernetesCluster(KubeconfigAccess(kubeconfig(f"http://127.0.0.1:{listener.port}"), "c", OWN_MACHINE))
    cluster.version()
    manager = weakref.ref(cluster._api.rest_client.pool_manager)
    gc.disable()
    try:
        del cluster
        assert manager() is None
    finally:
        gc.enable()
