"""The whole life of work with no more rights than the manifests give, and each of them needed."""

from __future__ import annotations

from typing import Any

import pytest

from pools.domain.people.roles import SYSTEM
from pools.models import KubernetesSettings
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.domain.kubernetes_json import Object
from scheduling.kube import rbac
from scheduling.kube.connection import errors, resource_kinds
from scheduling.kube.connection.port import ResourceKind
from scheduling.models import ClusterState, Workflow
from scheduling.selectors.cluster.queue_sync_state import queue_sync_body
from scheduling.selectors.status.problems import ProblemCode, cluster_problems
from scheduling.services.kubernetes import connections
from scheduling.services.kubernetes.agent import AgentIntervals, ClusterAgent
from scheduling.services.kubernetes.connection_test import run_connection_test
from scheduling.services.kubernetes.dispatching import dispatch
from scheduling.services.kubernetes.syncing.queue_sync import sync_backend_queues
from tests.support import world
from tests.support.agent_harness import AgentHarness, find_group, gang_file, task_statuses
from tests.support.rbac_cluster import RbacCluster

FILES = "files: [{path: /tmp/run.sh, contents: 'ping {{host:other}}'}]"


@pytest.fixture
def lawful(fake_harness: AgentHarness, monkeypatch: pytest.MonkeyPatch) -> RbacCluster:
    """The agent, and every run of the worker, through a connection that has only these rights."""
    granted = RbacCluster(fake_harness.cluster, "osmo")
    monkeypatch.setattr(connections, "connect", lambda _: granted)
    fake_harness.agent = ClusterAgent(
        fake_harness.backend.pk, connect=lambda _: granted, intervals=AgentIntervals(recount=0, heartbeat=0)
    )  # type: ignore[arg-type, return-value]
    return granted


def test_the_rights_are_enough_and_every_one_is_needed(fake_harness: AgentHarness, lawful: RbacCluster) -> None:
    """Every right in the namespace is used, except those of watches, which a running agent uses."""
    fake_harness.pool.config["topology_keys"] = [{"key": "rack", "label": "rack"}]
    fake_harness.pool.save()
    run_connection_test(fake_harness.backend.pk)
    assert sync_backend_queues(fake_harness.backend.pk, manual=True).synced == "True"
    workflow = fake_harness.submit(gang_file("lead", "other", task_fields=FILES))
    fake_harness.start_work(workflow)
    fake_harness.finish_pods(*fake_harness.list_pods(workflow))
    fake_harness.run_agent()
    assert {status for _, _, status, _ in task_statuses(workflow)} == {"COMPLETED"}
    other = fake_harness.submit(gang_file("lead", "other", task_fields=FILES))
    fake_harness.run_agent()
    world.apply_change(CancelWorkflow(name=other.name), actor=world.admin_actor())
    fake_harness.run_agent()
    assert Workflow.objects.get(pk=other.pk).status == "FAILED_CANCELED"
    for kind in (resource_kinds.POD, resource_kinds.POD_GROUP, resource_kinds.SECRET, resource_kinds.SERVICE):
        assert fake_harness.cluster.list(kind, namespace="osmo").items == [], kind
    assert KubernetesSettings.objects.get().backend.queue_sync.connection_test["ok"]

    fake_harness.submit()
    fake_harness.run_agent()
    (pod,), (pod_group,) = fake_harness.list_pods(), fake_harness.list_pod_groups()
    bare = {"metadata": {"labels": {"osmo.house": None}}}
    moved = {"spec": {"queue": "elsewhere"}}
    for kind, there, change in ((resource_kinds.POD, pod, bare), (resource_kinds.POD_GROUP, pod_group, moved)):
        fake_harness.cluster.merge(kind, there["metadata"]["name"], change, field_manager="somebody", namespace="osmo")
    fake_harness.run_agent()
    given = {(kind.plural, verb) for kind, verbs in rbac.NAMESPACE_RULES for verb in verbs}
    watched = {(kind.plural, "watch") for kind in (resource_kinds.POD, resource_kinds.POD_GROUP)}
    other_rights = {
        (kind.plural, "get") for kind in (resource_kinds.SECRET, resource_kinds.SERVICE, resource_kinds.POD_GROUP)
    }  # read only when the name of a new object exists already
    election = {("leases", verb) for verb in ("get", "create", "patch")}  # used by a running agent
    shown = {("pods/log", "get"), ("events", "list")}  # used by web processes: test_pod_output.py
    assert given - lawful.used_rights <= watched | other_rights | election | shown


@pytest.mark.parametrize(
    "lost", [("podgroups", "create"), ("secrets", "create"), ("services", "create"), ("pods", "create")], ids=" ".join
)
def test_a_right_that_is_lost_before_the_start_holds_the_work_until_it_is_back(
    fake_harness: AgentHarness, lawful: RbacCluster, lost: tuple[str, str]
) -> None:
    workflow = fake_harness.submit(gang_file("lead", "other", task_fields=FILES))
    given = lawful.take_away(*lost)
    fake_harness.run_agent()
    reason = find_group(workflow).waiting_reason
    assert reason is not None
    assert reason["code"] == "cluster_fault"
    assert "forbids this call; give its account the rights" in reason["message"]
    lawful.restore(given)
    _finish(fake_harness, workflow, "COMPLETED")


@pytest.mark.parametrize(
    ("lost", "told"),
    [
        (("pods", "delete"), "Objects of ended work stay in the cluster"),
        (("pods", "patch"), "Objects of ended work stay in the cluster"),
        (("podgroups", "delete"), "Objects of ended work stay in the cluster"),
        (("secrets", "list"), "The use of nodes by others is not counted"),
    ],
    ids=str,
)
def test_people_are_told_of_a_right_that_is_lost_until_it_is_back(
    fake_harness: AgentHarness, lawful: RbacCluster, lost: tuple[str, str], told: str
) -> None:
    """Once it is back, nothing is left behind."""
    workflow = fake_harness.submit(gang_file("lead", "other", task_fields=FILES))
    fake_harness.start_work()
    given = lawful.take_away(*lost)
    world.apply_change(CancelWorkflow(name=workflow.name), actor=world.admin_actor())
    fake_harness.run_agent()
    fake_harness.run_agent()
    assert lost[1] == "list" or fake_harness.list_pods() + fake_harness.list_pod_groups()
    (problem,) = cluster_problems(SYSTEM)
    assert (problem.code, problem.subject) == (ProblemCode.REFUSED_CALL, "backend/lab")
    assert problem.message.startswith(f"Cluster lab: {told}")
    assert "give its account the rights of the manifest" in problem.message
    assert queue_sync_body(fake_harness.backend)["contact_error"] in problem.message
    lawful.restore(given)
    fake_harness.run_agent()
    fake_harness.run_agent()
    assert list(cluster_problems(SYSTEM)) == []
    _finish(fake_harness, workflow, "FAILED_CANCELED")


def test_people_are_told_that_an_edit_by_others_cannot_be_put_back(
    fake_harness: AgentHarness, lawful: RbacCluster
) -> None:
    fake_harness.submit()
    fake_harness.run_agent()
    given = lawful.take_away("podgroups", "patch")
    (pod_group,) = fake_harness.list_pod_groups()
    change, name = {"spec": {"queue": "elsewhere"}}, pod_group["metadata"]["name"]
    fake_harness.cluster.merge(resource_kinds.POD_GROUP, name, change, field_manager="somebody", namespace="osmo")
    fake_harness.run_agent()
    fake_harness.run_agent()
    (problem,) = cluster_problems(SYSTEM)
    assert problem.message.startswith("Cluster lab: A change by another client stays")
    lawful.restore(given)
    fake_harness.agent = ClusterAgent(
        fake_harness.backend.pk, connect=connections.connect, intervals=AgentIntervals(heartbeat=0)
    )
    fake_harness.run_agent()
    assert list(cluster_problems(SYSTEM)) == []


def test_a_call_that_fails_with_500_stops_no_other_work(
    fake_harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the pods of one pool do whose webhook does not answer: the cluster is not silent."""
    real = fake_harness.cluster.create
    tries: list[str] = []

    def create(kind: ResourceKind, body: Object, **options: Any) -> Object:
        if kind is resource_kinds.POD and body["metadata"]["labels"]["osmo.workflow_id"] == failing.name:
            tries.append(failing.name)
            raise errors.ServerError("failed calling webhook", status=500)
        return real(kind, body, **options)

    monkeypatch.setattr(fake_harness.cluster, "create", create)
    monkeypatch.setattr(dispatch, "FIRST_PAUSE", 60.0)
    fake_harness.agent = ClusterAgent(
        fake_harness.backend.pk, connect=lambda _: fake_harness.cluster, intervals=AgentIntervals(heartbeat=0)
    )
    failing = fake_harness.submit()
    running = fake_harness.submit()
    fake_harness.start_work(running)
    world.apply_change(CancelWorkflow(name=running.name), actor=world.admin_actor())
    later = fake_harness.submit()
    fake_harness.run_agent(4)
    assert fake_harness.list_pods(running) == [], "pods of ended work are deleted"
    assert fake_harness.list_pods(later), "other work starts"
    assert len(tries) == 1, "it has a pause"
    assert ClusterState.objects.get().error == ""
    reason = find_group(failing).waiting_reason
    assert reason is not None
    assert "failed calling webhook" in reason["message"]


def test_faults_that_take_long_leave_the_rest_to_the_next_round(
    fake_harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two rounds the agent tells that the cluster answers."""
    real, real_hold_back = fake_harness.cluster.create, dispatch.hold_back
    tries: list[str] = []

    def create(kind: ResourceKind, body: Object, **options: Any) -> Object:
        if kind is resource_kinds.POD:
            tries.append(body["metadata"]["labels"]["osmo.workflow_id"])
            if tries[-1] == tries[1]:
                raise errors.ServerError("failed calling webhook", status=500)
        return real(kind, body, **options)

    def hold_back(*arguments: Any) -> Any:
        tries.append("a round")
        return real_hold_back(*arguments)

    monkeypatch.setattr(fake_harness.cluster, "create", create)
    monkeypatch.setattr(dispatch, "hold_back", hold_back)
    for name, value in (("FIRST_PAUSE", 60.0), ("BATCH_SIZE", 1), ("PATIENCE", -1.0)):
        monkeypatch.setattr(dispatch, name, value)
    names = {fake_harness.submit().name, fake_harness.submit().name}
    fake_harness.run_agent(3)
    assert tries[0] == tries[2] == "a round"
    assert {tries[1], tries[3]} == names


def _finish(harness: AgentHarness, workflow: Workflow, status: str) -> None:
    """The work ends, with a new agent, which makes no pause, and nothing is left in the cluster."""
    harness.agent = ClusterAgent(harness.backend.pk, connect=connections.connect, intervals=AgentIntervals(recount=0))
    harness.start_work()
    harness.finish_pods(*harness.list_pods())
    harness.run_agent()
    workflow.refresh_from_db()
    assert workflow.status == status
    for kind in (resource_kinds.POD, resource_kinds.POD_GROUP, resource_kinds.SECRET, resource_kinds.SERVICE):
        assert harness.cluster.list(kind, namespace="osmo").items == [], kind


def test_without_a_right_the_call_is_refused(lawful: RbacCluster) -> None:
    """The fake cluster enforces the rights."""
    pod = {"metadata": {"name": "p", "namespace": "elsewhere"}, "spec": {"containers": []}}
    with pytest.raises(errors.AccessDenied, match="create pods in elsewhere"):
        lawful.create(resource_kinds.POD, pod, field_manager="osmo-admin")
    with pytest.raises(errors.AccessDenied, match="list secrets in the cluster"):
        lawful.list(resource_kinds.SECRET)
