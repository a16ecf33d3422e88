"""A submitted workflow becomes objects in its cluster, follows them to its end, and leaves nothing behind."""

from __future__ import annotations

from pools.models import Reservation
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.domain.priorities import Priority
from scheduling.kube.connection import resource_kinds
from scheduling.models import Workflow
from scheduling.services.verify import verify
from tests.support.agent_harness import AgentHarness, find_group, gang_file, task_statuses
from tests.support.kube_server import with_a_real_one


@with_a_real_one("harness")
def test_from_submission_to_the_end(harness: AgentHarness) -> None:
    workflow = harness.submit(gang_file("lead", "other", gpus=4), priority=Priority.LOW)
    harness.run_agent()
    (pod_group,) = harness.list_pod_groups()
    assert pod_group["metadata"]["name"] == str(find_group(workflow).pk)
    assert pod_group["spec"]["queue"] == f"osmo-pool-{harness.backend.namespace}-team---shared"
    assert (pod_group["spec"]["priorityClassName"], pod_group["spec"]["minMember"]) == ("osmo-low", 2)
    pods = harness.list_pods(workflow)
    assert [pod["metadata"]["name"] for pod in pods] == [
        str(pk) for pk in find_group(workflow).tasks.order_by("name").values_list("pk", flat=True)
    ]
    assert all(pod["metadata"]["annotations"]["pod-group-name"] == str(find_group(workflow).pk) for pod in pods)

    harness.run_pods(pods[0])
    harness.run_agent()
    workflow.refresh_from_db()
    assert (workflow.status, find_group(workflow).status) == ("RUNNING", "RUNNING")
    assert Reservation.objects.get(workflow=workflow.pk).held_gpus == 4  # of the running pods only
    assert verify() == []
    harness.run_pods(pods[1])
    harness.run_agent()
    assert Reservation.objects.get(workflow=workflow.pk).held_gpus == 8
    assert verify() == []

    harness.finish_pods(pods[0])
    harness.run_agent()
    workflow.refresh_from_db()
    assert workflow.status == "COMPLETED"
    assert task_statuses(workflow) == [("lead", 0, "COMPLETED", 0), ("other", 0, "COMPLETED", 0)]
    assert not Reservation.objects.exists()
    assert (harness.list_pods(), harness.list_pod_groups()) == ([], [])
    assert verify() == []


def test_a_reconciliation_without_changes_writes_nothing(harness: AgentHarness) -> None:
    workflow = harness.submit(gpus=2)
    harness.start_work(workflow)
    before = harness.list_pods() + harness.list_pod_groups()
    harness.run_agent()
    assert harness.list_pods() + harness.list_pod_groups() == before


def test_groups_follow_one_another(harness: AgentHarness) -> None:
    workflow = harness.submit(
        "workflow:\n  name: chain\n  tasks:\n  - {name: first, image: i, command: [c]}\n"
        "  - {name: second, image: i, command: [c], inputs: [{task: first}]}\n"
    )
    harness.run_agent()
    assert [pod["metadata"]["labels"]["osmo.task_name"] for pod in harness.list_pods()] == ["first"]
    harness.finish_pods(*harness.list_pods())
    harness.run_agent()
    assert [pod["metadata"]["labels"]["osmo.task_name"] for pod in harness.list_pods()] == ["second"]
    harness.finish_pods(*harness.list_pods(), code=3)
    harness.run_agent()
    assert task_statuses(workflow) == [("first", 0, "COMPLETED", 0), ("second", 0, "FAILED", 3)]
    assert Workflow.objects.get().status == "FAILED"
    assert harness.list_pods() == []


@with_a_real_one("harness")
def test_files_and_host_names_come_and_go_with_their_gang(harness: AgentHarness) -> None:
    file = gang_file("lead", "other", task_fields="files: [{path: /tmp/run.sh, contents: 'ping {{host:other}}'}]")
    harness.submit(file)
    harness.run_agent()
    here = harness.backend.namespace
    secrets = harness.cluster.list(resource_kinds.SECRET, namespace=here).items
    assert len(secrets) == 2
    (service,) = [
        each
        for each in harness.cluster.list(resource_kinds.SERVICE, namespace=here).items
        if "gang-" in each["metadata"]["name"]
    ]
    assert harness.list_pods()[0]["spec"]["subdomain"] == service["metadata"]["name"]
    (pod_group,) = harness.list_pod_groups()
    assert secrets[0]["metadata"]["ownerReferences"][0]["uid"] == pod_group["metadata"]["uid"]
    harness.finish_pods(*harness.list_pods())
    harness.run_agent()
    assert harness.cluster.list(resource_kinds.SECRET, namespace=here).items == []
    left = harness.cluster.list(resource_kinds.SERVICE, namespace=here).items
    assert [each for each in left if "gang-" in each["metadata"]["name"]] == []


def test_a_subpool_has_its_own_queue(fake_harness: AgentHarness) -> None:
    harness = AgentHarness.make(fake_harness.cluster, "osmo-b", name="other", pool="split", a=40)
    harness.cluster.create(resource_kinds.NAMESPACE, {"metadata": {"name": "osmo-b"}}, field_manager="test")
    harness.submit(to="split--a")
    harness.run_agent()
    assert [each["spec"]["queue"] for each in harness.list_pod_groups()] == ["osmo-pool-osmo-b-split--a"]


def test_the_objects_of_a_cancelled_workflow_are_deleted(harness: AgentHarness) -> None:
    from scheduling.services.workflows.user_actions import cancel_workflow
    from tests.support import world

    workflow = harness.submit(gang_file("lead", "other"))
    harness.run_agent()
    harness.run_pods(harness.list_pods()[0])
    harness.run_agent()
    cancel_workflow(CancelWorkflow(name=workflow.name), actor=world.admin_actor())
    harness.run_agent()
    assert (harness.list_pods(), harness.list_pod_groups()) == ([], [])
    assert {status for _, _, status, _ in task_statuses(workflow)} == {"FAILED_CANCELED"}
    assert verify() == []
