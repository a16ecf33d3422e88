"""Two running installations on one namespace: one works, the other waits, and takes over from a silent one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from django.db import connection

from pools.models import Backend
from scheduling.domain.cluster.election import Candidate, lease_name
from scheduling.kube.cluster_lease import ClusterLease, LeaseState
from scheduling.kube.connection import errors, resource_kinds
from scheduling.kube.connection.port import Cluster, ResourceKind
from scheduling.kube.webhook_configuration import read_configuration
from scheduling.models import ClusterState, QueueSync, WebhookInstallation
from scheduling.selectors.cluster.queue_sync_state import queue_sync_body
from scheduling.services.gpu_quota.controller import GpuControllerIntervals, GpuQuotaController
from scheduling.services.kubernetes.agent import AgentIntervals, ClusterAgent
from scheduling.services.kubernetes.syncing.queue_sync import sync_backend_queues
from tests.support.agent_harness import AgentHarness, kubernetes_backend
from tests.support.fake_cluster import FakeCluster
from tests.support.flaky_cluster import FlakyCluster
from tests.support.kube_server import RecordingCluster, wait_for
from tests.support.threads import run_loops

QUICK = AgentIntervals(reconcile=0.2, heartbeat=0.2, configuration=0.1, standby=0.1, lease_duration=2)
GPU_QUOTA = resource_kinds.GPU_RESOURCE_QUOTA


def lease_state(backend: Backend) -> str:
    """The agent's view of the Lease; nothing before its first look."""
    return ClusterState.objects.filter(backend=backend).values_list("cluster_lease", flat=True).first() or ""


def holder_of(cluster: Cluster, namespace: str) -> str:
    """The holder that the Lease names."""
    found = cluster.get(resource_kinds.LEASE, lease_name(namespace), namespace=namespace)
    return str(found["spec"].get("holderIdentity") or "")


def agent_of(harness: AgentHarness, **more: Any) -> ClusterAgent:
    return ClusterAgent(harness.backend.pk, connect=lambda _: harness.cluster, intervals=QUICK, **more)


@pytest.fixture(params=[pytest.param("fake", marks=pytest.mark.nightly), pytest.param("real", marks=pytest.mark.k8s)])
def place(request: pytest.FixtureRequest, ledger: None) -> tuple[Cluster, str]:
    """A cluster and a namespace, for committed rows."""
    if request.param == "real":
        kube = request.getfixturevalue("kube")
        return kube.cluster, kube.namespace
    return FakeCluster(namespaces=["osmo"]), "osmo"


@pytest.fixture
def harness(ledger: None) -> AgentHarness:
    """Committed rows, seen by every thread."""
    return AgentHarness.make(FakeCluster(namespaces=["osmo"]), "osmo")


def test_one_works_until_it_is_silent(place: tuple[Cluster, str]) -> None:
    """Two agents, each with a backend and an identity of its own, on one namespace. The first one loses its line to the
    cluster; the second one takes over; the first one comes back and stands by until the second one stops in order."""
    cluster, namespace = place
    line = FlakyCluster(cluster)
    first = AgentHarness.make(cast("Cluster", line), namespace, name="first", pool="first")
    second = AgentHarness.make(cluster, namespace, name="second", pool="second")
    agent, other = agent_of(first), agent_of(second)
    with run_loops(agent):
        wait_for(lambda: lease_state(first.backend) == "held")
        with run_loops(other) as (stop_other,):
            wait_for(lambda: lease_state(second.backend) == "elsewhere")
            ours, theirs = first.submit(), second.submit(to="second")
            agent.wake()
            other.wake()
            wait_for(lambda: len(first.list_pods(ours)) == 1)
            assert second.list_pods(theirs) == []
            assert ClusterState.objects.get(backend=second.backend).heartbeat_at is None, "it does not even observe"

            line.failure = lambda call, number: errors.Unreachable("cut")
            late = first.submit()
            agent.wake()
            wait_for(lambda: len(second.list_pods(theirs)) == 1, description="the other installation takes over")
            line.failure = lambda call, number: None
            wait_for(lambda: lease_state(first.backend) == "elsewhere", description="the first one stands by")
            assert second.list_pods(late) == []

            stop_other.set()
            wait_for(lambda: len(second.list_pods(late)) == 1, description="a clean stop releases the Lease")
            assert lease_state(second.backend) == ""
    assert holder_of(cluster, namespace) == ""


def test_an_agent_waits_and_tells(harness: AgentHarness) -> None:
    workflow = harness.submit()
    other = ClusterLease("osmo", Candidate("copy", "host/9"))
    assert other.step(harness.cluster) is LeaseState.HELD
    with run_loops(agent_of(harness)), pytest.MonkeyPatch.context() as patch:
        patch.setattr("scheduling.services.kubernetes.connections.connect", lambda _: harness.cluster)
        wait_for(lambda: lease_state(harness.backend) == "elsewhere")
        assert harness.list_pods(workflow) == []
        lease = queue_sync_body(harness.backend)["lease"]
        assert lease["state"] == "elsewhere"
        assert "copy/host/9 since " in lease["message"]
        sync_backend_queues(harness.backend.pk, manual=True)
        assert QueueSync.objects.get(backend=harness.backend).reason == "HeldElsewhere"
        assert harness.cluster.list(resource_kinds.QUEUE).items == []
        other.release(harness.cluster)
        wait_for(lambda: harness.list_pods(workflow))
        wait_for(lambda: lease_state(harness.backend) == "held")
        sync_backend_queues(harness.backend.pk, manual=True)
        assert QueueSync.objects.get(backend=harness.backend).reason == "InStep"


@pytest.mark.parametrize("is_noticed", [True, False])
def test_a_restart_of_the_database_server_costs_no_wait(harness: AgentHarness, is_noticed: bool) -> None:
    """The id of the installation changes with it. The process that held the Lease knows that it was its own, also where
    no statement of its own met the restart."""
    ids = ["before"]
    agent = ClusterAgent(
        harness.backend.pk,
        connect=lambda _: harness.cluster,
        intervals=replace(QUICK, lease_duration=50),
        read_instance=lambda _: ids[0],
    )
    with run_loops(agent):
        wait_for(lambda: lease_state(harness.backend) == "held")
        assert holder_of(harness.cluster, "osmo").startswith("before/")
        ids[0] = "after"
        if is_noticed:
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
        wait_for(lambda: holder_of(harness.cluster, "osmo").startswith("after/"), seconds=20)
        workflow = harness.submit()
        wait_for(lambda: harness.list_pods(workflow))


def test_a_queue_sync_ends_when_another_installation_takes_the_lease(
    harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The root queue is written; the other installation appears; nothing more is written."""
    monkeypatch.setattr("scheduling.kube.cluster_lease.RENEW_SECONDS", 0.0)

    def appear(verb: str, kind: ResourceKind, name: str) -> None:
        if verb in {"apply", "create", "merge"} and name == "osmo-default-osmo":
            ClusterLease("osmo", Candidate("copy", "host/9")).step(harness.cluster)

    recorded = RecordingCluster(harness.cluster, appear)
    monkeypatch.setattr("scheduling.services.kubernetes.connections.connect", lambda _: recorded)
    sync_backend_queues(harness.backend.pk, manual=True)
    assert [item["metadata"]["name"] for item in harness.cluster.list(resource_kinds.QUEUE).items] == [
        "osmo-default-osmo"
    ]
    row = QueueSync.objects.get(backend=harness.backend)
    assert (row.reason, row.synced) == ("HeldElsewhere", "False")
    assert "copy/host/9" in row.message
    assert row.lease_holder is None


def test_the_gpu_quota_controller_waits_too(ledger: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a status nor a webhook is written while another installation works; both follow soon after it ended. It
    also stops in the middle of its work."""
    monkeypatch.setattr("scheduling.kube.cluster_lease.RENEW_SECONDS", 0.0)
    cluster = FakeCluster(namespaces=["osmo"])
    cluster.install_kinds(GPU_QUOTA)
    backend = kubernetes_backend("osmo")
    WebhookInstallation.objects.create(backend=backend, url="https://hooks.example:8443")
    quota = {"metadata": {"name": "q", "namespace": "osmo"}, "spec": {"total": {"maxWorkers": 1}}}
    cluster.create(GPU_QUOTA, quota, field_manager="somebody")
    recorded = RecordingCluster(cluster)
    intervals = GpuControllerIntervals(reconcile=0.1, standby=0.1, webhooks=0.1)
    controller = GpuQuotaController(backend.pk, connect=lambda _: cast("Cluster", recorded), intervals=intervals)

    def wait_for_looks() -> None:
        """It has looked at the Lease three more times."""
        looks = ("get", "Lease", lease_name("osmo"))
        before = recorded.calls.count(looks)
        wait_for(lambda: recorded.calls.count(looks) >= before + 3)

    other = ClusterLease("osmo", Candidate("copy", "host/9"))
    assert other.step(cluster) is LeaseState.HELD
    with run_loops(controller):
        wait_for_looks()
        assert recorded.writes == []
        other.release(cluster)
        wait_for(lambda: cluster.get(GPU_QUOTA, "q", namespace="osmo").get("status"))
        wait_for(lambda: read_configuration(cluster, backend.name))

        assert ClusterLease("osmo", Candidate("copy", "host/10")).step(cluster) is LeaseState.HELD
        wait_for_looks()
        recorded.clear_calls()
        cluster.merge(
            GPU_QUOTA, "q", {"spec": {"total": {"maxWorkers": 5}}}, field_manager="somebody", namespace="osmo"
        )
        cluster.delete(resource_kinds.VALIDATING_WEBHOOK, f"osmo-admin-{backend.name}")
        wait_for_looks()
        assert recorded.writes == []
