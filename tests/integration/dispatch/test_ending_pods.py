"""The GPUs of a pod of ours are free when the pod is gone or has stopped, not when its task has ended."""

from __future__ import annotations

import pytest

from pools.domain.changes.pools import PatchPool
from pools.models import Backend
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.domain.kubernetes_json import Object
from scheduling.kube.connection import resource_kinds
from scheduling.kube.connection.port import ResourceKind
from scheduling.models import Task, Workflow, WorkflowConfig
from scheduling.selectors.queue.pending_queue import build_pending_queue, read_queue_token
from scheduling.selectors.queue.visible_queue import list_waiting_gangs
from tests.integration.dispatch.test_nodes import add_foreign_pod, add_node, entry, shown_nodes, usage
from tests.support import world
from tests.support.agent_harness import AgentHarness, gang_file, task_statuses
from tests.support.kube_server import KubeNamespace


def bind(harness: AgentHarness, workflow: Workflow, node: str) -> list[Object]:
    """KAI gives the pods a node."""
    pods = harness.list_pods(workflow)
    for pod in pods:
        harness.bind_pod(pod, node)
    return pods


def hold_open(harness: AgentHarness, *pods: Object) -> None:
    """The kubelet does not finish the deletion of these pods."""
    for pod in pods:
        finalizers = [*pod["metadata"]["finalizers"], "example.org/kubelet"]
        harness.cluster.merge(
            resource_kinds.POD,
            pod["metadata"]["name"],
            {"metadata": {"finalizers": finalizers}},
            field_manager="kubelet",
            namespace=harness.backend.namespace,
        )


def finish(harness: AgentHarness, *pods: Object) -> None:
    """The kubelet lets these pods go."""
    for pod in pods:
        harness.cluster.merge(
            resource_kinds.POD,
            pod["metadata"]["name"],
            {"metadata": {"finalizers": []}},
            field_manager="kubelet",
            namespace=harness.backend.namespace,
        )


def numbers(node: str = "n1") -> tuple[int, int, int, int]:
    """Used, ending, other and free GPUs of a node."""
    use = shown_nodes()[node].usage
    return use.used_gpus, use.ending_gpus, use.other_gpus, use.free_gpus


def running(harness: AgentHarness, gpus: int = 8) -> tuple[Workflow, Object]:
    add_node(harness, "n1")
    workflow = harness.submit(gpus=gpus)
    harness.run_agent()
    (pod,) = bind(harness, workflow, "n1")
    harness.run_pods(pod)
    harness.run_agent()
    hold_open(harness, pod)
    return workflow, pod


def test_a_cancelled_pod_that_terminates_holds_its_gpus_and_is_named(fake_harness: AgentHarness) -> None:
    workflow, pod = running(fake_harness)
    assert numbers() == (8, 0, 0, 0)
    world.apply_change(CancelWorkflow(name=workflow.name), actor=world.admin_actor())
    assert numbers() == (0, 8, 0, 0), "before the agent has seen anything"
    fake_harness.run_agent()
    assert numbers() == (0, 8, 0, 0)
    assert (usage("team")["total_free"], usage("team")["total_usage"]) == ("0", "0")
    assert entry("n1")["platform_available_fields"]["team"]["default"]["gpu"] == "0"
    assert entry("n1")["usage_fields"]["gpu"] == "8"
    later = fake_harness.submit(gpus=8)
    fake_harness.run_agent()
    (gang,), _ = list_waiting_gangs(world.admin_actor(), workflows=[later.name], limit=1)
    name = pod["metadata"]["name"]
    assert f"pod {name} on n1 (8 GPUs)" in gang.reason.message
    assert gang.unblock == (f"The pod {name} is gone from node n1.",)
    before = read_queue_token(fake_harness.backend)
    finish(fake_harness, pod)
    fake_harness.run_agent()
    assert numbers() == (0, 0, 0, 8)
    assert read_queue_token(fake_harness.backend) != before
    (entry_,) = build_pending_queue(fake_harness.backend).gangs
    assert name not in entry_.reason.message


def test_only_pods_on_nodes_that_the_work_may_use_are_named(fake_harness: AgentHarness) -> None:
    """The GPUs of another flavor would start nothing."""
    backend = fake_harness.backend
    named = [{"name": kind, "node_labels": {"kind": kind}} for kind in ("h100", "a100")]
    Backend.objects.filter(pk=backend.pk).update(flavors=named)
    for name, kind in (("n1", "h100"), ("n2", "a100")):
        add_node(fake_harness, name, labels={"kind": kind})
    flavors = {kind: {"guarantee": 16} for kind in ("h100", "a100")}
    world.apply_change(PatchPool(name="team", patch={"resources": {"flavors": flavors}}))
    fake_harness.run_agent()
    file = world.workflow_file(gpus=8)
    held = fake_harness.submit(file.replace("gpu: 8", "gpu: 8, gpu_flavors: [h100]"))
    fake_harness.run_agent()
    (pod,) = bind(fake_harness, held, "n1")
    fake_harness.run_pods(pod)
    fake_harness.run_agent()
    hold_open(fake_harness, pod)
    world.apply_change(CancelWorkflow(name=held.name), actor=world.admin_actor())
    works = {
        kind: fake_harness.submit(file.replace("gpu: 8", f"gpu: 8, gpu_flavors: [{kind}]")) for kind in ("h100", "a100")
    }
    fake_harness.run_agent()
    for kind, work in works.items():
        (gang,), _ = list_waiting_gangs(world.admin_actor(), workflows=[work.name], limit=1)
        assert (pod["metadata"]["name"] in gang.reason.message) == (kind == "h100"), gang.reason.message


@pytest.mark.parametrize("end", ["preempted", "failed", "deleted", "completed"])
def test_every_end_of_a_task_whose_pod_outlives_it(fake_harness: AgentHarness, end: str) -> None:
    """A pod that has stopped holds nothing; one that is being deleted holds its GPUs until it is gone."""
    workflow, pod = running(fake_harness)
    if end == "preempted":
        fake_harness.evict_pods(pod)
    elif end == "deleted":
        fake_harness.delete_pod(pod)
    elif end == "failed":
        fake_harness.set_container_waiting(pod, "ErrImagePull")
    else:
        fake_harness.finish_pods(pod)
    fake_harness.run_agent()
    assert task_statuses(workflow)[0][2] not in {"RUNNING", "INITIALIZING"}
    expected = (0, 0, 0, 8) if end == "completed" else (0, 8, 0, 0)
    assert numbers() == expected
    finish(fake_harness, pod)
    fake_harness.run_agent()
    assert numbers() == (0, 0, 0, 8)


def test_a_pod_that_loads_its_image_holds_its_gpus(fake_harness: AgentHarness) -> None:
    add_node(fake_harness, "n1")
    workflow = fake_harness.submit(gpus=3)
    fake_harness.run_agent()
    (pod,) = bind(fake_harness, workflow, "n1")
    fake_harness.run_agent()
    assert numbers() == (0, 3, 0, 5)
    fake_harness.run_pods(pod)
    fake_harness.run_agent()
    assert numbers() == (3, 0, 0, 5)


def test_a_gang_that_restarts_counts_its_old_pods_and_foreign_ones(fake_harness: AgentHarness) -> None:
    add_node(fake_harness, "n1")
    add_foreign_pod(fake_harness, "a-service", "n1", 2)
    WorkflowConfig.objects.update_or_create(pk=1, defaults={"max_retry_per_task": 1})
    fields = "exitActions: {RESCHEDULE: '1-255'}"
    workflow = fake_harness.submit(gang_file("lead", "other", gpus=2, task_fields=fields, ignore_nonlead=False))
    fake_harness.run_agent()
    lead, other = bind(fake_harness, workflow, "n1")
    fake_harness.run_pods(lead, other)
    fake_harness.run_agent()
    assert numbers() == (4, 0, 2, 2)
    hold_open(fake_harness, other)
    fake_harness.finish_pods(lead, code=3)
    fake_harness.run_agent()
    ends = [(name, status) for name, retry, status, _ in task_statuses(workflow) if retry == 0]
    assert ends == [("lead", "RESCHEDULED"), ("other", "RESCHEDULED")]
    assert numbers() == (0, 2, 2, 4)
    finish(fake_harness, other)
    fake_harness.run_agent()
    assert numbers() == (0, 0, 2, 6)
    assert not Task.objects.filter(dispatched_at__isnull=False, pod_gone_at=None).exclude(
        status__in=["SCHEDULING", "INITIALIZING", "RUNNING"]
    )


@pytest.mark.k8s
def test_pods_that_are_bound_on_a_real_server(kube: KubeNamespace, db: None) -> None:
    """There only a binding gives a pod its node, a deletion has a grace period, and the kubelet ends it."""
    harness, node = AgentHarness.make(kube.cluster, kube.namespace), kube.object_name("n1")
    add_node(harness, node)
    cancelled, evicted = harness.submit(gpus=5), harness.submit(gpus=3)
    harness.run_agent()
    pods = [pod for workflow in (cancelled, evicted) for pod in harness.list_pods(workflow)]
    for pod in pods:
        name = pod["metadata"]["name"]
        body = {"metadata": {"name": name, "namespace": kube.namespace}, "target": {"kind": "Node", "name": node}}
        kube.cluster.create(ResourceKind("", "v1", f"pods/{name}/binding", "Binding"), body, field_manager="kai")
    harness.run_agent()
    assert numbers(node) == (0, 8, 0, 0), "bound, and not started"
    harness.run_pods(*pods)
    harness.run_agent()
    assert numbers(node) == (8, 0, 0, 0)
    hold_open(harness, *pods)
    world.apply_change(CancelWorkflow(name=cancelled.name), actor=world.admin_actor())
    harness.evict_pods(pods[1])
    harness.run_agent()
    assert [pod["metadata"].get("deletionTimestamp") is not None for pod in harness.list_pods(cancelled)] == [True]
    assert numbers(node) == (0, 8, 0, 0)
    later = harness.submit(gpus=8)
    harness.run_agent()
    (gang,), _ = list_waiting_gangs(world.admin_actor(), workflows=[later.name], limit=1)
    for pod, gpus in zip(pods, (5, 3), strict=True):
        assert f"{pod['metadata']['name']} on {node} ({gpus} GPUs)" in gang.reason.message
    for pod, free in zip(pods, (5, 8), strict=True):
        harness.force_delete_pod(pod)
        harness.run_agent()
        assert numbers(node) == (0, 8 - free, 0, free)
    kube.cluster.delete(resource_kinds.NODE, node)
