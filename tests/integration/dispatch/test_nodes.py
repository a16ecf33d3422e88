"""Nodes of a cluster in the ledger, in `/api/resources` and in the sums of the pools."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from django.urls import reverse

from osmo_admin.monitoring.work_metrics import _collect_capacity
from pools.domain.changes.backends import PutBackend
from pools.domain.people.roles import Actor
from pools.domain.quota.capacity import BackendCapacity
from pools.models import AuditEntry, Backend, KubernetesSettings, Node, Pool
from pools.selectors.quotas.backend_capacity import oversubscription_warning, read_capacities
from scheduling.kube.connection import resource_kinds
from scheduling.models import NodeState
from scheduling.selectors.cluster.node_map import MappedNode, read_node_map
from scheduling.selectors.cluster.node_resources import list_node_resources
from scheduling.selectors.cluster.nodes import gpus_of_nodes, read_node_usage, usable_and_excess_gpus
from scheduling.selectors.cluster.pool_quota import render_pool_quota
from scheduling.selectors.queue.pending_queue import build_pending_queue
from scheduling.selectors.status.overview import read_overview
from scheduling.services.kubernetes.agent import AgentIntervals, ClusterAgent
from scheduling.services.workflows.submission import Submission, submit
from tests.support import world
from tests.support.agent_harness import AgentHarness, gang_file, kubernetes_backend
from tests.support.fake_cluster import FakeCluster
from tests.support.kube_server import with_a_real_one
from tests.support.world import sign_in

ZERO = {"gpu": "0", "cpu": "0", "memory": "0", "storage": "0"}
ALLOCATABLE = {"cpu": "63500m", "memory": "512Gi", "ephemeral-storage": "1Ti", "nvidia.com/gpu": "8"}


def add_node(
    harness: AgentHarness, name: str, *, ready: str = "True", labels: dict[str, str] | None = None, **spec: Any
) -> None:
    body = {"metadata": {"name": name, "labels": labels or {}}, "spec": spec}
    harness.cluster.create(resource_kinds.NODE, body, field_manager="kubelet")
    conditions = [{"type": "Ready", "status": ready, "reason": "KubeletReady"}]
    status = {"status": {"allocatable": ALLOCATABLE, "conditions": conditions}}
    harness.cluster.merge(resource_kinds.NODE, name, status, field_manager="kubelet", status=True)


def add_foreign_pod(harness: AgentHarness, name: str, node: str, gpus: int, **more: Any) -> None:
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}, "requests": {"cpu": "1500m", "memory": "1Gi"}}
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "i", "resources": resources}], **more}
    body = {"metadata": {"name": name, "namespace": harness.backend.namespace}, "spec": spec}
    harness.cluster.create(resource_kinds.POD, body, field_manager="somebody")


def offer(harness: AgentHarness, name: str, **amounts: str) -> None:
    """Change what a node offers to pods; `/` and `.` of a resource are written as keys of a dict."""
    harness.cluster.merge(
        resource_kinds.NODE, name, {"status": {"allocatable": amounts}}, field_manager="kubelet", status=True
    )


def shown_nodes(backend: str = "lab") -> dict[str, MappedNode]:
    """The nodes as the map shows them, by name."""
    found = read_node_map(world.admin_actor(), backend, name="", free=0, limit=100, offset=0)
    return {node.usage.name: node for node in found.nodes}


def usage(pool: str) -> dict[str, str]:
    (row,) = [
        row
        for nodes in json.loads(render_pool_quota(world.admin_actor()))["node_sets"]
        for row in nodes["pools"]
        if row["name"] == pool
    ]
    return dict(row["resource_usage"])


def entry(node: str) -> dict[str, Any]:
    (found,) = list_node_resources(world.admin_actor(), node=node)
    return found


@with_a_real_one("harness")
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


def test_nodes_of_a_cluster_follow_their_labels_and_the_flavors(fake_harness: AgentHarness) -> None:
    def kinds() -> dict[str, str]:
        return dict(Node.objects.filter(backend=fake_harness.backend).values_list("name", "flavor"))

    add_node(fake_harness, "n1", labels={"product": "H100"})
    add_node(fake_harness, "n2", labels={"product": "A100", "zone": "b"})
    fake_harness.run_agent(1)
    assert kinds() == {"n1": "default", "n2": "default"}
    flavors = [{"name": name.lower(), "node_labels": {"product": name}} for name in ("H100", "A100")]
    near = {"name": "near", "node_labels": {"zone": "b"}}
    put = PutBackend(name="lab", body={"flavors": [*flavors, near]})
    assert "1 node (n2) matches the flavors a100, near: a100 counts, the first of them." in (
        world.apply_change(put).warnings
    )
    assert kinds() == {"n1": "h100", "n2": "a100"}
    fake_harness.run_agent(1)
    labels = {"metadata": {"labels": {"product": "A100"}}}
    fake_harness.cluster.merge(resource_kinds.NODE, "n1", labels, field_manager="gfd")
    fake_harness.run_agent(1)
    assert kinds() == {"n1": "a100", "n2": "a100"}
    assert AuditEntry.objects.filter(object="node/n1").latest("id").after["flavor"] == "a100"
    assert shown_nodes()["n2"].usage.notes[-1].startswith("matches the flavors a100, near")
    world.apply_change(PutBackend(name="lab", body={"flavors": [near]}))
    assert kinds() == {"n1": "default", "n2": "near"}


def test_capacity_and_free_amounts_of_nodes(fake_harness: AgentHarness) -> None:
    add_node(fake_harness, "n1")
    add_node(fake_harness, "n2")
    add_foreign_pod(fake_harness, "a-service", "n1", 3)
    workflow = fake_harness.submit(gpus=2)
    fake_harness.run_agent()
    (pod,) = fake_harness.list_pods(workflow)
    fake_harness.bind_pod(pod, "n1")
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


@with_a_real_one("harness")
def test_a_shard_has_its_own_nodes_only(harness: AgentHarness) -> None:
    """KAI's shard without a name takes nodes without the label, another shard those with its name. A change of the
    label and of the setting is followed."""
    prefix = harness.backend.namespace
    plain, other, moved = f"{prefix}-plain", f"{prefix}-other", f"{prefix}-moved"
    mine = [plain, other, moved]

    def own_nodes(backend: Backend) -> list[str]:
        return list(Node.objects.filter(backend=backend, name__in=mine).order_by("name").values_list("name", flat=True))

    add_node(harness, plain)
    add_node(harness, other, labels={"kai.scheduler/node-pool": "other-shard"})
    add_node(harness, moved)
    sharded = kubernetes_backend(f"{prefix}-b", "sharded")
    KubernetesSettings.objects.filter(backend=sharded).update(node_pool="other-shard")
    agent = ClusterAgent(sharded.pk, connect=lambda _: harness.cluster, intervals=AgentIntervals(recount=0))
    harness.run_agent(1)
    agent.relist_and_reconcile()
    assert (own_nodes(harness.backend), own_nodes(sharded)) == ([moved, plain], [other])
    label = {"metadata": {"labels": {"kai.scheduler/node-pool": "other-shard"}}}
    harness.cluster.merge(resource_kinds.NODE, moved, label, field_manager="admin")
    harness.run_agent(1)
    agent.relist_and_reconcile()
    assert (own_nodes(harness.backend), own_nodes(sharded)) == ([plain], [moved, other])
    KubernetesSettings.objects.filter(backend=sharded).update(node_pool="", node_pool_key="other/key")
    ClusterAgent(
        sharded.pk, connect=lambda _: harness.cluster, intervals=AgentIntervals(recount=0)
    ).relist_and_reconcile()
    assert own_nodes(sharded) == sorted(mine)
    for name in mine:
        harness.cluster.delete(resource_kinds.NODE, name)


def test_a_change_of_the_shard_needs_no_restart(fake_harness: AgentHarness) -> None:
    add_node(fake_harness, "plain")
    add_node(fake_harness, "other", labels={"kai.scheduler/node-pool": "other-shard"})
    fake_harness.agent = ClusterAgent(
        fake_harness.backend.pk,
        connect=lambda _: fake_harness.cluster,
        intervals=AgentIntervals(recount=0, configuration=0),
    )
    fake_harness.run_agent(1)
    assert usage("team")["total_capacity"] == "8"
    assert list(shown_nodes()) == ["plain"]
    KubernetesSettings.objects.update(node_pool="other-shard")
    fake_harness.run_agent(1)
    assert list(shown_nodes()) == ["other"]


def test_a_node_with_a_taint_is_no_capacity_where_promises_are_compared(fake_harness: AgentHarness) -> None:
    """Two nodes of 8 promise 16; the taint of one keeps our pods away, so each place says that 8 are too many. A node
    that is cordoned or not ready for a while stays capacity."""
    backend, actor = fake_harness.backend, world.admin_actor()
    Pool.objects.filter(backend=backend).update(guarantee=16)
    taint = {"key": "dedicated", "value": "teamx", "effect": "NoSchedule"}
    unready = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
    add_node(fake_harness, "n1", unschedulable=True)
    add_node(fake_harness, "n2", ready="False", taints=[unready])
    fake_harness.run_agent(1)
    assert (read_capacities([backend.pk])[backend.pk].gpus, _warnings(actor, _of(backend))) == (16, [])
    fake_harness.cluster.merge(resource_kinds.NODE, "n2", {"spec": {"taints": [unready, taint]}}, field_manager="admin")
    fake_harness.run_agent(1)
    assert Node.objects.get(backend=backend, name="n2").taint == "dedicated=teamx"
    sentence = (
        "Cluster lab has 8 GPUs (and 8 on nodes whose taint keeps our pods away), and the quotas of its pools are 16 "
        "together, 8 more: guaranteed work may wait for a node although its quota is free. Lower a quota, or add nodes."
    )
    assert _warnings(actor, _of(backend)) == [sentence]
    # The other node is cordoned, so nothing can start now.
    now = f"Now {fake_harness.pool.name} can have 0 of its 16. {sentence}"
    assert [each.message for each in read_overview(actor).problems if each.code == "oversubscribed"] == [now]
    client = sign_in("root-admin")
    for page in ("pools_pool_changelist", "pools_backend_changelist"):
        text = client.get(reverse(f"admin:{page}")).content.decode()
        assert ("8 too many" if "backend" in page else "and 8 on nodes whose taint") in text
    (capacity,) = [
        sample.value for metric in _collect_capacity() for sample in metric.samples
        if sample.name == "osmo_backend_capacity_gpus" and sample.labels["backend"] == "lab"
    ]  # fmt: skip
    assert capacity == 8
    workflow = fake_harness.submit(gpus=16)
    (waiting,) = build_pending_queue(backend).gangs
    assert (waiting.ownership.workflow, waiting.reason.code) == (workflow.name, "never_fits")
    assert waiting.reason.message.endswith("empty. The largest node that it may use has 8 GPUs.")
    fake_harness.cluster.merge(resource_kinds.NODE, "n1", {"spec": {"taints": [taint]}}, field_manager="admin")
    fake_harness.run_agent(1)
    fake_harness.submit(gpus=8)
    reasons = [waiting.reason for waiting in build_pending_queue(backend).gangs]
    sentence = "It asks for 8 GPUs; by the taint dedicated=teamx it may not use n1 and n2, where it would fit. "
    assert f"{sentence}It may use no node." in [reason.message for reason in reasons]
    fake_harness.cluster.merge(resource_kinds.NODE, "n2", {"spec": {"taints": [unready]}}, field_manager="admin")
    fake_harness.cluster.merge(resource_kinds.NODE, "n1", {"spec": {"taints": []}}, field_manager="admin")
    fake_harness.run_agent(1)
    assert _warnings(actor, _of(backend)) == []


def test_a_required_topology_level_that_no_nodes_meet_is_reported(fake_harness: AgentHarness) -> None:
    """Two tasks of 8 GPUs in one rack, and each rack has one node: the submission warns, and the queue says why."""
    for name in ("r1", "r2"):
        add_node(fake_harness, name, labels={"example.com/rack": name})
    fake_harness.run_agent(1)
    fake_harness.pool.config["topology_keys"] = [{"key": "rack", "label": "example.com/rack"}]
    fake_harness.pool.save()
    file = gang_file("lead", "other", gpus=8).replace(
        "gpu: 8", "gpu: 8, topology: [{key: rack, requirementType: required}]"
    )
    sentence = (
        "It asks for 16 GPUs; by its required topology key rack (label example.com/rack) 2 tasks need nodes with one "
        "value, and none of its 2 values has enough; without that it would fit."
    )
    receipt = submit(actor=world.admin_actor(), pool="team", submission=Submission(file=file))
    assert [sentence in warning for warning in receipt.warnings] == [True]
    (waiting,) = build_pending_queue(fake_harness.backend).gangs
    assert (waiting.reason.code, waiting.reason.message) == ("never_fits", sentence)
    NodeState.objects.filter(node__backend=fake_harness.backend).update(labels={"example.com/rack": "one"})
    assert build_pending_queue(fake_harness.backend).gangs[0].reason.code == "waiting_for_cluster"


def _warnings(actor: Actor, capacities: Iterable[BackendCapacity]) -> list[str]:
    return [oversubscription_warning(actor, each) for each in capacities if each.is_oversubscribed]


def _of(backend: Backend) -> list[BackendCapacity]:
    return list(read_capacities([backend.pk]).values())


def test_a_taint_of_gpus_keeps_out_only_work_without_gpus(fake_harness: AgentHarness) -> None:
    add_node(fake_harness, "n1", taints=[{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}])
    fake_harness.run_agent(1)
    node = shown_nodes()["n1"]
    assert (node.usage.free_gpus, list(node.usage.notes)) == (
        8,
        ["taint nvidia.com/gpu=present: only our pods with GPUs start here"],
    )


def test_what_a_node_offers_besides_whole_gpus_is_said(fake_harness: AgentHarness) -> None:
    """The answer of the API, the page of the nodes and that of the node carry the same notes."""
    add_node(fake_harness, "shared", labels={"nvidia.com/gpu.count": "1", "nvidia.com/gpu.replicas": "8"})
    add_node(fake_harness, "parts")
    offer(fake_harness, "parts", **{"nvidia.com/mig-1g.5gb": "7", "nvidia.com/gpu": "0"})
    add_node(fake_harness, "claimed")
    add_foreign_pod(fake_harness, "by-claim", "claimed", 0, resourceClaims=[{"name": "gpu"}])
    assert isinstance(fake_harness.cluster, FakeCluster)
    fake_harness.cluster.install_kinds(resource_kinds.DEVICE_LIST)
    devices = {"nodeName": "claimed", "driver": "gpu.nvidia.com", "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]}
    body = {"metadata": {"name": "claimed-gpus"}, "spec": devices}
    fake_harness.cluster.create(resource_kinds.DEVICE_LIST, body, field_manager="driver")
    fake_harness.run_agent(2)
    nodes = shown_nodes()
    (note,) = nodes["shared"].usage.notes
    assert note.startswith("1 GPU, advertised as 8 (shared by time slicing): parts are not whole GPUs")
    assert list(nodes["parts"].usage.notes) == [
        "7 nvidia.com/mig-1g.5gb: not counted, and our work cannot ask for them"
    ]
    assert list(nodes["claimed"].usage.notes) == [
        "2 devices of gpu.nvidia.com in ResourceSlices: not counted, and our work cannot ask for them",
        "1 other pod holds devices by ResourceClaims, which are not counted",
    ]
    client = sign_in(world.admin_actor().username)
    body = client.get("/api/backend/lab/nodes").json()
    assert {node["name"]: node["notes"] for node in body["nodes"]} == {
        name: list(node.usage.notes) for name, node in nodes.items()
    }
    assert {each["hostname"]: each["notes"] for each in client.get("/api/resources").json()["resources"]} == {
        name: list(node.usage.notes) for name, node in nodes.items()
    }
    for address in ("/nodes?backend=lab", "/nodes/lab/parts"):
        assert "7 nvidia.com/mig-1g.5gb: not counted" in client.get(address).content.decode()


def test_gpus_of_other_pods_by_claims_are_in_use(fake_harness: AgentHarness) -> None:
    """The device plugin of the node does not know of claims, so it offers all of its GPUs."""
    add_node(fake_harness, "claimed")
    assert isinstance(fake_harness.cluster, FakeCluster)
    fake_harness.cluster.install_kinds(resource_kinds.DEVICE_LIST, resource_kinds.DEVICE_CLAIM)
    names = [f"gpu-{number}" for number in range(8)]
    devices = [{"name": name, "attributes": {"type": {"string": "gpu"}}} for name in names]
    spec = {"nodeName": "claimed", "driver": "gpu.nvidia.com", "devices": devices}
    fake_harness.cluster.create(
        resource_kinds.DEVICE_LIST, {"metadata": {"name": "gpus"}, "spec": spec}, field_manager="driver"
    )
    place = fake_harness.backend.namespace
    body: dict[str, Any] = {"metadata": {"name": "two", "namespace": place}, "spec": {}}
    fake_harness.cluster.create(resource_kinds.DEVICE_CLAIM, body, field_manager="somebody")
    results = [{"driver": "gpu.nvidia.com", "pool": "claimed", "device": name} for name in names[:2]]
    status = {"status": {"allocation": {"devices": {"results": results}}}}
    fake_harness.cluster.merge(
        resource_kinds.DEVICE_CLAIM, "two", status, field_manager="scheduler", namespace=place, status=True
    )
    claims = [{"name": "gpus", "resourceClaimName": "two"}]
    add_foreign_pod(fake_harness, "by-claim", "claimed", 0, resourceClaims=claims)
    fake_harness.run_agent(2)
    use = shown_nodes()["claimed"].usage
    assert (use.gpus, use.other_gpus, use.free_gpus) == (8, 2, 6)
    assert "1 other pod holds 2 GPUs of gpu.nvidia.com by ResourceClaims" in use.notes
    assert (usage("team")["total_capacity"], usage("team")["total_free"]) == ("8", "6")


SHARED = {"nvidia.com/gpu.count": "1", "nvidia.com/gpu.replicas": "8", "nvidia.com/gpu.product": "L4-SHARED"}


def test_a_node_that_shares_its_gpus_has_no_whole_ones(fake_harness: AgentHarness) -> None:
    """Its parts are in no sum of whole GPUs, work with GPUs keeps away from it, and each place says both numbers."""
    backend, actor = fake_harness.backend, world.admin_actor()
    add_node(fake_harness, "parts", labels=SHARED)
    add_node(fake_harness, "whole", labels={"nvidia.com/gpu.product": "L4"})
    add_foreign_pod(fake_harness, "notebook", "parts", 5)
    fake_harness.run_agent(2)
    assert (usage("team")["total_capacity"], usage("team")["total_free"]) == ("8", "8")
    assert read_capacities([backend.pk])[backend.pk].gpus == 8
    assert entry("parts")["platform_available_fields"]["team"]["default"]["gpu"] == "0"
    assert entry("parts")["non_workflow_usage_fields"]["nvidia.com/gpu"] == "0"
    client = sign_in(world.admin_actor().username)
    body = client.get("/api/backend/lab/nodes").json()
    assert {node["name"]: (node["gpus"], node["free"], node["shared"]) for node in body["nodes"]} == {
        "parts": (0, 0, {"physical": 1, "advertised": 8}),
        "whole": (8, 8, None),
    }
    assert [(fit["gpus"], fit["tasks"]) for fit in body["fits"]] == [(1, 8), (2, 4), (4, 2), (8, 1)]
    page = client.get("/nodes/lab/parts").content.decode()
    assert "1 physical, 8 advertised, 0 counted" in page
    assert "parts: shared; 0 of 0 GPUs free" in client.get("/nodes?backend=lab").content.decode()
    assert "8 parts not counted" in client.get(reverse("admin:pools_backend_changelist")).content.decode()
    # A pod with GPUs avoids the product; one without may use the node's CPUs.
    fake_harness.submit(gpus=16)
    assert build_pending_queue(backend).gangs[0].reason.code == "never_fits"
    workflow, plain = fake_harness.submit(gpus=1), fake_harness.submit(gpus=0)
    fake_harness.run_agent()
    (pod,), (other,) = fake_harness.list_pods(workflow), fake_harness.list_pods(plain)
    avoided = {"key": "nvidia.com/gpu.product", "operator": "NotIn", "values": ["L4-SHARED"]}
    for each, is_avoided in ((pod, True), (other, False)):
        terms = each["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert [avoided in term["matchExpressions"] for term in terms["nodeSelectorTerms"]] == [is_avoided] * 2
    (warning,) = _warnings(actor, _of(backend))
    assert "Cluster lab has 8 GPUs (and 8 parts of GPUs on nodes that share them), and" in warning


def test_work_that_fits_on_parts_alone_hears_why_it_waits(fake_harness: AgentHarness) -> None:
    add_node(fake_harness, "parts", labels=SHARED)
    fake_harness.run_agent(1)
    receipt = submit(actor=world.admin_actor(), pool="team", submission=Submission(file=gang_file("lead", gpus=2)))
    sentence = "The largest node that it may use has 0 GPUs. parts shares GPUs, whose parts are not counted."
    assert [sentence in warning for warning in receipt.warnings] == [True]
    (waiting,) = build_pending_queue(fake_harness.backend).gangs
    assert (waiting.reason.code, sentence in waiting.reason.message) == ("never_fits", True)


def test_a_node_that_begins_to_share_keeps_what_runs_there(fake_harness: AgentHarness) -> None:
    """Work that ran on its whole GPUs holds them, nothing is said to be more than there is, and no GPU of another node
    is taken for it. By its label, each part counts as a whole GPU, as before."""
    add_node(fake_harness, "n1")
    add_node(fake_harness, "n2")
    workflow = fake_harness.submit(gpus=4)
    fake_harness.run_agent()
    (pod,) = fake_harness.list_pods(workflow)
    add_foreign_pod(fake_harness, "a-service", "n1", 4)
    fake_harness.bind_pod(pod, "n1")
    fake_harness.run_pods(pod)
    fake_harness.run_agent()
    assert usage("team")["total_free"] == "8"
    labels = SHARED | {"nvidia.com/gpu.count": "8"}
    fake_harness.cluster.merge(resource_kinds.NODE, "n1", {"metadata": {"labels": labels}}, field_manager="gfd")
    offer(fake_harness, "n1", **{"nvidia.com/gpu": "64"})
    fake_harness.run_agent(2)
    assert (usage("team")["total_capacity"], usage("team")["total_free"]) == ("8", "8")
    assert usage("team")["quota_used"] == "4"
    use = shown_nodes()["n1"].usage
    assert (use.gpus, use.used_gpus, use.other_gpus, use.overfull, use.advertised_gpus) == (0, 4, 0, "", 64)
    assert (
        usable_and_excess_gpus()[fake_harness.backend.pk]
        == gpus_of_nodes(read_node_usage())[fake_harness.backend.pk]
        == ({"default": {"default": 8}}, 0)
    )
    whole = {"metadata": {"labels": {"osmo.shared-gpus": "whole"}}}
    fake_harness.cluster.merge(resource_kinds.NODE, "n1", whole, field_manager="admin")
    fake_harness.run_agent(2)
    assert (usage("team")["total_capacity"], usage("team")["total_free"]) == ("72", "64")
    assert (shown_nodes()["n1"].usage.free_gpus, shown_nodes()["n1"].usage.advertised_gpus) == (56, 64)


def test_without_the_right_to_list_foreign_pods_the_nodes_are_known(fake_harness: AgentHarness) -> None:
    """With the rights of one namespace we can list its pods and the nodes, but no pods of other namespaces."""
    from scheduling.kube.connection import errors

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
