"""An observed cluster on a real API server, from the first look to the pool that is managed and back. Its audit log
shows what the observer's account asked for, refused calls included."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from pools.domain.changes.backends import PutBackend
from pools.models import Backend, Node
from scheduling.domain.kubernetes_json import Object
from scheduling.kube.connection import resource_kinds
from scheduling.kube.connection.client import KubernetesCluster, KubernetesReader
from scheduling.kube.connection.port import Cluster
from scheduling.kube.informer import InformerTiming
from scheduling.kube.observed_kinds import LOCAL_QUEUES, WORKLOADS
from scheduling.models import ClusterState, NodeState, QueueSync, SchedulerDifference, Workflow
from scheduling.services.kubernetes import connections
from scheduling.services.kubernetes.agent import ClusterAgent
from scheduling.services.kubernetes.connection_test import connection_report
from scheduling.services.kubernetes.leased_loop import LeasedLoop
from scheduling.services.kubernetes.observing.observer import ClusterObserver, ObserverIntervals
from scheduling.services.kubernetes.syncing.queue_sync import sync_backend_queues
from scheduling.services.kubernetes.syncing.sync_comparison import preview_sync
from scheduling.services.verify import verify
from tests.support import world
from tests.support.kube_server import CRD, PINNED, KubeServer, is_served, run_server, wait_for
from tests.support.observed_cluster import FIRM, Firm

pytestmark = [pytest.mark.k8s, pytest.mark.timeout(600)]
AUDIT_POLICY = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}


def kueue_definition(plural: str, kind: str) -> dict[str, Any]:
    """A CustomResourceDefinition of Kueue that takes objects of any form, in both versions."""
    anything = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [
        {"name": each.version, "served": True, "storage": at == 0, "subresources": {"status": {}}, "schema": anything}
        for at, each in enumerate(WORKLOADS)
    ]
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    spec = {"group": WORKLOADS[0].group, "scope": "Namespaced", "names": names, "versions": versions}
    return {"metadata": {"name": f"{plural}.{WORKLOADS[0].group}"}, "spec": spec}


@pytest.fixture
def audited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[KubeServer, Path]]:
    """A server with the kinds of KAI and Kueue, and its audit log."""
    policy, log = tmp_path / "policy.yaml", tmp_path / "audit.log"
    policy.write_text(yaml.safe_dump(AUDIT_POLICY))
    monkeypatch.setenv("APISERVER_FLAGS", f"--audit-policy-file={policy} --audit-log-path={log}")
    for server in run_server(tmp_path / "kube", *PINNED):
        cluster = server.connect()
        for kinds in (WORKLOADS, LOCAL_QUEUES):
            cluster.apply(CRD, kueue_definition(kinds[0].plural, kinds[0].name), field_manager=FIRM, force=True)
            wait_for(lambda cluster=cluster, kind=kinds[0]: is_served(cluster, kind), description=str(kinds[0]))
        for namespace in ("science", "vision", "batch", "ours", "osmo"):
            body = {"metadata": {"name": namespace}}
            cluster.create(resource_kinds.NAMESPACE, body, field_manager=FIRM)
        yield server, log
        cluster.close()


@contextmanager
def running(loop: LeasedLoop) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=loop.run, args=[stop], daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        loop.wake()
        thread.join(30)


def states() -> dict[str, str]:
    """The status of each open piece of observed work, by the name of its object."""
    rows = Workflow.objects.filter(observed__is_open=True)
    return dict(rows.values_list("observed__name", "status"))


def wait_for_states(**wanted: str) -> None:
    expected = {name.replace("_", "-"): status for name, status in wanted.items()}
    wait_for(lambda: states() == expected, seconds=90, description=f"{expected}, not {states()}")


def add_workload(cluster: Cluster) -> None:
    queue = {"metadata": {"name": "lq", "namespace": "batch"}, "spec": {"clusterQueue": "shared.gpus"}}
    cluster.create(LOCAL_QUEUES[0], queue, field_manager=FIRM)
    template = {"spec": {"containers": [{"name": "m", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]}}
    workload = {
        "metadata": {"name": "batch-job", "namespace": "batch"},
        "spec": {"queueName": "lq", "podSets": [{"name": "main", "count": 1, "template": template}]},
    }
    cluster.create(WORKLOADS[0], workload, field_manager=FIRM)


def test_observe_manage_one_pool_and_back(ledger: None, audited: tuple[KubeServer, Path]) -> None:
    server, log = audited
    cluster = server.connect()
    firm = Firm(cluster)
    world.make_user("root", "osmo-admin")
    root = world.call_as("root")
    for node in ("n1", "n2"):
        firm.add_node(node, gpus=8)

    # The observer has an account that reads; the map names the pools of the firm's queues.
    body = {
        "type": "kubernetes", "mode": "observe", "namespace": "osmo",
        "kubeconfig": yaml.safe_dump(server.kubeconfig_body("viewer")),
        "queue_pools": {"dept.science": "science", "shared.gpus": "batch"},
    }  # fmt: skip
    lab = world.apply_change(PutBackend(name="lab", body=body)).row
    for pool in ("science", "vision", "batch"):
        world.make_pool(pool, 4, on=lab)
    observer = ClusterObserver(
        lab.pk,
        intervals=ObserverIntervals(
            round=1, heartbeat=1, recount=1, configuration=0.2, informer_timing=InformerTiming(watch_seconds=20)
        ),
    )
    with running(observer):
        # Look: a PodGroup of KAI, a plain pod, a Workload of Kueue.
        firm.add_pod_group("train", namespace="science", queue="dept.science", pods=2)
        firm.add_pod("notebook", namespace="vision", gpus=1, node="n1")
        add_workload(cluster)
        wait_for_states(train="PENDING", notebook="RUNNING", batch_job="PENDING")
        for name in ("train-0", "train-1"):  # a node is given by a binding only, so its pods come anew
            firm.delete(name, namespace="science")
            firm.add_member("train", name, namespace="science", node="n1")
        wait_for_states(train="RUNNING", notebook="RUNNING", batch_job="PENDING")

        reader = connections.connect_reader(lab)
        assert isinstance(reader, KubernetesReader)
        assert not isinstance(reader, KubernetesCluster)
        assert connection_report(lab).is_ok
        preview_sync(lab)
        sync_backend_queues(lab.pk, manual=True)

        # A start beyond the quota is a difference.
        firm.add_pod("big", namespace="vision", gpus=6, node="n2")
        wait_for(SchedulerDifference.objects.exists, seconds=90, description="the difference")
        difference = SchedulerDifference.objects.select_related("workflow").get()
        assert (difference.kind, difference.rule, difference.workflow.name) == ("started", "never_fits", "big-1")

        # One pool is managed, in a namespace of its own, by an account that may write.
        ours = {"type": "kubernetes", "namespace": "ours", "kubeconfig": server.kubeconfig_text()}
        assert root("PUT", "/api/configs/backend/ours", ours).status == 200
        moved = root("PATCH", "/api/configs/pool/science", {"configs_dict": {"backend": "ours"}})
        assert moved.status == 200, moved.text
        wait_for_states(notebook="RUNNING", batch_job="PENDING", big="RUNNING")
        wait_for(
            lambda: NodeState.objects.get(node__backend=lab, node__name="n1").other_gpus == 2,
            description="its pods are use of others",
        )
        managed = Node.objects.filter(backend__name="ours")
        ours_pk = Backend.objects.get(name="ours").pk
        with running(ClusterAgent(ours_pk)):
            wait_for(lambda: managed.count() == 2, seconds=90, description="the nodes of the managed backend")
            wait_for(lambda: sync_backend_queues(ours_pk, manual=True).synced == QueueSync.Synced.TRUE, seconds=90)
            answer = root.submit("science", world.workflow_file(name="mine"))
            assert root.status == 200, answer
            wait_for(
                lambda: cluster.list(resource_kinds.POD, namespace="ours").items, seconds=90, description="our own pod"
            )
            # Back by a drain; somebody's finalizer keeps our pod for ever.
            (pod,) = cluster.list(resource_kinds.POD, namespace="ours").items
            hold(cluster, pod, [*pod["metadata"]["finalizers"], "firm.example/hold"])
            assert root("PATCH", "/api/configs/pool/science", to("lab")).status == 409, "its work goes on"
            assert (
                root("PATCH", "/api/configs/pool/science", {"configs_dict": {"enable_maintenance": True}}).status == 200
            )
            assert root("POST", "/api/workflow/mine-1/cancel").status == 200
            wait_for(
                lambda: (
                    cluster.get(resource_kinds.POD, pod["metadata"]["name"], namespace="ours")["metadata"]["finalizers"]
                    == ["firm.example/hold"]
                ),
                seconds=90,
                description="the end of our work with the pod",
            )
        back = root("PATCH", "/api/configs/pool/science", to("lab", enable_maintenance=False))
        assert back.status == 200, back.text
        wait_for_states(train="RUNNING", notebook="RUNNING", batch_job="PENDING", big="RUNNING")
        state = ClusterState.objects.filter(backend=lab)
        wait_for(
            lambda: [each["gpus"] for each in state.get().unassigned] == [1],
            description="the pod that does not go is named with its queue",
        )
        hold(cluster, pod, [])
        wait_for(lambda: state.get().unassigned == [], description="it is gone")
        assert ClusterState.objects.get(backend=lab).error == ""
    assert verify() == []

    lines = [json.loads(line) for line in log.read_text().splitlines()]
    asked = Counter(line["verb"] for line in lines if line["user"]["username"] == "viewer")
    assert set(asked) == {"get", "list", "watch"}
    assert any(line["verb"] == "create" for line in lines if line["user"]["username"] != "viewer")
    cluster.close()


def hold(cluster: Cluster, pod: Object, finalizers: list[str]) -> None:
    cluster.merge(
        resource_kinds.POD,
        pod["metadata"]["name"],
        {"metadata": {"finalizers": finalizers}},
        field_manager=FIRM,
        namespace="ours",
    )


def to(backend: str, **more: object) -> dict[str, object]:
    return {"configs_dict": {"backend": backend, **more}}
