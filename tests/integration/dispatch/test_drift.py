"""Every field of ours in a PodGroup or a pod is put back when another client changes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
import yaml
from prometheus_client import REGISTRY

from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.domain.cluster.drift import SCHEDULER_FIELDS, find_drift
from scheduling.domain.cluster.pods.pod import pod_manifest
from scheduling.domain.priorities import Priority
from scheduling.kube.connection import resource_kinds
from scheduling.kube.gang_objects import GangManifest
from scheduling.models import Task, Workflow
from scheduling.selectors.work.pending_manifests import ClusterContext, pending_manifests
from scheduling.services.kubernetes.agent import _read_context
from scheduling.services.kubernetes.syncing.drift_repair import DriftRepair
from tests.support import world
from tests.support.agent_harness import AgentHarness, find_group, gang_file, task_statuses
from tests.support.kube_server import CRDS, with_a_real_one
from tests.support.optional_tools import ENVTEST

POD, POD_GROUP = resource_kinds.POD, resource_kinds.POD_GROUP


@pytest.fixture
def dispatched(harness: AgentHarness) -> tuple[AgentHarness, Workflow]:
    """A running gang of two pods."""
    workflow = harness.submit(gang_file("lead", "other"))
    harness.start_work()
    return harness, workflow


def manifests_of(harness: AgentHarness, workflow: Workflow) -> dict[Any, dict[str, Any]]:
    """What we write, by (kind, name): the PodGroup, and of each pod its metadata."""
    context: ClusterContext = _read_context(harness.backend.pk)
    (manifest,) = pending_manifests(context, [find_group(workflow).pk], lambda _: None)
    assert isinstance(manifest, GangManifest)
    found = {(POD_GROUP, manifest.pod_group["metadata"]["name"]): manifest.pod_group}
    for task in manifest.created_tasks:
        pod = pod_manifest(manifest.gang_context, task)
        found[POD, pod["metadata"]["name"]] = {"metadata": pod["metadata"]}
    return found


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every field of a manifest that has a value."""
    for key, inner in value.items():
        if isinstance(inner, dict):
            yield from leaves(inner, (*path, key))
        else:
            yield (*path, key), inner


def patch_of(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    for key in reversed(path):
        value = {key: value}
    return dict(value)


def other_value(value: Any) -> Any:
    if isinstance(value, int):
        return value + 1
    if isinstance(value, list):
        return []
    return f"{value}x" if len(str(value)) < 60 else "x"


def value_at(item: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        item = (item or {}).get(key)
    return item


def owned_fields(manifest: dict[str, Any]) -> list[tuple[tuple[str, ...], Any]]:
    identity = {("metadata", "name"), ("metadata", "namespace")}
    return [(path, value) for path, value in leaves(manifest) if path not in identity]


@pytest.mark.parametrize("is_removed", [False, True], ids=["changed", "removed"])
def test_every_field_that_we_write_is_put_back(dispatched: tuple[AgentHarness, Workflow], is_removed: bool) -> None:
    """All fields of the manifests: a new field of a manifest is covered by itself."""
    harness, workflow = dispatched
    here, manifests = harness.backend.namespace, manifests_of(harness, workflow)
    assert sum(len(owned_fields(manifest)) for manifest in manifests.values()) > 40
    for (kind, name), manifest in manifests.items():
        theirs: dict[str, Any] = {}
        for path, value in owned_fields(manifest):
            inner = theirs
            for key in path[:-1]:
                inner = inner.setdefault(key, {})
            inner[path[-1]] = None if is_removed else other_value(value)
        harness.cluster.merge(kind, name, theirs, field_manager="somebody", namespace=here)
    harness.run_agent(4)
    for (kind, name), manifest in manifests.items():
        now = harness.cluster.get(kind, name, namespace=here)
        assert [(path, value_at(now, path)) for path, _ in owned_fields(manifest)] == owned_fields(manifest)
    assert task_statuses(workflow) == [("lead", 0, "RUNNING", None), ("other", 0, "RUNNING", None)]


@pytest.mark.nightly
@pytest.mark.parametrize("is_removed", [False, True], ids=["changed", "removed"])
def test_each_field_alone_is_put_back(dispatched: tuple[AgentHarness, Workflow], is_removed: bool) -> None:
    harness, workflow = dispatched
    here, agent = harness.backend.namespace, harness.agent
    for (kind, name), manifest in manifests_of(harness, workflow).items():
        for path, value in owned_fields(manifest):
            theirs = None if is_removed else other_value(value)
            harness.cluster.merge(kind, name, patch_of(path, theirs), field_manager="somebody", namespace=here)
            agent._drift_repair._pauses.clear()  # a test of its own covers the pauses
            for _ in range(2):
                agent.relist_and_reconcile()
            now = harness.cluster.get(kind, name, namespace=here)
            assert value_at(now, path) == value, f"{kind.name} {'.'.join(path)}"
            assert not find_drift(manifest, now)
    assert task_statuses(workflow) == [("lead", 0, "RUNNING", None), ("other", 0, "RUNNING", None)]


def pod_group_fields() -> dict[str, Any]:
    """A value for each field of a PodGroup's spec, as KAI's definition describes it."""
    body = yaml.safe_load((CRDS / "scheduling.run.ai_podgroups.yaml").read_text())
    schema = body["spec"]["versions"][-1]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    return {key: _sample(field) for key, field in schema.items()}


def _sample(field: dict[str, Any]) -> Any:
    if field["type"] == "object":
        return {key: _sample(inner) for key, inner in field["properties"].items()}
    if field["type"] == "array":
        return [_sample(field["items"])]
    return field["enum"][0] if "enum" in field else {"integer": 7, "boolean": True, "string": "somebody"}[field["type"]]


@with_a_real_one("harness")
@pytest.mark.skipif(not ENVTEST.exists(), reason="KAI's definitions are not at hand")
def test_fields_that_we_leave_out_are_removed_except_the_schedulers_own(
    dispatched: tuple[AgentHarness, Workflow],
) -> None:
    harness, workflow = dispatched
    name, here = str(find_group(workflow).pk), harness.backend.namespace
    ours = {
        key for (kind, _), body in manifests_of(harness, workflow).items() if kind is POD_GROUP for key in body["spec"]
    }
    extra = {key: value for key, value in pod_group_fields().items() if key not in ours}
    assert {"preemptibility", "subGroups", "topologyConstraint"} <= extra.keys()
    harness.cluster.merge(POD_GROUP, name, {"spec": extra}, field_manager="somebody", namespace=here)
    harness.run_agent()
    spec = harness.cluster.get(POD_GROUP, name, namespace=here)["spec"]
    assert spec.keys() - ours == extra.keys() & SCHEDULER_FIELDS


@with_a_real_one("harness")
def test_what_others_may_write_stays(dispatched: tuple[AgentHarness, Workflow]) -> None:
    harness, workflow = dispatched
    here = harness.backend.namespace
    theirs = {"labels": {"team.example/cost": "7"}, "annotations": {"kai.scheduler/last-start-timestamp": "x"}}
    for kind, name in manifests_of(harness, workflow):
        harness.cluster.merge(kind, name, {"metadata": theirs}, field_manager="somebody", namespace=here)
    before = [harness.cluster.get(kind, name, namespace=here) for kind, name in manifests_of(harness, workflow)]
    harness.run_agent()
    assert [harness.cluster.get(kind, name, namespace=here) for kind, name in manifests_of(harness, workflow)] == before


def test_labels_that_would_hide_an_object_from_its_scheduler_are_removed(
    dispatched: tuple[AgentHarness, Workflow],
) -> None:
    harness, workflow = dispatched
    here = harness.backend.namespace
    theirs = {"kai.scheduler/node-pool": "blue", "kai.scheduler/subgroup-name": "x", "osmo.lies": "yes"}
    for kind, name in manifests_of(harness, workflow):
        harness.cluster.merge(kind, name, {"metadata": {"labels": theirs}}, field_manager="somebody", namespace=here)
    harness.run_agent()
    for kind, name in manifests_of(harness, workflow):
        assert not theirs.keys() & harness.cluster.get(kind, name, namespace=here)["metadata"]["labels"].keys()


def test_an_object_with_the_label_of_another_gang_is_not_deleted(dispatched: tuple[AgentHarness, Workflow]) -> None:
    """Also when the agent sees only the change, and not the whole cluster."""
    harness, workflow = dispatched
    here = harness.backend.namespace
    informers = harness.agent._informers
    assert informers is not None
    for kind, name in manifests_of(harness, workflow):
        change = {"metadata": {"labels": {"osmo.group_uuid": str(UUID(int=7))}}}
        harness.cluster.merge(kind, name, change, field_manager="somebody", namespace=here)
    informers.relist()
    informers.pop_changed_gangs()
    informers.mark_changed({UUID(int=7)})
    for _ in range(2):
        harness.agent.reconcile(everything=False)
        informers.relist()
    group = str(find_group(workflow).pk)
    for kind, name in manifests_of(harness, workflow):
        now = harness.cluster.get(kind, name, namespace=here)
        assert now["metadata"]["labels"]["osmo.group_uuid"] == group
        assert not now["metadata"].get("deletionTimestamp")


def test_a_repair_is_counted_and_reported(dispatched: tuple[AgentHarness, Workflow]) -> None:
    harness, workflow = dispatched
    name, here = str(find_group(workflow).pk), harness.backend.namespace
    labels = {"backend": "lab", "kind": "PodGroup", "field": "spec.priorityClassName"}
    before = REGISTRY.get_sample_value("osmo_cluster_repairs_total", labels) or 0.0
    change = {"spec": {"priorityClassName": "osmo-high"}}
    harness.cluster.merge(POD_GROUP, name, change, field_manager="somebody", namespace=here)
    harness.run_agent()
    assert REGISTRY.get_sample_value("osmo_cluster_repairs_total", labels) == before + 1
    assert harness.agent._events.flush(30)
    events = harness.cluster.list(resource_kinds.EVENT, namespace=here).items
    (repaired,) = [event for event in events if event["reason"] == "Repaired"]
    assert "spec.priorityClassName was set to 'osmo-high'; it is 'osmo-normal' again" in repaired["message"]
    assert repaired["involvedObject"]["kind"] == "PodGroup"


def test_two_clients_that_disagree_do_not_write_without_end(fake_harness: AgentHarness) -> None:
    """A repair of the same object again waits for a growing pause."""
    workflow = fake_harness.submit()
    fake_harness.run_agent()
    name = str(find_group(workflow).pk)
    change = {"spec": {"priorityClassName": "osmo-high"}}
    for _ in range(5):
        fake_harness.cluster.merge(POD_GROUP, name, change, field_manager="somebody", namespace="osmo")
        fake_harness.run_agent(1)
    assert fake_harness.list_pod_groups()[0]["spec"]["priorityClassName"] == "osmo-high"
    fake_harness.agent._drift_repair._pauses.clear()
    fake_harness.run_agent(1)
    assert fake_harness.list_pod_groups()[0]["spec"]["priorityClassName"] == "osmo-normal"


def test_an_object_that_nobody_touched_costs_no_manifest(
    fake_harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither do objects that this agent created, nor changes of a status."""
    fake_harness.submit(gang_file("lead", "other"))
    verified: list[Any] = []
    monkeypatch.setattr(DriftRepair, "repair", lambda *args, **more: verified.append(args))
    fake_harness.start_work()
    assert Task.objects.filter(status="RUNNING").count() == 2
    assert verified == []


def test_events_tell_the_life_of_a_gang(harness: AgentHarness) -> None:
    workflow = harness.submit(gang_file("lead", "other"), priority=Priority.LOW)
    harness.start_work()
    harness.evict_pods(harness.find_pod(workflow, "other"))
    harness.run_agent()
    world.apply_change(CancelWorkflow(name=workflow.name), actor=world.admin_actor())
    harness.run_agent()
    assert harness.agent._events.flush(30)
    events = harness.cluster.list(resource_kinds.EVENT, namespace=harness.backend.namespace).items
    kinds = {(event["reason"], event["involvedObject"]["kind"]) for event in events}
    assert kinds >= {("Dispatched", "PodGroup"), ("Preempted", "Pod"), ("Stopped", "Pod")}
