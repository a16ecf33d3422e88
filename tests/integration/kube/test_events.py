"""Kubernetes Events: on the fake cluster and on a real API server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import REGISTRY

from scheduling.kube.connection import errors
from scheduling.kube.connection.resource_kinds import EVENT, NAMESPACE, POD, QUEUE
from scheduling.kube.events import EventLimits, EventReason, EventSubject, EventWriter
from scheduling.services.kubernetes.cluster_events import writer_of
from tests.integration.kube.conftest import make_lab
from tests.support import world
from tests.support.fake_cluster import FakeCluster
from tests.support.flaky_cluster import FlakyCluster
from tests.support.kube_server import CONFIG_MAP, KubeNamespace, with_a_real_one


@pytest.fixture
def writers() -> Iterator[list[EventWriter]]:
    """Writers that end with the test."""
    made: list[EventWriter] = []
    yield made
    for writer in made:
        writer.close(0)


def list_events(cluster: Any, namespace: str, name: str) -> list[dict[str, Any]]:
    found = cluster.list(EVENT, namespace=namespace).items
    return [item for item in found if item["involvedObject"]["name"] == name]


def count_events(label: str, outcome: str) -> float:
    return REGISTRY.get_sample_value("osmo_cluster_events_total", {"backend": label, "outcome": outcome}) or 0.0


@with_a_real_one("kube_namespace")
def test_an_event_names_its_object(kube_namespace: KubeNamespace, writers: list[EventWriter]) -> None:
    cluster, here = kube_namespace.cluster, kube_namespace.namespace
    item = cluster.create(CONFIG_MAP, {"metadata": {"name": "thing", "namespace": here}}, field_manager="tests")
    writer = EventWriter(lambda: cluster, "lab")
    writers.append(writer)
    writer.record(EventSubject.of(CONFIG_MAP, item), EventReason.REPAIRED, "spec.queue was put back")
    assert writer.flush(30)
    (event,) = list_events(cluster, here, "thing")
    assert event["involvedObject"] == {
        "apiVersion": "v1", "kind": "ConfigMap", "name": "thing", "namespace": here, "uid": item["metadata"]["uid"]
    }  # fmt: skip
    assert (event["reason"], event["type"], event["message"]) == ("Repaired", "Warning", "spec.queue was put back")
    assert (event["count"], event["source"]["component"]) == (1, "osmo-admin")
    assert event["metadata"]["name"].startswith("thing.")


def test_an_object_without_a_namespace_and_one_without_a_name(
    kube_namespace: KubeNamespace, writers: list[EventWriter]
) -> None:
    """The API server keeps the Events of cluster-wide objects in `default`; a refused object may have no name yet."""
    cluster, queue = kube_namespace.cluster, kube_namespace.object_name("q")
    if isinstance(cluster, FakeCluster):
        cluster.create(NAMESPACE, {"metadata": {"name": "default"}}, field_manager="tests")
    writer = EventWriter(lambda: cluster, "lab")
    writers.append(writer)
    writer.record(EventSubject(QUEUE, queue), EventReason.REPAIRED, "quota")
    writer.record(EventSubject(POD, "", kube_namespace.namespace), EventReason.REFUSED, "not a queue of yours")
    assert writer.flush(30)
    assert len(list_events(cluster, "default", queue)) == 1
    (refused,) = cluster.list(EVENT, namespace=kube_namespace.namespace).items
    assert refused["metadata"]["name"].startswith("pod.")
    assert not refused["involvedObject"].get("name")


def test_equal_events_are_one_with_a_count(kube_namespace: KubeNamespace, writers: list[EventWriter]) -> None:
    cluster, here = kube_namespace.cluster, kube_namespace.namespace
    writer = EventWriter(lambda: cluster, "lab", EventLimits(repeat=0))
    writers.append(writer)
    subject = EventSubject(POD, "p", here)
    for _ in range(3):
        writer.record(subject, EventReason.REFUSED, "no")
        assert writer.flush(30)
    writer.record(subject, EventReason.REFUSED, "another reason")
    assert writer.flush(30)
    found = {event["message"]: event["count"] for event in list_events(cluster, here, "p")}
    assert found == {"no": 3, "another reason": 1}


def test_a_cluster_without_the_right_drops_events(writers: list[EventWriter]) -> None:
    """The first refusal pauses the writer: what follows is dropped without a call."""
    cluster = FlakyCluster(
        FakeCluster(), lambda call, number: errors.AccessDenied("events is forbidden", status=403), fails_events=True
    )
    writer = EventWriter(lambda: cluster, "forbidden")  # type: ignore[arg-type, return-value]
    writers.append(writer)
    for number in range(20):
        writer.record(EventSubject(POD, f"p{number}", "default"), EventReason.REFUSED, "no")
        assert writer.flush(30)
    assert cluster.calls["create"] == 1
    assert count_events("forbidden", "dropped") == 20


def test_a_silent_cluster_holds_up_nobody(writers: list[EventWriter]) -> None:
    """While the writer's thread hangs in a call, records return; beyond the limit they are dropped."""
    answer, called = threading.Event(), threading.Event()

    class Hanging:
        def create(self, *_: Any, **__: Any) -> None:
            called.set()
            answer.wait(60)
            raise errors.Unreachable("no answer")

    writer = EventWriter(Hanging, "silent", EventLimits(waiting=10))  # type: ignore[arg-type, return-value]
    writers.append(writer)
    try:
        writer.record(EventSubject(POD, "first", "default"), EventReason.DISPATCHED, "x")
        assert called.wait(30)
        for number in range(100):
            writer.record(EventSubject(POD, f"p{number}", "default"), EventReason.DISPATCHED, "x")
        assert count_events("silent", "dropped") == 90
    finally:
        answer.set()


def test_a_long_message_is_shortened(kube_namespace: KubeNamespace, writers: list[EventWriter]) -> None:
    writer = EventWriter(lambda: kube_namespace.cluster, "lab")
    writers.append(writer)
    writer.record(EventSubject(POD, "p" * 300, kube_namespace.namespace), EventReason.REFUSED, "x" * 5000)
    assert writer.flush(30)
    (event,) = kube_namespace.cluster.list(EVENT, namespace=kube_namespace.namespace).items
    assert len(event["message"]) == 1024


@pytest.mark.k8s
def test_a_queue_that_was_put_back_tells_it(kube: KubeNamespace, db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = make_lab(kube, monkeypatch)
    world.make_pool("team", 10, on=lab.backend)
    assert lab.sync().synced == "True"
    lab.edit("team", {"spec": {"priority": 7}}, owner="kim")
    assert lab.sync().synced == "True"
    assert writer_of(lab.backend).flush(30)
    (event,) = list_events(kube.cluster, "default", lab.name("team"))
    assert event["message"] == "kim set spec.priority to 7; it is 100 again"
    assert event["involvedObject"]["uid"] == lab.get("team")["metadata"]["uid"]
