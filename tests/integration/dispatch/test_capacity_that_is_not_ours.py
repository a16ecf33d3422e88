"""On a real API server: capacity that our work will not get is in no number, and each node says why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from pools.domain.changes.backends import PutBackend
from pools.models import KubernetesSettings
from scheduling.domain.kubernetes_json import Object
from scheduling.kube.connection import errors, resource_kinds
from scheduling.kube.connection.port import ResourceKind
from tests.integration.dispatch.test_ending_pods import hold_open
from tests.integration.dispatch.test_nodes import ZERO, add_node, entry, shown_nodes, usage
from tests.support import world
from tests.support.agent_harness import AgentHarness
from tests.support.kube_server import KubeNamespace, create_namespace

pytestmark = [pytest.mark.k8s, pytest.mark.django_db]
SOMEBODY = "somebody"


class RealCluster(AgentHarness):
    """The harness on a real API server, with nodes and foreign pods that it makes and removes. The backend is a shard
    of its own there, because tests share the server."""

    nodes: list[str]

    def node(self, short: str, *, offers: Mapping[str, str] | None = None, **more: Any) -> str:
        """A node of 8 GPUs that also `offers` these amounts."""
        name = f"{self.backend.namespace}-{short}"
        labels = {"kai.scheduler/node-pool": self.backend.namespace} | more.pop("labels", {})
        add_node(self, name, labels=labels, **more)
        self.nodes.append(name)
        if offers:
            status = {"allocatable": dict(offers), "capacity": dict(offers)}
            self.cluster.merge(resource_kinds.NODE, name, {"status": status}, field_manager="kubelet", status=True)
        return name

    def foreign_pod(self, name: str, node: str, *, namespace: str = "", annotations: Any = None, **spec: Any) -> Object:
        """A pod that somebody gave its node by hand, as a DaemonSet's old controller and a static pod have it; no
        scheduler sees it."""
        place = namespace or self.backend.namespace
        container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "4"}}}
        body = {
            "metadata": {"name": name, "namespace": place, "annotations": annotations or {}},
            "spec": {"nodeName": node, "containers": [container], **spec},
        }
        return self.cluster.create(resource_kinds.POD, body, field_manager=SOMEBODY)

    def count(self) -> None:
        """Two rounds of the agent, the second with the use by foreign pods."""
        self.run_agent(2)

    def numbers(self, node: str) -> tuple[int, int, int]:
        """GPUs, other and free of a node."""
        use = shown_nodes()[node].usage
        return use.gpus, use.other_gpus, use.free_gpus

    def notes(self, node: str) -> str:
        return "; ".join(shown_nodes()[node].usage.notes)


@pytest.fixture
def real(kube: KubeNamespace) -> Iterator[RealCluster]:
    harness = RealCluster.make(kube.cluster, kube.namespace)
    assert isinstance(harness, RealCluster)
    harness.nodes = []
    KubernetesSettings.objects.filter(backend=harness.backend).update(node_pool=kube.namespace)
    yield harness
    for name in harness.nodes:
        try:
            harness.cluster.merge(resource_kinds.NODE, name, {"metadata": {"finalizers": []}}, field_manager=SOMEBODY)
            harness.cluster.delete(resource_kinds.NODE, name)
        except errors.ObjectNotFound:
            continue


def test_a_node_that_shrinks_below_its_work_takes_nothing_from_others(real: RealCluster) -> None:
    """A node of 8 GPUs in use has 7 now: nothing is negative, and the free GPUs of the other node stay free."""
    full, other = real.node("full"), real.node("other")
    workflow = real.submit(gpus=8)
    real.run_agent()
    (pod,) = real.list_pods(workflow)
    _bind(real, pod, full)
    real.run_pods(pod)
    real.foreign_pod("half", other)
    status = {"status": {"allocatable": {"nvidia.com/gpu": "7"}}}
    real.cluster.merge(resource_kinds.NODE, full, status, field_manager="kubelet", status=True)
    real.count()
    assert entry(full)["platform_available_fields"]["team"]["default"]["gpu"] == "0"
    assert (usage("team")["total_capacity"], usage("team")["total_free"]) == ("15", "4")
    assert real.numbers(full) == (7, 0, 0)


def test_a_taint_leaves_nothing_free(real: RealCluster) -> None:
    """A soft one, and one that Kubernetes sets for a while, are not said."""
    soft = [
        {"key": "soft", "effect": "PreferNoSchedule"},
        {"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"},
    ]
    for effect in ("NoSchedule", "NoExecute"):
        taints = [{"key": "dedicated", "value": "teamx", "effect": effect}, *soft]
        name = real.node(effect.lower(), taints=taints)
        real.count()
        assert real.numbers(name) == (8, 0, 0)
        assert real.notes(name) == "taint dedicated=teamx: our pods do not start here"
        assert entry(name)["platform_available_fields"] == {"team": {"default": {**ZERO}}}
    assert usage("team")["total_free"] == "0"


def test_a_node_that_is_being_deleted_has_nothing_free(real: RealCluster) -> None:
    """An autoscaler holds a node by a finalizer until its pods are gone."""
    name = real.node("leaving")
    finalizer = {"metadata": {"finalizers": ["example.org/termination"]}}
    real.cluster.merge(resource_kinds.NODE, name, finalizer, field_manager="autoscaler")
    real.cluster.delete(resource_kinds.NODE, name)
    real.count()
    assert real.numbers(name) == (8, 0, 0)
    assert real.notes(name) == "the node is being deleted"


SHARED_LABELS = {"nvidia.com/gpu.count": "4", "nvidia.com/gpu.replicas": "8", "nvidia.com/gpu.product": "A100-SHARED"}


def test_a_node_that_offers_something_else_says_so(real: RealCluster) -> None:
    expected: dict[str, tuple[tuple[int, int], str]] = {}
    for number, (labels, offers, numbers, note) in enumerate((
        (SHARED_LABELS, {"nvidia.com/gpu": "32"}, (0, 0), "4 GPUs, advertised as 32 (shared by time slicing)"),
        (SHARED_LABELS, {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "32"}, (0, 0), "32 nvidia.com/gpu.shared"),
        ({}, {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.5gb": "7"}, (0, 0), "7 nvidia.com/mig-1g.5gb: not counted"),
        ({}, {"nvidia.com/gpu": "0", "amd.com/gpu": "8"}, (0, 0), "8 amd.com/gpu: not counted"),
        ({}, {"gpu.intel.com/i915": "2"}, (8, 8), "2 gpu.intel.com/i915: not counted, and our work cannot ask for"),
    )):  # fmt: skip
        expected[real.node(f"odd{number}", labels=labels, offers=offers)] = numbers, note
    real.count()
    for name, (numbers, note) in expected.items():
        gpus, _, free = real.numbers(name)
        assert (gpus, free) == numbers, note
        assert note in real.notes(name)


def test_parts_of_gpus_count_in_a_flavor_of_their_own_alone(real: RealCluster) -> None:
    parts, whole = real.node("parts", labels=SHARED_LABELS, offers={"nvidia.com/gpu": "32"}), real.node("whole")
    part = {"name": "part", "node_labels": {"nvidia.com/gpu.product": "A100-SHARED"}}
    world.apply_change(PutBackend(name=real.backend.name, body={"flavors": [part]}))
    real.count()
    assert (real.numbers(parts), real.numbers(whole)) == ((32, 0, 32), (8, 0, 8))
    assert "each part counts in the flavor part" in real.notes(parts)
    client = world.sign_in(world.admin_actor().username)
    flavors = client.get(f"/api/backend/{real.backend.name}/nodes").json()["flavors"]
    assert [(each["flavor"], each["gpus"], each.get("shared")) for each in flavors] == [
        ("part", 32, True), ("default", 8, None)
    ]  # fmt: skip
    assert "part</a> (parts of shared GPUs)" in client.get(f"/nodes?backend={real.backend.name}").content.decode()
    assert usage("team")["total_capacity"] == "8", "its quota is in whole GPUs"


def test_a_pod_with_a_resource_claim_is_named_where_the_server_has_no_claims(real: RealCluster) -> None:
    """It is refused to our work; where the claims can be listed, their GPUs are in use (`test_nodes`)."""
    name = real.node("claimed")
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "gpus"}]}}
    claims = [{"name": "gpus", "resourceClaimTemplateName": "two"}]
    real.foreign_pod("by-claim", name, resourceClaims=claims, containers=[container])
    real.count()
    assert real.numbers(name) == (8, 0, 8)
    assert real.notes(name) == "1 other pod holds devices by ResourceClaims, which are not counted"


def _container(name: str, cpu: str, **more: Any) -> Object:
    return {"name": name, "image": "i", "resources": {"requests": {"cpu": cpu}}, **more}


def test_the_request_of_a_foreign_pod_is_the_one_of_kubernetes(real: RealCluster) -> None:
    """Init containers in their order, those that stay, requests of the pod itself; the server adds its defaults."""
    sidecar, init = _container("sidecar", "1", restartPolicy="Always"), _container("init", "4")
    main = [_container("main", "2")]
    limited = {"name": "main", "image": "i", "resources": {"limits": {"cpu": "3"}}}
    specs: tuple[tuple[dict[str, Any], int], ...] = (
        ({"initContainers": [sidecar, init], "containers": main}, 5),
        ({"initContainers": [init], "containers": main}, 4),
        ({"initContainers": [sidecar], "containers": main}, 3),
        ({"containers": [limited]}, 3),
        ({"resources": {"requests": {"cpu": "16"}}, "containers": main}, 16),
        ({"resources": {"limits": {"cpu": "16"}}, "containers": main}, 2),
    )
    names = [real.node(f"n{number}") for number in range(len(specs))]
    for name, (spec, _) in zip(names, specs, strict=True):
        real.foreign_pod(f"pod-{name}", name, **spec)
    real.count()
    for name, (spec, cpu) in zip(names, specs, strict=True):
        assert entry(name)["non_workflow_usage_fields"]["cpu"] == str(cpu), spec


def test_foreign_pods_hold_their_gpus_wherever_they_are_until_they_stop(real: RealCluster) -> None:
    """In another namespace, without a scheduler, not started yet, terminating; not after their end."""
    name, elsewhere = real.node("n"), create_namespace(real.cluster)
    pod = real.foreign_pod("unstarted", name, namespace=elsewhere)
    real.count()
    assert real.numbers(name) == (8, 4, 4)
    finalizers = {"metadata": {"finalizers": ["example.org/kubelet"]}}
    real.cluster.merge(resource_kinds.POD, "unstarted", finalizers, field_manager="kubelet", namespace=elsewhere)
    real.delete_pod(pod)
    real.count()
    assert real.numbers(name) == (8, 4, 4), "terminating"
    real.set_pod_status(pod, phase="Succeeded")
    real.count()
    assert real.numbers(name) == (8, 0, 8), "stopped, and still there"
    real.cluster.merge(
        resource_kinds.POD, "unstarted", {"metadata": {"finalizers": []}}, field_manager="kubelet", namespace=elsewhere
    )


def test_a_part_of_a_gpu_that_nobody_reserved_is_said(real: RealCluster) -> None:
    name = real.node("n")
    containers = [{"name": "c", "image": "i"}]
    real.foreign_pod("notebook", name, annotations={"gpu-fraction": "0.5"}, containers=containers)
    real.count()
    assert real.numbers(name) == (8, 0, 8)
    assert "1 other pod asks for parts of GPUs by annotations" in real.notes(name)


def test_a_pod_with_our_labels_that_the_ledger_does_not_know_holds_its_gpus(real: RealCluster) -> None:
    """A pod from before a restored backup is deleted; until it is gone, its GPUs are not free."""
    name = real.node("n")
    workflow = real.submit(gpus=1)
    real.run_agent()
    (known,) = real.list_pods(workflow)
    labels = known["metadata"]["labels"] | {"osmo.task_uuid": "00000000-0000-4000-8000-000000000001"}
    stray = real.foreign_pod("stray", name)
    hold_open(real, {**stray, "metadata": {**stray["metadata"], "finalizers": []}})
    real.cluster.merge(
        resource_kinds.POD, "stray", {"metadata": {"labels": labels}}, field_manager=SOMEBODY,
        namespace=real.backend.namespace,
    )  # fmt: skip
    real.count()
    assert real.numbers(name) == (8, 4, 4)
    _bind(real, known, name)
    real.run_pods(known)
    real.count()
    assert real.numbers(name) == (8, 4, 3), "ours counts once"


def _bind(harness: AgentHarness, pod: Object, node: str) -> None:
    """The scheduler gives a pod its node."""
    name, place = pod["metadata"]["name"], harness.backend.namespace
    body = {"metadata": {"name": name, "namespace": place}, "target": {"kind": "Node", "name": node}}
    harness.cluster.create(ResourceKind("", "v1", f"pods/{name}/binding", "Binding"), body, field_manager="kai")
