"""Changes of pods in a cluster, and their effect on tasks, gangs and usage."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.utils import timezone

from pools.domain.changes.subpools import CreateSubpool, DeleteSubpool
from pools.domain.people.roles import SYSTEM
from pools.models import Pool, Reservation
from scheduling.domain.kubernetes_json import Object
from scheduling.domain.priorities import Priority
from scheduling.domain.receipts.words import PREEMPTED_BY_CLUSTER
from scheduling.models import Decision, Interruption, LostCount, Task, Workflow, WorkflowConfig
from scheduling.services.verify import verify
from tests.support import world
from tests.support.agent_harness import AgentHarness, find_group, gang_file, task_statuses, task_uuid_of
from tests.support.fake_cluster import FakeCluster
from tests.support.kube_server import FAKE_THEN_REAL, create_namespace, with_a_real_one


def start_workflow(harness: AgentHarness, file: str, **submission: Priority) -> Workflow:
    """Submit a workflow and start all its pods."""
    workflow = harness.submit(file, **submission)
    harness.start_work(workflow)
    return workflow


@with_a_real_one("harness")
def test_a_preempted_gang_waits_again_with_new_pods(harness: AgentHarness) -> None:
    workflow = start_workflow(harness, gang_file("lead", "other", gpus=2), priority=Priority.LOW)
    old = harness.list_pods(workflow)
    submitted = Workflow.objects.get().submit_time
    harness.evict_pods(old[1])
    harness.run_agent()
    assert task_statuses(workflow) == [
        ("lead", 0, "FAILED_PREEMPTED", 3006),
        ("lead", 1, "SCHEDULING", None),
        ("other", 0, "FAILED_PREEMPTED", 3006),
        ("other", 1, "SCHEDULING", None),
    ]
    assert Task.objects.filter(retry_id=0)[0].failure_message == PREEMPTED_BY_CLUSTER
    assert Interruption.objects.get().note == "needed elsewhere"
    workflow.refresh_from_db()
    assert (workflow.status, workflow.submit_time) == ("PENDING", submitted)
    assert Reservation.objects.get().held_gpus == 0
    new = harness.list_pods(workflow)
    assert [pod["metadata"]["labels"]["osmo.retry_id"] for pod in new] == ["1", "1"]
    assert not {task_uuid_of(pod) for pod in new} & {task_uuid_of(pod) for pod in old}
    assert [each["metadata"]["name"] for each in harness.list_pod_groups()] == [str(find_group(workflow).pk)]
    assert verify() == []
    harness.run_pods(*new)
    harness.run_agent()
    assert Reservation.objects.get().held_gpus == 4


def test_exit_actions_may_end_a_preempted_gang(fake_harness: AgentHarness) -> None:
    workflow = start_workflow(
        fake_harness, gang_file("lead", task_fields="exitActions: {FAIL: '3006'}"), priority=Priority.LOW
    )
    fake_harness.evict_pods(*fake_harness.list_pods())
    fake_harness.run_agent()
    assert task_statuses(workflow) == [("lead", 0, "FAILED_PREEMPTED", 3006)]
    assert Workflow.objects.get().status == "FAILED_PREEMPTED"
    assert fake_harness.list_pods() == []
    assert [(action, gpus) for action, _, gpus, _ in read_decisions(workflow)] == [("start", 1), ("preempt", 1)]


def test_a_missing_image(harness: AgentHarness) -> None:
    workflow = harness.submit()
    harness.run_agent()
    harness.set_container_waiting(harness.list_pods()[0], "ImagePullBackOff", 'Back-off pulling image "ubuntu"')
    harness.run_agent()
    assert task_statuses(workflow) == [("train", 0, "FAILED_IMAGE_PULL", None)]
    workflow.refresh_from_db()
    assert workflow.status == "FAILED_IMAGE_PULL"
    assert "Back-off pulling" in workflow.failure_message
    assert (harness.list_pods(), harness.list_pod_groups()) == ([], [])


WAYS_TO_LOSE_A_POD = ["deleted", "node lost", "evicted", "vanished"]


def lose(harness: AgentHarness, pod: Object, how: str) -> None:
    if how == "deleted":
        harness.delete_pod(pod)
        assert pod["metadata"]["name"] in {each["metadata"]["name"] for each in harness.list_pods()}, (
            "our finalizer keeps it until its end is observed"
        )
    elif how == "node lost":
        harness.evict_pods(pod, reason="DeletionByTaintManager", message="Taint manager: deleting")
    elif how == "evicted":
        harness.set_pod_status(pod, phase="Failed", reason="Evicted", message="The node was low on memory.")
    else:
        harness.force_delete_pod(pod)


@pytest.mark.parametrize("how", WAYS_TO_LOSE_A_POD)
def test_a_lost_pod_is_not_created_again(harness: AgentHarness, how: str) -> None:
    workflow = start_workflow(harness, gang_file("lead"))
    lose(harness, harness.list_pods()[0], how)
    harness.run_agent()
    end = ("FAILED_EVICTED", 3004) if how == "evicted" else ("FAILED_BACKEND_ERROR", 3001)
    assert task_statuses(workflow) == [("lead", 0, *end)]
    assert how != "vanished" or "gone" in Task.objects.get().failure_message
    assert harness.list_pods() == []


def test_an_end_while_no_agent_runs_is_observed_later(harness: AgentHarness) -> None:
    workflow = harness.submit(gang_file("lead", "other"))
    harness.run_agent()
    lead, other = harness.list_pods()
    harness.run_pods(lead, other)
    harness.finish_pods(other, code=7)
    harness.delete_pod(other)
    harness.finish_pods(lead)
    harness.delete_pod(lead)
    harness.run_agent()
    assert task_statuses(workflow) == [("lead", 0, "COMPLETED", 0), ("other", 0, "FAILED", 7)]
    assert Workflow.objects.get().status == "COMPLETED"
    assert harness.list_pods() == []


def test_a_gang_that_lost_a_task_lowers_its_minimum(harness: AgentHarness) -> None:
    """KAI would evict a gang below its minimum, although its lead continues."""
    workflow = start_workflow(harness, gang_file("lead", "helper"))
    harness.finish_pods(harness.find_pod(workflow, "helper"), code=1)
    harness.run_agent()
    assert [each["spec"]["minMember"] for each in harness.list_pod_groups()] == [1]
    assert len(harness.list_pods()) == 1
    assert verify() == []


def test_every_status_may_count(fake_harness: AgentHarness) -> None:
    workflow = start_workflow(fake_harness, gang_file("lead", "helper", ignore_nonlead=False))
    fake_harness.finish_pods(fake_harness.find_pod(workflow, "helper"), code=9)
    fake_harness.run_agent()
    assert Workflow.objects.get().status == "FAILED"
    assert ("helper", 0, "FAILED", 9) in task_statuses(workflow)
    assert fake_harness.list_pods() == []


def test_a_task_is_retried_as_often_as_the_settings_allow(harness: AgentHarness) -> None:
    WorkflowConfig.objects.update_or_create(pk=1, defaults={"max_retry_per_task": 1})
    workflow = start_workflow(harness, gang_file("lead", task_fields="exitActions: {RESCHEDULE: '1-9'}"))
    harness.finish_pods(*harness.list_pods(), code=5)
    harness.run_agent()
    assert task_statuses(workflow) == [("lead", 0, "RESCHEDULED", 5), ("lead", 1, "SCHEDULING", None)]
    (pod,) = harness.list_pods()
    harness.run_pods(pod)
    harness.finish_pods(pod, code=6)
    harness.run_agent()
    assert task_statuses(workflow) == [("lead", 0, "RESCHEDULED", 5), ("lead", 1, "FAILED", 6)]
    assert harness.list_pods() == []


def test_exit_actions_of_the_file_apply_to_exit_codes(fake_harness: AgentHarness) -> None:
    workflow = start_workflow(fake_harness, gang_file("lead", task_fields="exitActions: {COMPLETE: '4'}"))
    fake_harness.finish_pods(*fake_harness.list_pods(), code=4)
    fake_harness.run_agent()
    assert task_statuses(workflow) == [("lead", 0, "COMPLETED", 4)]
    assert Workflow.objects.get().status == "COMPLETED"


ELASTIC = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata:
  name: elastic
  annotations: {osmo/pods: "3", osmo/image: ubuntu, osmo/command: "[sh]", osmo/gpus-per-pod: "1"}
spec:
  priorityClassName: osmo-low
  minMember: 2
"""


def test_a_surplus_pod_is_lost_alone(fake_harness: AgentHarness) -> None:
    workflow = start_workflow(fake_harness, ELASTIC)
    assert Reservation.objects.get().held_gpus == 3
    fake_harness.evict_pods(fake_harness.list_pods()[2])
    fake_harness.run_agent()
    assert [status for *_, status, _ in task_statuses(workflow)] == [
        "RUNNING",
        "RUNNING",
        "FAILED_PREEMPTED",
        "SCHEDULING",
    ]
    assert (Workflow.objects.get().status, Reservation.objects.get().held_gpus) == ("RUNNING", 2)
    fake_harness.evict_pods(fake_harness.find_pod(workflow, "elastic-1"))
    fake_harness.run_agent()
    assert {status for *_, status, _ in task_statuses(workflow)} == {"FAILED_PREEMPTED", "SCHEDULING"}
    assert (Workflow.objects.get().status, Reservation.objects.get().held_gpus) == ("PENDING", 0)
    assert verify() == []


OPTIONAL = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata:
  name: service
  annotations: {osmo/image: ubuntu, osmo/command: "[sh]", osmo/gpus-per-pod: "1"}
spec:
  priorityClassName: osmo-low
  minSubGroup: 1
  subGroups:
  - {name: a, minMember: 2}
  - {name: b, minMember: 2}
"""

TREE = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata:
  name: service
  annotations: {osmo/image: ubuntu, osmo/command: "[sh]", osmo/gpus-per-pod: "1"}
spec:
  priorityClassName: osmo-low
  minSubGroup: 1
  subGroups:
  - {name: x, minSubGroup: 2}
  - {name: x-one, parent: x, minMember: 1}
  - {name: x-two, parent: x, minMember: 1}
  - {name: y, minSubGroup: 1}
  - {name: y-one, parent: y, minMember: 1}
  - {name: y-two, parent: y, minMember: 1}
"""


def latest(workflow: Workflow) -> dict[str, tuple[int, str]]:
    """The last attempt of each task and its status."""
    return {name: (retry, status) for name, retry, status, _ in task_statuses(workflow)}


@pytest.fixture(params=FAKE_THEN_REAL)
def newer_harness(request: pytest.FixtureRequest, ledger: None) -> Iterator[AgentHarness]:
    """On both clusters, with a KAI that knows `minSubGroup`."""
    if request.param == "fake":
        yield AgentHarness.make(FakeCluster(namespaces=["osmo"]), "osmo")
        return
    cluster = request.getfixturevalue("newer_kube_server").connect()
    yield AgentHarness.make(cluster, create_namespace(cluster))
    cluster.close()


@pytest.mark.parametrize("how", WAYS_TO_LOSE_A_POD)
def test_a_lost_pod_of_an_optional_subgroup_gets_another_attempt(newer_harness: AgentHarness, how: str) -> None:
    harness = newer_harness
    workflow = start_workflow(harness, OPTIONAL)
    lose(harness, harness.find_pod(workflow, "b-1"), how)
    harness.run_agent()
    lost = "FAILED_EVICTED" if how == "evicted" else "FAILED_BACKEND_ERROR"
    assert ("b-1", 0, lost) in [(name, retry, status) for name, retry, status, _ in task_statuses(workflow)]
    assert latest(workflow) == {
        "a-0": (0, "RUNNING"), "a-1": (0, "RUNNING"), "b-0": (0, "RUNNING"), "b-1": (1, "SCHEDULING"),
    }  # fmt: skip
    harness.run_pods(harness.find_pod(workflow, "b-1", retry=1))
    harness.run_agent()
    assert latest(workflow)["b-1"] == (1, "RUNNING")
    harness.finish_pods(*(harness.find_pod(workflow, name) for name in ("a-0", "a-1", "b-0")))
    harness.finish_pods(harness.find_pod(workflow, "b-1", retry=1))
    harness.run_agent()
    assert Workflow.objects.get(pk=workflow.pk).status == "COMPLETED"


def test_a_tree_goes_on_while_one_of_its_branches_holds(fake_harness: AgentHarness) -> None:
    workflow = start_workflow(fake_harness, TREE)
    fake_harness.delete_pod(fake_harness.find_pod(workflow, "x-one-0"))
    fake_harness.delete_pod(fake_harness.find_pod(workflow, "y-two-0"))
    fake_harness.run_agent()
    assert latest(workflow) == {
        "x-one-0": (1, "SCHEDULING"), "x-two-0": (0, "RUNNING"), "y-one-0": (0, "RUNNING"),
        "y-two-0": (1, "SCHEDULING"),
    }  # fmt: skip
    fake_harness.delete_pod(fake_harness.find_pod(workflow, "y-one-0"))
    fake_harness.run_agent()
    assert Workflow.objects.get(pk=workflow.pk).status == "FAILED_BACKEND_ERROR", "half of x is not the minimum"


def test_a_pod_that_is_lost_again_and_again_stays_away(
    fake_harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduling.services.kubernetes.dispatching.observation.MAX_REPLACEMENTS", 1)
    workflow = start_workflow(fake_harness, OPTIONAL)
    for retry in (0, 1):
        pod = fake_harness.find_pod(workflow, "b-0", retry=retry)
        fake_harness.run_pods(pod)
        fake_harness.finish_pods(pod, code=137, reason="OOMKilled")
        fake_harness.run_agent()
    assert latest(workflow)["b-0"] == (1, "FAILED_EVICTED")
    assert Workflow.objects.get(pk=workflow.pk).status == "RUNNING"
    fake_harness.finish_pods(*(fake_harness.find_pod(workflow, name) for name in ("a-0", "a-1", "b-1")))
    fake_harness.run_agent()
    assert Workflow.objects.get(pk=workflow.pk).status == "COMPLETED"
    assert verify() == []


def test_waiting_longer_than_allowed_deletes_the_pods(harness: AgentHarness) -> None:
    workflow = harness.submit(gang_file("lead", workflow_lines=["timeout: {queue_timeout: 1h}"]))
    harness.run_agent()
    assert harness.list_pods()
    group = find_group(workflow)
    group.ready_at = timezone.now() - timedelta(hours=2)
    group.due_at = group.ready_at + timedelta(hours=1)
    group.save()
    harness.run_agent()
    assert task_statuses(workflow) == [("lead", 0, "FAILED_QUEUE_TIMEOUT", None)]
    assert (harness.list_pods(), harness.list_pod_groups()) == ([], [])


def test_running_longer_than_allowed_deletes_the_pods(harness: AgentHarness) -> None:
    workflow = start_workflow(harness, gang_file("lead", workflow_lines=["timeout: {exec_timeout: 1h}"]))
    past = timezone.now() - timedelta(hours=2)
    Workflow.objects.filter(pk=workflow.pk).update(start_time=past)
    group = find_group(workflow)
    group.due_at = past + timedelta(hours=1)
    group.save()
    harness.run_agent()
    assert Workflow.objects.get().status == "FAILED_EXEC_TIMEOUT"
    assert (harness.list_pods(), harness.list_pod_groups()) == ([], [])


def test_the_waiting_reason_is_that_of_kai(harness: AgentHarness) -> None:
    workflow = harness.submit(gpus=8)
    harness.run_agent()
    assert find_group(workflow).waiting_reason is None
    harness.mark_unschedulable(
        harness.list_pod_groups()[0],
        "NonPreemptibleOverQuota",
        "over quota in queue osmo-pool-ns-team",
        name="osmo-pool-ns-team",
        podGroupRequestedNonPreemptibleResources={"gpu": "8"},
        queueDeservedResources={"gpu": "4"},
        queueAllocatedNonPreemptibleResources={"gpu": "1"},
        queueResourceLimits={"gpu": "-1"},
    )
    harness.run_agent()
    assert find_group(workflow).waiting_reason == {
        "code": "over_quota",
        "message": "over quota in queue osmo-pool-ns-team",
        "reason": "NonPreemptibleOverQuota",
        "queue": "osmo-pool-ns-team",
        "requested": 8,
        "quota": 4,
        "used": 1,
        "limit": -1,
    }
    harness.run_pods(*harness.list_pods())
    harness.run_agent()
    assert find_group(workflow).waiting_reason is None


def test_repeated_late_and_unordered_reports_change_nothing(fake_harness: AgentHarness) -> None:
    workflow = start_workflow(fake_harness, gang_file("lead"))
    task = Task.objects.get()
    fake_harness.set_pod_status(fake_harness.list_pods()[0], phase="Pending", containerStatuses=[])
    fake_harness.run_agent()
    assert task_statuses(workflow) == [("lead", 0, "RUNNING", None)]
    fake_harness.finish_pods(*fake_harness.list_pods())
    fake_harness.run_agent()
    ended = Task.objects.get()
    fake_harness.run_agent()
    assert (Task.objects.get().end_time, ended.start_time) == (ended.end_time, task.start_time)


def test_the_node_of_a_task_is_recorded(fake_harness: AgentHarness) -> None:
    harness = fake_harness
    workflow = harness.submit()
    harness.run_agent()
    (pod,) = harness.list_pods()
    harness.bind_pod(pod, "gpu-1")
    harness.run_agent()
    assert (Task.objects.get().status, Task.objects.get().node_name) == ("INITIALIZING", "gpu-1")
    assert find_group(workflow).status == "INITIALIZING"
    harness.run_pods(pod)
    harness.run_agent()
    task = Task.objects.get()
    assert (task.status, task.node_name, task.pod_ip) == ("RUNNING", "gpu-1", "10.0.0.7")
    assert task.start_time is not None


def read_decisions(workflow: Workflow) -> list[tuple[str, list[str], int, str]]:
    """The decisions about a workflow: action, tasks, GPUs, message."""
    rows = Decision.objects.filter(workflow=workflow).order_by("id")
    return [(row.action, row.tasks, row.gpus, row.message) for row in rows]


@with_a_real_one("harness")
def test_decisions_of_the_cluster_are_recorded_once(harness: AgentHarness) -> None:
    """Starts and preemptions are recorded in the transaction that writes the observation."""
    workflow = start_workflow(harness, gang_file("lead", "other", gpus=2), priority=Priority.LOW)
    name = workflow.name
    start = ("start", ["lead", "other"], 4, f"{name} starts in team with 4 GPUs.")
    assert read_decisions(workflow) == [start]
    harness.evict_pods(harness.list_pods()[1])
    harness.run_agent()
    lost = ("preempt", ["lead", "other"], 4, f"The scheduler of the cluster took 4 GPUs in team from {name}.")
    assert read_decisions(workflow) == [start, lost]
    harness.run_pods(*harness.list_pods(workflow))
    harness.run_agent()
    harness.new_agent().relist_and_reconcile()
    assert read_decisions(workflow) == [start, lost, start]
    rows = Decision.objects.filter(workflow=workflow)
    assert {row.backend_id for row in rows} == {harness.backend.pk}
    assert all(row.for_workflow_id is None for row in rows)
    assert verify() == []


def test_pods_that_follow_later_make_a_gang_grow(fake_harness: AgentHarness) -> None:
    workflow = fake_harness.submit(gang_file("lead", "other"))
    fake_harness.run_agent()
    lead, other = fake_harness.list_pods(workflow)
    for pod in (lead, other):
        fake_harness.run_pods(pod)
        fake_harness.run_agent()
    assert [(action, tasks) for action, tasks, *_ in read_decisions(workflow)] == [
        ("start", ["lead"]),
        ("start", ["other"]),
    ]
    assert read_decisions(workflow)[1][3] == f"{workflow.name} grows in team with 1 GPU."


def test_a_pod_that_ran_between_two_reconciliations_did_start(fake_harness: AgentHarness) -> None:
    workflow = fake_harness.submit()
    fake_harness.run_agent()
    (pod,) = fake_harness.list_pods()
    over = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": "2026-01-01T00:00:00Z"}}
    fake_harness.set_pod_status(
        pod, phase="Succeeded", containerStatuses=[{"name": pod["spec"]["containers"][0]["name"], "state": over}]
    )
    fake_harness.run_agent()
    assert [action for action, *_ in read_decisions(workflow)] == ["start"]


class TestReceipts:
    """Of attempts that a cluster ended, in its own words; where it says nothing, the cause is not known."""

    @pytest.mark.parametrize(
        ("words", "cause", "is_for_us"),
        [
            ("needed elsewhere", "not_known", False),
            ("Pod ns/a was preempted by higher priority workload ns/{taker}", "priority", True),
            ("Pod ns/a was preempted by higher priority workload ns/pg-other-1", "priority", False),
            ("Pod ns/a was preempted by workload ns/{taker}. q uses <1> with a quota of <2>.", "reclaim", True),
        ],
    )
    def test_a_preemption(self, fake_harness: AgentHarness, words: str, cause: str, is_for_us: bool) -> None:
        victim = start_workflow(fake_harness, gang_file("lead", "other", gpus=1), priority=Priority.LOW)
        taker = fake_harness.submit(gang_file("lead", gpus=1))
        message = words.format(taker=find_group(taker).pk)
        fake_harness.evict_pods(fake_harness.list_pods(victim)[0], message=message)
        fake_harness.run_agent()
        row = Interruption.objects.get()
        assert (row.cause, row.for_workflow_id, row.note) == (cause, taker.pk if is_for_us else None, message)
        assert (row.numbers["loser"]["used"], "taker" in row.numbers) == (2, is_for_us)
        assert row.receipts.count() == 2
        assert verify() == []

    @pytest.mark.parametrize("reason", ["TerminationByKubelet", "DeletionByTaintManager"])
    def test_a_lost_node(self, fake_harness: AgentHarness, reason: str) -> None:
        workflow = start_workflow(fake_harness, gang_file("lead", "other", gpus=1))
        fake_harness.evict_pods(fake_harness.list_pods(workflow)[1], reason=reason, message="the node is gone")
        fake_harness.run_agent()
        row = Interruption.objects.get()
        assert (row.cause, row.note.endswith("the node is gone"), row.receipts.count()) == ("node", True, 1)
        assert verify() == []

    def test_memory_is_no_lost_node(self, fake_harness: AgentHarness) -> None:
        """Neither where the container used too much, nor where its node had too little; nor in the past."""
        for end in ("OOMKilled", "Evicted"):
            workflow = start_workflow(fake_harness, gang_file("lead", gpus=2))
            pod = fake_harness.list_pods(workflow)[0]
            if end == "Evicted":
                fake_harness.set_pod_status(pod, phase="Failed", reason=end, message="low on memory")
            else:
                fake_harness.finish_pods(pod, code=137, reason=end)
            fake_harness.run_agent()
        memory = [("evicted", "The task used more memory than it requested (OOMKilled)."), ("evicted", "low on memory")]
        assert list(Interruption.objects.order_by("id").values_list("cause", "note")) == memory
        lost = LostCount.objects.values_list("cause", "count").get()
        assert lost == ("evicted", 2)
        with world.triggers_off():
            Interruption.objects.update(cause="node")
            LostCount.objects.all().delete()
        world.run_bridge("UPDATE scheduling_interruption", "INSERT INTO scheduling_lostcount")
        assert list(Interruption.objects.order_by("id").values_list("cause", "note")) == memory
        assert LostCount.objects.values_list("cause", "count").get() == ("evicted", 2)
        assert verify() == []


def test_the_last_pod_of_a_draining_subpool_archives_it(fake_harness: AgentHarness) -> None:
    from pools.services.configuration.subpools import create_subpool

    create_subpool(CreateSubpool(parent="team", subpool_name="a", quota=10), actor=SYSTEM)
    workflow = fake_harness.submit(to="team--a")
    fake_harness.run_agent()
    fake_harness.run_pods(*fake_harness.list_pods())
    fake_harness.run_agent()
    world.apply_change(DeleteSubpool(parent="team", subpool_name="a"), actor=world.admin_actor())
    assert Pool.objects.get(name="team--a").subpool_state == "DELETING"
    fake_harness.finish_pods(*fake_harness.list_pods(workflow))
    fake_harness.run_agent()
    assert Pool.objects.get(name="team--a").subpool_state == "ARCHIVED"
