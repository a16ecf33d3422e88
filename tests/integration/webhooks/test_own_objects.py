"""Our own pods and PodGroups: what OSMO Admin wrote into them is changed by nobody else, not even by leaving it out."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any
from uuid import uuid4

import pytest

from pools.models import Backend, KubernetesSettings
from scheduling.domain.changes.webhooks import PutQueueGuard
from scheduling.models import Bypass, ClusterState, Group, Task
from tests.integration.webhooks.conftest import QUEUE, marked, post, question
from tests.support import world

US = "system:serviceaccount:osmo:us"
Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def installation(cluster: Backend) -> str:
    world.apply_change(PutQueueGuard(backend="prod", identity=US, accounts=["team:operators"]))
    return str(ClusterState.objects.create(backend=cluster).identity)


def own_pod(installation: str, name: str = "") -> dict[str, Any]:
    """A pod as we dispatch it, with what others may add."""
    return {
        "metadata": {
            "name": name or str(uuid4()),
            "namespace": "ns",
            "labels": {
                "osmo.house": installation,
                "osmo.pool": "team",
                "osmo.priority": "normal",
                "osmo.task_uuid": name or str(uuid4()),
                "kai.scheduler/queue": QUEUE,
                "runai/queue": QUEUE,
                "kai.scheduler/subgroup-name": "a",
                "app.kubernetes.io/managed-by": "osmo-admin",
                "theirs": "x",
            },
            "annotations": {"pod-group-name": str(uuid4()), "theirs": "x"},
            "finalizers": ["osmo-admin/seen", "example.com/theirs"],
        },
        "spec": {"containers": [{"name": "c", "image": "busybox"}]},
    }


def own_group(installation: str, name: str = "") -> dict[str, Any]:
    labels = {"osmo.house": installation, "osmo.pool": "team", "kai.scheduler/queue": QUEUE, "theirs": "x"}
    return {
        "metadata": {"name": name or str(uuid4()), "namespace": "ns", "labels": labels, "annotations": {}},
        "spec": {
            "queue": QUEUE,
            "priorityClassName": "osmo-normal",
            "minMember": 2,
            "subGroups": [{"name": "a", "minMember": 1}],
        },
    }


def ask(kind: str, old: dict[str, Any], new: dict[str, Any], **more: Any) -> dict[str, Any]:
    body = question(kind, new, oldObject=old, operation="UPDATE", namespace="ns", **more)
    answer = post(f"{kind.lower()}{marked('prod')}", body)
    assert answer.status_code == 200, answer.content
    return dict(answer.json()["response"])


def changed(item: dict[str, Any], change: Change) -> dict[str, Any]:
    found = deepcopy(item)
    change(found)
    return found


def label(key: str, value: str | None) -> Change:
    def change(item: dict[str, Any]) -> None:
        labels = item["metadata"]["labels"]
        if value is None:
            del labels[key]
        else:
            labels[key] = value

    return change


def annotation(key: str, value: str | None) -> Change:
    def change(item: dict[str, Any]) -> None:
        item["metadata"]["annotations"].pop(key, None)
        if value is not None:
            item["metadata"]["annotations"][key] = value

    return change


def spec(key: str, value: Any) -> Change:
    def change(item: dict[str, Any]) -> None:
        item["spec"].pop(key, None)
        if value is not None:
            item["spec"][key] = value

    return change


def drop(part: str) -> Change:
    return lambda item: item["metadata"].pop(part)


def finalizers(*kept: str) -> Change:
    return lambda item: item["metadata"].update(finalizers=list(kept))


POD_CHANGES: dict[str, tuple[Change, str]] = {
    "queue removed": (label("kai.scheduler/queue", None), "metadata.labels[kai.scheduler/queue]"),
    "other queue": (label("kai.scheduler/queue", "foreign"), "metadata.labels[kai.scheduler/queue]"),
    "older queue removed": (label("runai/queue", None), "metadata.labels[runai/queue]"),
    "mark removed": (label("osmo.house", None), "metadata.labels[osmo.house]"),
    "mark of another": (label("osmo.house", "other"), "metadata.labels[osmo.house]"),
    "task removed": (label("osmo.task_uuid", None), "metadata.labels[osmo.task_uuid]"),
    "pool changed": (label("osmo.pool", "x"), "metadata.labels[osmo.pool]"),
    "label of ours added": (label("osmo.lead_container", "true"), "metadata.labels[osmo.lead_container]"),
    "subgroup": (label("kai.scheduler/subgroup-name", "b"), "metadata.labels[kai.scheduler/subgroup-name]"),
    "managed-by": (label("app.kubernetes.io/managed-by", None), "metadata.labels[app.kubernetes.io/managed-by]"),
    "shard added": (label("kai.scheduler/node-pool", "x"), "metadata.labels[kai.scheduler/node-pool]"),
    "gang left": (annotation("pod-group-name", None), "metadata.annotations[pod-group-name]"),
    "other gang": (annotation("pod-group-name", "x"), "metadata.annotations[pod-group-name]"),
    "all annotations": (drop("annotations"), "metadata.annotations[pod-group-name]"),
    "all labels": (drop("labels"), "metadata.labels[osmo.house]"),
    "finalizer": (finalizers("example.com/theirs"), "metadata.finalizers"),
    "all finalizers": (drop("finalizers"), "metadata.finalizers"),
}
GROUP_CHANGES: dict[str, tuple[Change, str]] = {
    "other queue": (spec("queue", "foreign"), "spec.queue"),
    "queue removed": (spec("queue", None), "spec.queue"),
    "priority": (spec("priorityClassName", "osmo-low"), "spec.priorityClassName"),
    "minimum": (spec("minMember", 1), "spec.minMember"),
    "subgroups removed": (spec("subGroups", None), "spec.subGroups"),
    "subgroups": (spec("subGroups", [{"name": "a", "minMember": 0}]), "spec.subGroups"),
    "minSubGroup": (spec("minSubGroup", 1), "spec.minSubGroup"),
    "preemptibility": (spec("preemptibility", "non-preemptible"), "spec.preemptibility"),
    "mark removed": (label("osmo.house", None), "metadata.labels[osmo.house]"),
    "queue label": (label("kai.scheduler/queue", None), "metadata.labels[kai.scheduler/queue]"),
    "spec removed": (lambda item: item.pop("spec"), "spec.queue"),
}


def test_a_stranger_does_not_change_a_pod_of_ours(installation: str) -> None:
    for number, (case, (change, path)) in enumerate(POD_CHANGES.items(), start=1):
        old = own_pod(installation)
        answer = ask("Pod", old, changed(old, change))
        assert not answer["allowed"], case
        assert answer["status"]["code"] == 403, case
        assert path in [cause["field"] for cause in answer["status"]["details"]["causes"]], case
        row = Bypass.objects.get(code="foreign_change")
        assert (row.username, row.kind, row.refused) == ("mallory", "Pod", number), case


def test_a_stranger_does_not_change_a_pod_group_of_ours(installation: str) -> None:
    for case, (change, path) in GROUP_CHANGES.items():
        old = own_group(installation)
        answer = ask("PodGroup", old, changed(old, change))
        assert not answer["allowed"], case
        assert path in [cause["field"] for cause in answer["status"]["details"]["causes"]], case


@pytest.mark.parametrize(
    "who", [{"username": US}, {"username": "ann", "groups": ["team:operators"]}], ids=["us", "allowed"]
)
def test_we_and_allowed_accounts_may(installation: str, who: dict[str, Any]) -> None:
    for kind, old, changes in (
        ("Pod", own_pod(installation), POD_CHANGES),
        ("PodGroup", own_group(installation), GROUP_CHANGES),
    ):
        for change, _ in changes.values():
            answer = ask(kind, old, changed(old, change), userInfo=who)
            assert "foreign_change" not in str(answer)


def test_what_schedulers_kubelets_and_collectors_do_passes(installation: str) -> None:
    pod, group = own_pod(installation), own_group(installation)
    for change in (
        label("theirs", None),
        label("kai.scheduler/gpu-group", "g"),
        annotation("theirs", None),
        annotation("kai.scheduler/received-resource-type", "Regular"),
        finalizers("osmo-admin/seen"),
        finalizers("osmo-admin/seen", "foregroundDeletion"),
        spec("nodeName", "n1"),
        lambda item: item.update(status={"phase": "Running"}),
        lambda item: item["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"),
    ):
        assert ask("Pod", pod, changed(pod, change), who="system:node:n1") == {"uid": "0f1e2d3c", "allowed": True}
    for change in (
        spec("markUnschedulable", True),
        spec("schedulingBackoff", 1),
        annotation("kai.scheduler/stale-podgroup-timestamp", "2026-01-01T00:00:00Z"),
        lambda item: item.update(status={"phase": "Running"}),
        lambda item: item["metadata"].update(finalizers=["foregroundDeletion"]),
    ):
        assert ask("PodGroup", group, changed(group, change), who="kai")["allowed"]


def test_objects_of_others_may_leave(installation: str) -> None:
    for mark in ("of-another-installation", None):
        old = own_pod(installation)
        label("osmo.house", mark)(old)
        assert ask("Pod", old, changed(old, label("kai.scheduler/queue", None)))["allowed"]
    group = own_group(installation)
    label("osmo.house", None)(group)
    assert ask("PodGroup", group, changed(group, spec("queue", "foreign")))["allowed"]


def test_a_pod_that_lost_its_mark_is_still_ours_by_its_task(cluster: Backend, installation: str) -> None:
    world.make_pool("team", 10, on=cluster, a=5)
    world.submit_workflow(world.admin_actor(), "team--a")
    task = str(Task.objects.get().pk)
    pod = own_pod(installation, task)
    label("osmo.house", None)(pod)
    assert not ask("Pod", pod, changed(pod, label("kai.scheduler/queue", None)))["allowed"]
    group = own_group(installation, str(Group.objects.get().pk))
    label("osmo.house", None)(group)
    assert not ask("PodGroup", group, changed(group, spec("queue", "foreign")))["allowed"]


def test_the_key_of_the_shards_is_that_of_the_backend(cluster: Backend, installation: str) -> None:
    KubernetesSettings.objects.create(
        backend=cluster, access="in_cluster", node_pool_key="example.com/shard", node_pool="gold"
    )
    pod = own_pod(installation)
    label("example.com/shard", "gold")(pod)
    assert not ask("Pod", pod, changed(pod, label("example.com/shard", None)))["allowed"]


def test_the_answer_names_every_field_and_no_value(installation: str) -> None:
    old = own_pod(installation)
    new = changed(changed(old, label("kai.scheduler/queue", "canary")), finalizers())
    answer = ask("Pod", old, new)
    fields = [cause["field"] for cause in answer["status"]["details"]["causes"]]
    assert fields == ["metadata.labels[kai.scheduler/queue]", "metadata.finalizers"]
    assert "canary" not in str(answer)
    assert "osmo workflow cancel" in answer["status"]["message"]


def test_modes(installation: str) -> None:
    old = own_pod(installation)
    new = changed(old, label("kai.scheduler/queue", None))
    world.apply_change(PutQueueGuard(backend="prod", mode="audit"))
    answer = ask("Pod", old, new)
    assert answer["allowed"]
    assert "would refuse" in answer["warnings"][0]
    world.apply_change(PutQueueGuard(backend="prod", mode="off"))
    assert ask("Pod", old, new) == {"uid": "0f1e2d3c", "allowed": True}
