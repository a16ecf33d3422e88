"""Nodes of a cluster in the ledger, in `/api/resources` and in the sums of the pools."""

from __future__ import annotations

import json
from typing import Any

from pools.models import AuditEntry, Node
from scheduling.kube import resource_kinds
from scheduling.models import NodeState
from scheduling.selectors.node_resources import list_node_resources
from scheduling.selectors.pool_quota import render_pool_quota
from tests.support import factories
from tests.support.agent_harness import AgentHarness

ALLOCATABLE = {"cpu": "63500m", "memory": "512Gi", "ephemeral-storage": "1Ti", "nvidia.com/gpu": "8"}


def add_node(
    harness: AgentHarness, name: str, *, ready: str = "True", labels: dict[str, str] | None = None, **spec: Any
) -> None:
    body = {"metadata": {"name": name, "labels": labels or {}}, "spec": spec}
    harness.cluster.create(resource_kinds.NODE, body, field_manager="kubelet")
    conditions = [{"type": "Ready", "status": ready, "reason": "KubeletReady"}]
    status = {"status": {"allocatable": ALLOCATABLE, "conditions": conditions}}
    harness.cluster.merge(resource_kinds.NODE, name, status, field_manager="kubelet", status=True)


def add_foreign_pod(harness: AgentHarness, name: str, node: str, gpus: int) -> None:
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}, "requests": {"cpu": "1500m", "memory": "1Gi"}}
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "i", "resources": resources}]}
    body = {"metadata": {"name": name, "namespace": harness.backend.namespace}, "spec": spec}
    harness.cluster.create(resource_kinds.POD, body, field_manager="somebody")


def usage(pool: str) -> dict[str, str]:
    (row,) = [
        row
        for nodes in json.loads(render_pool_quota(factories.admin_actor()))["node_sets"]
        for row in nodes["pools"]
        if row["name"] == pool
    ]
    return dict(row["resource_usage"])


def entry(node: str) -> dict[str, Any]:
    (found,) = list_node_resources(factories.admin_actor(), node=node)
    return found


def test_nodes_come_change_and_go(harness: AgentHarness) -> None:
    mine, other = harness.backend.namespace + "-n1", harness.backend.namespace + "-n2"
    add_node(harness, mine)
    add_node(harness, other, labels={"osmo.platform": "h100"})
    harness.run_agent(1)
    rows = Node.objects.filter(backend=harness.backend, name__in=[mine, other])
    assert list(rows.values_list("name", "platform", "gpus", "cpu", "memory_bytes")) == [
        (mine, "default", 8, 63, 512 * 2**30),
        (other, "h100", 8, 63, 512 * 2**30),
    ]
    entries_before = AuditEntry.objects.filter(action="node.created").count()
    harness.run_agent(2)
    assert AuditEntry.objects.filter(action="node.created").count() == entries_before
    harness.cluster.merge(
        resource_kinds.NODE, mine, {"status": {"allocatable": {"nvidia.com/gpu": "7"}}}, field_manager="k", status=True
    )
    harness.cluster.delete(resource_kinds.NODE, other)
    harness.run_agent(1)
    assert list(rows.values_list("name", "gpus")) == [(mine, 7)]
    harness.cluster.delete(resource_kinds.NODE, mine)


def test_capacity_and_free_amounts_of_nodes(fake_harness: AgentHarness) -> None:
    add_node(fake_harness, "n1")
    add_node(fake_harness, "n2")
    add_foreign_pod(fake_harness, "a-service", "n1", 3)
    workflow = fake_harness.submit(gpus=2)
    fake_harness.run_agent()
    (pod,) = fake_harness.list_pods(workflow)
    name = pod["metadata"]["name"]
    fake_harness.cluster.merge(
        resource_kinds.POD, name, {"spec": {"nodeName": "n1"}}, field_manager="kai", namespace="osmo"
    )
    fake_harness.run_pods(pod)
    fake_harness.run_agent()
    assert (usage("team")["total_capacity"], usage("team")["total_free"]) == ("16", "11")
    assert (usage("team")["quota_used"], usage("team")["total_usage"]) == ("2", "2")
    found = entry("n1")
    assert found["usage_fields"]["gpu"] == "2"
    assert found["non_workflow_usage_fields"] == {
        "nvidia.com/gpu": "3", "cpu": "2", "memory": "1Gi", "ephemeral-storage": "0",
    }  # fmt: skip
    fields = {name: found[name]["team"]["default"]["gpu"] for name in found if name.startswith("platform_a")}
    assert fields == {"platform_allocatable_fields": "8", "platform_available_fields": "3"}
    assert found["platform_workflow_allocatable_fields"]["team"]["default"]["gpu"] == "5"
    assert (found["conditions"], found["backend"]) == (["Ready"], "lab")


def test_an_unschedulable_node_has_nothing_free(fake_harness: AgentHarness) -> None:
    add_node(fake_harness, "well")
    add_node(fake_harness, "sick", ready="Unknown")
    add_node(fake_harness, "kept-clear", unschedulable=True, taints=[{"key": "maintenance", "effect": "NoSchedule"}])
    add_foreign_pod(fake_harness, "still-there", "kept-clear", 5)
    fake_harness.run_agent()
    assert (usage("team")["total_capacity"], usage("team")["total_free"]) == ("13", "8")
    assert entry("kept-clear")["conditions"] == ["Ready", "SchedulingDisabled"]
    assert entry("kept-clear")["taints"] == [{"key": "maintenance", "effect": "NoSchedule"}]
    assert entry("sick")["conditions"] == []


def test_without_the_right_to_list_foreign_pods_the_nodes_are_known(fake_harness: AgentHarness) -> None:
    """With the rights of one namespace we can list its pods and the nodes, but no pods of other namespaces."""
    from scheduling.kube import errors
    from scheduling.services.kubernetes.agent import AgentIntervals, ClusterAgent

    add_node(fake_harness, "n1")
    add_foreign_pod(fake_harness, "unseen", "n1", 3)

    class Narrow:
        def __getattr__(self, name: str) -> Any:
            return getattr(fake_harness.cluster, name)

        def list(self, kind: Any, *, namespace: str | None = None, **more: Any) -> Any:
            if kind == resource_kinds.POD and namespace is None:
                raise errors.AccessDenied("pods is forbidden", status=403)
            return fake_harness.cluster.list(kind, namespace=namespace, **more)

    narrow = Narrow()
    agent = ClusterAgent(fake_harness.backend.pk, connect=lambda _: narrow, intervals=AgentIntervals(recount=0))  # type: ignore[arg-type, return-value]
    agent.relist_and_reconcile()
    assert NodeState.objects.get().other_gpus == 0
    assert Node.objects.get().gpus == 8
