"""A real API server that dies, restarts, falls silent or refuses us, while agents work with it. After each: everything
is done once, and nothing is left behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pools.domain.changes.backends import PutBackend
from pools.models import Backend
from scheduling.kube.connection import errors
from scheduling.kube.connection.client import Timeouts
from scheduling.kube.connection.resource_kinds import POD_GROUP
from scheduling.kube.informer import InformerTiming
from scheduling.models import ClusterState
from scheduling.services.kubernetes import connections as kube_connections
from scheduling.services.kubernetes.agent import AgentIntervals, ClusterAgent
from scheduling.services.verify import verify
from tests.integration.dispatch.test_cluster_workers import is_empty, run_to_end, wait_for_status
from tests.support import world
from tests.support.agent_harness import AgentHarness, find_group, gang_file
from tests.support.flaky_cluster import FlakyCluster
from tests.support.foreign_objects import ForeignObjects
from tests.support.kube_proxy import FaultyProxy
from tests.support.kube_server import PINNED, KubeNamespace, KubeServer, create_namespace, run_server, wait_for
from tests.support.threads import run_loops

pytestmark = pytest.mark.k8s

INTERVALS = AgentIntervals(
    reconcile=0.5, recount=2, heartbeat=0.5, configuration=0.2, standby=0.2,
    informer_timing=InformerTiming(watch_seconds=20, relist_seconds=120, first_pause=0.05, max_pause=1),
)  # fmt: skip
LIMITS = Timeouts(connect=2, call=20, watch_silence=60)


@pytest.fixture
def own_server(tmp_path: Path, ledger: None) -> Iterator[tuple[KubeServer, AgentHarness, FlakyCluster]]:
    """A server that the test may kill, a harness on it, and the connection that the agent gets."""
    for server in run_server(tmp_path / "kube", *PINNED):
        cluster = server.connect(limits=LIMITS)
        harness = AgentHarness.make(cluster, create_namespace(cluster))
        flaky = FlakyCluster(cluster)
        harness.agent = ClusterAgent(harness.backend.pk, connect=lambda _, flaky=flaky: flaky, intervals=INTERVALS)  # type: ignore[arg-type, return-value, misc]
        others = ForeignObjects(cluster, harness.backend.namespace)
        yield server, harness, flaky
        others.assert_untouched()
        cluster.close()


@pytest.fixture
def place(kube: KubeNamespace, ledger: None) -> KubeNamespace:
    """The shared server, with committed rows."""
    return kube


def is_true_without_error(condition: Callable[[], Any]) -> Callable[[], Any]:
    """The condition, false while the server is down."""

    def attempt() -> Any:
        try:
            return condition()
        except errors.ClusterError:
            return None

    return attempt


def test_a_server_dies_in_the_middle_of_dispatch_and_again_while_work_runs(
    own_server: tuple[KubeServer, AgentHarness, FlakyCluster],
) -> None:
    """The API server alone, by a kill; then etcd as well."""
    server, harness, flaky = own_server
    killed = threading.Event()

    def trouble(call: str, _: int) -> None:
        if call == "create" and sum(flaky.created.values()) >= 5 and not killed.is_set():
            killed.set()
            server.kill()

    flaky.failure = trouble
    workflows = [harness.submit(gang_file("lead", "other", name=f"job-{number}")) for number in range(3)]
    with run_loops(harness.agent):
        wait_for(killed.is_set)
        wait_for(lambda: "cluster_fault" in str([find_group(each).waiting_reason for each in workflows]))
        server.restart()
        wait_for(
            is_true_without_error(lambda: len(harness.list_pods()) == 6), seconds=120, description="all are created"
        )
        harness.run_pods(*harness.list_pods())
        for workflow in workflows:
            wait_for_status(workflow, "RUNNING")
        wait_for(lambda: ClusterState.objects.get().error == "")

        server.stop()
        wait_for(lambda: ClusterState.objects.get().error != "")
        server.start()
        wait_for(is_true_without_error(harness.list_pods), seconds=120)
        harness.finish_pods(*harness.list_pods())
        for workflow in workflows:
            wait_for_status(workflow, "COMPLETED")
        wait_for(lambda: is_empty(harness), seconds=120, description="nothing is left behind")
        run_to_end(harness, harness.submit())
        assert set(flaky.created.values()) == {1}
        wait_for(lambda: ClusterState.objects.get().error == "")
    assert verify() == []


def test_a_watch_that_dies_in_silence_is_noticed(kube_server: KubeServer, place: KubeNamespace) -> None:
    """The connection stays open, but no data arrives: the worst fault of a network."""
    proxy = FaultyProxy(kube_server.address, kube_server.certificate)
    proxy.add_rule("watch=true", delay=3600, times=None)
    cluster = kube_server.connect(address=proxy.address, limits=Timeouts(connect=5, call=20, watch_silence=1))
    harness = AgentHarness.make(place.cluster, place.namespace)
    try:
        with run_loops(ClusterAgent(harness.backend.pk, connect=lambda _: cluster, intervals=INTERVALS)):
            run_to_end(harness, harness.submit())
    finally:
        proxy.close()
        cluster.close()


def test_a_token_expires_and_a_new_one_is_used(kube_server: KubeServer, place: KubeNamespace) -> None:
    """The life of a credential: sealed in the ledger, used, refused, replaced through the API."""

    def put(config: str) -> Backend:
        body = {"type": "kubernetes", "namespace": place.namespace, "kubeconfig": config}
        return world.apply_change(PutBackend(name="lab", body=body)).row

    backend = put(kube_server.kubeconfig_text())
    pool = world.make_pool("team", 100, on=backend)
    agent = ClusterAgent(backend.pk, intervals=INTERVALS)
    harness = AgentHarness(place.cluster, backend, pool, agent)
    with run_loops(agent):
        run_to_end(harness, harness.submit())
        put(kube_server.kubeconfig_text("a-token-that-nobody-knows"))
        wait_for(lambda: "expired" in ClusterState.objects.get().error)
        workflow = harness.submit()
        wait_for(lambda: (find_group(workflow).waiting_reason or {}).get("code") == "cluster_fault")
        assert harness.list_pods() == []
        put(kube_server.kubeconfig_text())
        run_to_end(harness, workflow)
    kube_connections.connect(backend).close()


def test_kai_is_installed_after_the_submission(own_kube_server: KubeServer, ledger: None) -> None:
    cluster = own_kube_server.connect(limits=LIMITS)
    harness = AgentHarness.make(cluster, create_namespace(cluster))
    workflow = harness.submit()
    with run_loops(ClusterAgent(harness.backend.pk, connect=lambda _: cluster, intervals=INTERVALS)):
        wait_for(lambda: "install KAI" in (find_group(workflow).waiting_reason or {}).get("message", ""))
        assert harness.list_pods() == []
        own_kube_server.install(*PINNED)
        run_to_end(harness, workflow)
        own_kube_server.uninstall(POD_GROUP)
        waits = harness.submit()
        wait_for(lambda: "install KAI" in (find_group(waits).waiting_reason or {}).get("message", ""))
        own_kube_server.install(*PINNED)
        run_to_end(harness, waits)
    cluster.close()


ELASTIC = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata:
  name: replicas
  annotations: {osmo/image: ubuntu, osmo/command: "[sh]", osmo/gpus-per-pod: "1"}
spec:
  minSubGroup: 1
  subGroups:
  - {name: a, minMember: 1}
  - {name: b, minMember: 1}
"""


def test_an_older_kai_does_not_get_a_gang_it_would_misread(place: KubeNamespace) -> None:
    """Its API server would silently drop `minSubGroup`, and the gang would start with another shape."""
    harness = AgentHarness.make(place.cluster, place.namespace)
    workflow = harness.submit(ELASTIC)
    harness.run_agent()
    workflow.refresh_from_db()
    assert workflow.status == "FAILED_BACKEND_ERROR"
    assert "spec.minSubGroup" in workflow.failure_message
    assert (harness.list_pods(), harness.list_pod_groups()) == ([], [])


def test_a_newer_kai_gets_the_gang_unchanged(newer_kube_server: KubeServer, ledger: None) -> None:
    cluster = newer_kube_server.connect()
    harness = AgentHarness.make(cluster, create_namespace(cluster))
    workflow = harness.submit(ELASTIC)
    harness.run_agent()
    (pod_group,) = harness.list_pod_groups()
    assert pod_group["spec"]["minSubGroup"] == 1
    assert [pod["metadata"]["labels"]["kai.scheduler/subgroup-name"] for pod in harness.list_pods()] == ["a", "b"]
    harness.run_pods(harness.find_pod(workflow, "a-0"))
    harness.finish_pods(harness.find_pod(workflow, "a-0"))
    harness.run_agent()
    workflow.refresh_from_db()
    assert workflow.status == "COMPLETED"  # one of two was enough
    assert harness.list_pods() == []
    cluster.close()
