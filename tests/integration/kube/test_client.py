"""The official client behind the port, against a real API server through a proxy with faulty answers."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
import urllib3
from prometheus_client import REGISTRY

from scheduling.kube.connection import errors
from scheduling.kube.connection.call_limits import MAX_PAUSE_SECONDS, CallLimiter
from scheduling.kube.connection.client import KubernetesCluster, Timeouts, _lines
from scheduling.kube.connection.cluster_access import KubeconfigAccess
from scheduling.kube.connection.error_messages import condition_reason, error_message
from scheduling.kube.connection.port import Cluster
from scheduling.kube.connection.resource_kinds import NAMESPACE, QUEUE
from tests.support.kube_proxy import FaultyProxy, status_body
from tests.support.kube_server import CONFIG_MAP, KubeNamespace, KubeServer

pytestmark = pytest.mark.k8s
PATIENT = Timeouts(connect=30, call=60)
SHORT = Timeouts(connect=30, call=0.5)


@pytest.fixture
def proxy(kube_server: KubeServer) -> Iterator[FaultyProxy]:
    between = FaultyProxy(kube_server.address, kube_server.certificate)
    yield between
    between.close()


@pytest.fixture
def through(kube_server: KubeServer, proxy: FaultyProxy) -> Iterator[Callable[..., Cluster]]:
    """Opens a connection through the proxy."""
    opened: list[KubernetesCluster] = []

    def connect(limits: Timeouts = PATIENT) -> Cluster:
        opened.append(kube_server.connect(limits=limits, address=proxy.address))
        return opened[-1]

    yield connect
    for each in opened:
        each.close()


def test_each_answer_is_an_error_of_its_own(through: Callable[..., Cluster], proxy: FaultyProxy) -> None:
    for code, reason, expected, condition in (
        (400, "BadRequest", errors.InvalidObject, "Invalid"),
        (401, "Unauthorized", errors.Unauthorized, "Unauthorized"),
        (403, "Forbidden", errors.AccessDenied, "Forbidden"),
        (404, "NotFound", errors.ObjectNotFound, ""),
        (405, "MethodNotAllowed", errors.InvalidObject, "Invalid"),
        (409, "Conflict", errors.WriteConflict, ""),
        (409, "AlreadyExists", errors.AlreadyExists, ""),
        (410, "Expired", errors.ResourceVersionExpired, "Gone"),
        (413, "RequestEntityTooLarge", errors.InvalidObject, "Invalid"),
        (415, "UnsupportedMediaType", errors.InvalidObject, "Invalid"),
        (418, "Teapot", errors.ClusterError, ""),
        (422, "Invalid", errors.InvalidObject, "Invalid"),
        (429, "TooManyRequests", errors.TooManyRequests, "TooManyRequests"),
        (500, "InternalError", errors.ServerError, "ServerFault"),
        (503, "ServiceUnavailable", errors.ServerError, "ServerFault"),
        (504, "Timeout", errors.ServerError, "ServerFault"),
    ):
        proxy.add_rule("/queues/", status=code, body=status_body(code, reason))
        with pytest.raises(errors.ClusterError) as answered:
            through().get(QUEUE, "a")
        assert type(answered.value) is expected, code
        assert (answered.value.message, answered.value.status) == ("said the proxy", code)
        assert condition_reason(answered.value).startswith(condition) and condition_reason(answered.value), code
        assert "said the proxy" in error_message(answered.value)


def test_the_pause_is_read_from_the_header_or_the_details(through: Callable[..., Cluster], proxy: FaultyProxy) -> None:
    """A gateway that asks for a day would keep us away after the cluster answers again."""
    for headers, details, pause in (
        ({"Retry-After": "7"}, {}, 7),
        ({}, {"retryAfterSeconds": 3}, 3),
        ({}, {"retryAfterSeconds": float("nan")}, None),
        ({"Retry-After": "86400"}, {}, MAX_PAUSE_SECONDS),
        ({"Retry-After": "9" * 400}, {}, MAX_PAUSE_SECONDS),
    ):
        proxy.add_rule("/queues/", status=429, body=status_body(429, **details), headers=headers)
        with pytest.raises(errors.TooManyRequests) as answered:
            through().get(QUEUE, "a")
        assert answered.value.retry_after == pause


def test_a_gateway_judges_no_object(through: Callable[..., Cluster], proxy: FaultyProxy) -> None:
    """Work whose pod a gateway refuses waits; what the API server refuses has failed."""
    for code in (400, 405, 413, 422):
        proxy.add_rule("/queues/", status=code, body=b"<html>Bad Request</html>")
        with pytest.raises(errors.ClusterError) as answered:
            through().get(QUEUE, "a")
        assert type(answered.value) is errors.ClusterError, code


def test_a_list_without_an_end_is_refused(through: Callable[..., Cluster], proxy: FaultyProxy) -> None:
    page = b'{"metadata": {"resourceVersion": "1", "continue": "more"}, "items": []}'
    proxy.add_rule("/queues", status=200, body=page, times=3)
    with pytest.raises(errors.ServerError, match="no end"):
        through().list(QUEUE)


def test_answers_of_another_form(through: Callable[..., Cluster], proxy: FaultyProxy) -> None:
    """As of a portal that answers every address."""
    more: tuple[dict[str, Any], ...] = (
        {"retryAfterSeconds": "soon"}, {"causes": "many"}, {"causes": ["x"]}, {"retryAfterSeconds": [1]},
    )  # fmt: skip
    for details in more:
        proxy.add_rule("/queues/", status=503, body=status_body(503, **details))
        with pytest.raises(errors.ServerError, match="said the proxy"):
            through().get(QUEUE, "a")
    for body in (b"{}", b'{"items": []}', b'{"metadata": "x"}'):
        proxy.add_rule("/queues", status=200, body=body)
        with pytest.raises(errors.ServerError, match="not a list"):
            through().list(QUEUE)
    for body in (b"", b"not json", b"[]", b'"x"'):
        proxy.add_rule("/queues/", status=200, body=body)
        with pytest.raises(errors.ServerError, match="is this a Kubernetes API server"):
            through().get(QUEUE, "a")


def test_a_log_comes_in_pieces_and_within_its_bounds(through: Callable[..., Cluster], proxy: FaultyProxy) -> None:
    proxy.add_rule("/pods/p/log?container=c&tailLines=9&limitBytes=200000", status=200, body=b"x" * 100_000)
    pieces = list(through().read_log("p", namespace="ns", container="c", tail_lines=9, limit_bytes=200_000))
    assert len(pieces) > 1
    assert b"".join(pieces) == b"x" * 100_000


def test_a_log_that_drips_ends_in_time(through: Callable[..., Cluster], proxy: FaultyProxy) -> None:
    proxy.add_rule("/pods/p/log", status=200, body=b"x" * 100_000, drip=0.1)
    with pytest.raises(errors.Unreachable, match="did not end in time"):
        list(through(SHORT).read_log("p", namespace="ns", container="c", tail_lines=9, limit_bytes=9))


def test_a_missing_answer_is_a_timeout(through: Callable[..., Cluster], proxy: FaultyProxy) -> None:
    proxy.add_rule("/queues/", delay=300, status=200, body=b"{}")
    with pytest.raises(errors.Unreachable, match="no answer in time"):
        through(SHORT).get(QUEUE, "a")


def test_a_slow_answer_is_a_timeout(through: Callable[..., Cluster], proxy: FaultyProxy) -> None:
    proxy.add_rule("/queues/", status=200, body=b" " * 100_000, drip=0.1)
    with pytest.raises(errors.Unreachable, match="did not end in time"):
        through(SHORT).get(QUEUE, "a")


def test_a_connection_that_breaks(through: Callable[..., Cluster], proxy: FaultyProxy) -> None:
    proxy.add_rule("/queues/", drop=True)
    cluster = through()
    with pytest.raises(errors.Unreachable, match="connection broke"):
        cluster.get(QUEUE, "a")
    with pytest.raises(errors.ObjectNotFound):
        cluster.get(QUEUE, "a")  # the next call is a new one


def test_a_closed_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    content = _kubeconfig(f"https://127.0.0.1:{port}")
    with pytest.raises(errors.Unreachable, match="^No connection: Connection refused$"):  # without the error's number
        KubernetesCluster(KubeconfigAccess(content)).version()


def test_an_untrusted_certificate(kube_server: KubeServer) -> None:
    content = kube_server.kubeconfig_body()
    del content["clusters"][0]["cluster"]["certificate-authority-data"]
    with pytest.raises(errors.Unreachable, match="TLS"):
        KubernetesCluster(KubeconfigAccess(content), timeouts=PATIENT).version()


def test_a_list_whose_pages_expired_starts_again(
    kube: KubeNamespace, through: Callable[..., Cluster], proxy: FaultyProxy
) -> None:
    for number in range(5):
        body = {"metadata": {"name": f"c{number}", "namespace": kube.namespace}}
        kube.cluster.create(CONFIG_MAP, body, field_manager="tests")
    proxy.add_rule("continue=", status=410, body=status_body(410, "Expired"))
    found = through().list(CONFIG_MAP, namespace=kube.namespace, page_size=2)
    assert sorted(item["metadata"]["name"] for item in found.items) == [f"c{number}" for number in range(5)]
    proxy.add_rule("continue=", status=410, body=status_body(410, "Expired"), times=None)
    with pytest.raises(errors.ResourceVersionExpired):
        through().list(CONFIG_MAP, namespace=kube.namespace, page_size=2)


def test_an_expiry_event_ends_a_watch(through: Callable[..., Cluster], proxy: FaultyProxy) -> None:
    line = b'{"type": "ERROR", "object": ' + status_body(410, "Expired") + b"}\n"
    proxy.add_rule("watch=true", status=200, body=line)
    with pytest.raises(errors.ResourceVersionExpired):
        list(through().watch(QUEUE, resource_version="5", timeout_seconds=30))


def test_a_watch_with_a_broken_line(through: Callable[..., Cluster], proxy: FaultyProxy) -> None:
    for body in (
        b'{"type": "ADDED", "obj\n',
        b"[]\n",
        b'{"object": {}}\n',
        b'{"type": "ADDED", "object": {}}\n',
        b'{"type": "ADDED", "object": "x"}\n',
        b'{"type": "FOO", "object": {"metadata": {"resourceVersion": "6"}}}\n',
        b'{"type": "ERROR", "object": "x"}\n',
        b'{"type": "ERROR", "object": {"code": "x"}}\n',
    ):
        proxy.add_rule("watch=true", status=200, body=body)
        with pytest.raises(errors.Unreachable, match="broke off"):
            list(through().watch(QUEUE, resource_version="5", timeout_seconds=30))


def test_a_watch_that_falls_silent_is_dead(through: Callable[..., Cluster], proxy: FaultyProxy) -> None:
    proxy.add_rule("watch=true", delay=300, status=200, body=b"")
    with pytest.raises(errors.Unreachable):
        list(
            through(Timeouts(connect=30, call=0.5, watch_silence=0.5)).watch(
                QUEUE, resource_version="5", timeout_seconds=100
            )
        )


def test_a_watch_of_a_kind_without_events_is_silent(kube_server: KubeServer) -> None:
    """The API server sends no bookmark of it at once: that is no broken connection."""
    cluster = kube_server.connect(limits=Timeouts(connect=30, call=0.5, watch_silence=0.5))
    since = cluster.list(QUEUE).resource_version
    with pytest.raises(errors.SilentWatch):
        list(cluster.watch(QUEUE, resource_version=since, timeout_seconds=100))


def test_errors_of_authentication_and_authorization(kube_server: KubeServer) -> None:
    body: dict[str, Any] = {"metadata": {"name": "x"}, "spec": {}}
    with pytest.raises(errors.AccessDenied):
        kube_server.connect("nobody").list(QUEUE)
    viewer = kube_server.connect("viewer")
    viewer.list(QUEUE)
    with pytest.raises(errors.AccessDenied):
        viewer.apply(QUEUE, body, field_manager="tests")
    content = kube_server.kubeconfig_body()
    content["users"][0]["user"] = {"token": "expired"}
    with pytest.raises(errors.Unauthorized) as refused:
        KubernetesCluster(KubeconfigAccess(content), timeouts=PATIENT).list(NAMESPACE)
    assert "expired" not in refused.value.message


@pytest.mark.parametrize(
    "change",
    [{"contexts": []}, {"current-context": "nowhere"}, {"users": [{"name": "u"}], "contexts": None}, {"clusters": "x"}],
)
def test_an_unusable_kubeconfig(change: dict[str, Any]) -> None:
    with pytest.raises(errors.BadCredentials):
        KubernetesCluster(KubeconfigAccess(_kubeconfig("https://x") | change))


def _kubeconfig(server: str) -> dict[str, Any]:
    return {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


def test_calls_are_counted_by_verb_resource_and_answer(kube_server: KubeServer, proxy: FaultyProxy) -> None:
    """A 429 also pauses the next calls of its class, without asking the server again."""
    content = kube_server.kubeconfig_body()
    content["clusters"][0]["cluster"] = {"server": proxy.address}
    with closing(KubernetesCluster(KubeconfigAccess(content), limiter=CallLimiter("counted"))) as cluster:
        cluster.list(NAMESPACE)
        with pytest.raises(errors.ObjectNotFound):
            cluster.get(NAMESPACE, "nobody")
        proxy.add_rule("/namespaces?", status=429, body=status_body(429), headers={"Retry-After": "30"}, times=None)
        for _ in range(3):
            with pytest.raises(errors.TooManyRequests) as refused:
                cluster.list(NAMESPACE)
            assert refused.value.retry_after == pytest.approx(30, abs=20)
        assert cluster.version()

    def count(verb: str, resource: str, code: str) -> float | None:
        labels = {"backend": "counted", "verb": verb, "resource": resource, "code": code}
        return REGISTRY.get_sample_value("osmo_cluster_calls_total", labels)

    assert count("list", "namespaces", "2xx") == 1
    assert count("get", "namespaces", "404") == 1
    assert count("list", "namespaces", "429") == 1
    assert count("get", "version", "2xx") == 1


def test_events_of_a_watch_are_read_where_a_proxy_sends_no_chunks() -> None:
    """They came when the watch ended, and its bookmarks kept it from being silent."""
    ours, theirs = socket.socketpair()
    ours.settimeout(5)
    theirs.sendall(b'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{"type": "BOOKMARK"}\n')
    plain = http.client.HTTPResponse(ours)
    plain.begin()
    response = urllib3.HTTPResponse(plain, headers=dict(plain.headers), preload_content=False)
    assert next(_lines(response)) == b'{"type": "BOOKMARK"}'
    theirs.close()
    ours.close()
