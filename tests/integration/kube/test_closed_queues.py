"""Work whose queue in the cluster belongs to others, or does not exist, waits here and says so."""

from __future__ import annotations

from typing import Any

import pytest

from pools.models import KubernetesSettings
from scheduling.kube.connection import resource_kinds
from scheduling.kube.connection.resource_kinds import QUEUE
from scheduling.models import Workflow
from scheduling.selectors.queue.visible_queue import list_waiting_gangs
from scheduling.services.kubernetes.agent import AgentIntervals, ClusterAgent
from scheduling.services.kubernetes.syncing.queue_sync import sync_backend_queues
from scheduling.services.workflows.submission import Submission, submit
from tests.integration.kube.conftest import SyncHarness
from tests.integration.kube.test_queue_sync import pool, subpools
from tests.support import world


def foreign_queue(lab: SyncHarness, short: str, parent: str | None) -> None:
    """A queue with our name that carries the mark of another installation."""
    resource = {"quota": 3, "limit": -1, "overQuotaWeight": 1}
    spec: dict[str, Any] = {"resources": dict.fromkeys(("gpu", "cpu", "memory"), resource)}
    if parent:
        spec["parentQueue"] = parent
    labels = {"osmo.house": "another", "osmo.namespace": lab.ns}
    body = {"metadata": {"name": lab.name(short), "labels": labels}, "spec": spec}
    lab.cluster.cluster.create(QUEUE, body, field_manager="kim")


def run_agent(lab: SyncHarness) -> None:
    agent = ClusterAgent(lab.backend.pk, connect=lambda _: lab.cluster.cluster, intervals=AgentIntervals(recount=0))
    for _ in range(2):
        agent.relist_and_reconcile()


def send(to: str) -> tuple[Workflow, tuple[str, ...]]:
    receipt = submit(actor=world.admin_actor(), pool=to, submission=Submission(file=world.workflow_file(gpus=1)))
    assert receipt.workflow is not None
    return receipt.workflow, receipt.warnings


def pod_groups(lab: SyncHarness) -> list[str]:
    found = lab.cluster.cluster.list(resource_kinds.POD_GROUP, namespace=lab.ns).items
    return sorted(item["spec"]["queue"] for item in found)


def reason_of(workflow: Workflow) -> tuple[str, str]:
    (gang,), _ = list_waiting_gangs(world.admin_actor(), workflows=[workflow.name], limit=10)
    return gang.reason.code, gang.reason.message


@pytest.mark.parametrize("short", ["thief---shared", "thief"])
def test_work_is_not_put_into_the_queue_of_another_installation(lab: SyncHarness, short: str) -> None:
    """Neither where the leaf is foreign, nor where only its container is, so that the leaf does not exist."""
    pool(lab)
    lab.sync()
    foreign_queue(lab, short, lab.root if short == "thief" else None)
    pool(lab, "thief", 8)
    assert lab.sync().reason == "InTheWay"
    workflow, warnings = send("thief")
    _, no_warnings = send("team")
    run_agent(lab)
    assert pod_groups(lab) == [lab.name("team---shared")]
    note = "it belongs to another installation" if short != "thief" else "above it is not ours"
    code, message = reason_of(workflow)
    assert (code, note in message) == ("queue_closed", True), message
    assert note in " ".join(warnings)
    assert no_warnings == ()
    lab.cluster.cluster.delete(QUEUE, lab.name(short))
    assert lab.sync().synced == "True"
    run_agent(lab)
    assert pod_groups(lab) == [lab.name("team---shared"), lab.name("thief---shared")]
    assert send("thief")[1] == ()


def test_a_foreign_subpool_closes_that_subpool_alone(fake_lab: SyncHarness) -> None:
    pool(fake_lab)
    subpools(a=10, b=10)
    foreign_queue(fake_lab, "team--a", fake_lab.name("team"))
    fake_lab.sync()
    send("team--a"), send("team--b"), send("team")
    run_agent(fake_lab)
    assert pod_groups(fake_lab) == [fake_lab.name("team---shared"), fake_lab.name("team--b")]


def test_a_queue_that_the_sync_may_not_make_is_waited_for(fake_lab: SyncHarness) -> None:
    KubernetesSettings.objects.update(sync_mode="report")
    pool(fake_lab)
    assert sync_backend_queues(fake_lab.backend.pk).reason == "WritesDue"
    workflow, warnings = send("team")
    run_agent(fake_lab)
    assert pod_groups(fake_lab) == []
    assert "only reports differences" in reason_of(workflow)[1]
    assert "only reports differences" in warnings[0]
    KubernetesSettings.objects.update(sync_mode="off")
    sync_backend_queues(fake_lab.backend.pk)
    run_agent(fake_lab)
    assert pod_groups(fake_lab) == [fake_lab.name("team---shared")], "others make the queues there"


def test_a_gang_that_is_in_the_cluster_goes_on(fake_lab: SyncHarness) -> None:
    """Its PodGroup follows the gang, whatever happens to the queue."""
    pool(fake_lab)
    fake_lab.sync()
    send("team")
    run_agent(fake_lab)
    fake_lab.edit("team---shared", {"metadata": {"labels": {"osmo.house": "another"}}})
    assert fake_lab.sync().reason == "InTheWay"
    group = fake_lab.cluster.cluster.list(resource_kinds.POD_GROUP, namespace=fake_lab.ns).items[0]
    fake_lab.cluster.cluster.delete(resource_kinds.POD_GROUP, group["metadata"]["name"], namespace=fake_lab.ns)
    run_agent(fake_lab)
    assert pod_groups(fake_lab) == [fake_lab.name("team---shared")]
