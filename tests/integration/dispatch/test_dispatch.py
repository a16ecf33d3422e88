"""A submitted workflow becomes objects in its cluster, follows them to its end, and leaves nothing behind."""

from __future__ import annotations

from pools.models import Reservation
from scheduling.domain.priorities import Priority
from scheduling.kube import resource_kinds
from scheduling.models import Workflow
from scheduling.services.verify import verify
from tests.support.agent_harness import AgentHarness, find_group, gang_file, task_statuses


def test_from_submission_to_the_end(room: AgentHarness) -> None:
    workflow = room.submit(gang_file("lead", "other", gpus=4), priority=Priority.LOW)
    room.run_agent()
    (pod_group,) = room.list_pod_groups()
    assert pod_group["metadata"]["name"] == str(find_group(workflow).pk)
    assert pod_group["spec"]["queue"] == f"osmo-pool-{room.backend.namespace}-team---shared"
    assert (pod_group["spec"]["priorityClassName"], pod_group["spec"]["minMember"]) == ("osmo-low", 2)
    pods = room.list_pods(workflow)
    assert [pod["metadata"]["name"] for pod in pods] == [
        str(pk) for pk in find_group(workflow).tasks.order_by("name").values_list("pk", flat=True)
    ]
    assert all(pod["metadata"]["annotations"]["pod-group-name"] == str(find_group(workflow).pk) for pod in pods)

    room.run_pods(pods[0])
    room.run_agent()
    workflow.refresh_from_db()
    assert (workflow.status, find_group(workflow).status) == ("RUNNING", "RUNNING")
    assert Reservation.objects.get(workflow=workflow.pk).held_gpus == 4  # what runs, not what will
    assert verify() == []
    room.run_pods(pods[1])
    room.run_agent()
    assert Reservation.objects.get(workflow=workflow.pk).held_gpus == 8
    assert verify() == []

    room.finish_pods(pods[0])
    room.run_agent()
    workflow.refresh_from_db()
    assert workflow.status == "COMPLETED"
    assert task_statuses(workflow) == [("lead", 0, "COMPLETED", 0), ("other", 0, "COMPLETED", 0)]
    assert not Reservation.objects.exists()
    assert (room.list_pods(), room.list_pod_groups()) == ([], [])
    assert verify() == []


def test_a_look_with_nothing_to_do_writes_nothing(room: AgentHarness) -> None:
    workflow = room.submit(gpus=2)
    room.run_agent()
    room.run_pods(*room.list_pods(workflow))
    room.run_agent()
    before = room.list_pods() + room.list_pod_groups()
    room.run_agent()
    assert room.list_pods() + room.list_pod_groups() == before


def test_groups_follow_one_another(room: AgentHarness) -> None:
    workflow = room.submit(
        "workflow:\n  name: chain\n  tasks:\n  - {name: first, image: i, command: [c]}\n"
        "  - {name: second, image: i, command: [c], inputs: [{task: first}]}\n"
    )
    room.run_agent()
    assert [pod["metadata"]["labels"]["osmo.task_name"] for pod in room.list_pods()] == ["first"]
    room.finish_pods(*room.list_pods())
    room.run_agent()
    assert [pod["metadata"]["labels"]["osmo.task_name"] for pod in room.list_pods()] == ["second"]
    room.finish_pods(*room.list_pods(), code=3)
    room.run_agent()
    assert task_statuses(workflow) == [("first", 0, "COMPLETED", 0), ("second", 0, "FAILED", 3)]
    assert Workflow.objects.get().status == "FAILED"
    assert room.list_pods() == []


def test_files_and_host_names_come_and_go_with_their_gang(room: AgentHarness) -> None:
    file = gang_file("lead", "other", task_fields="files: [{path: /tmp/run.sh, contents: 'ping {{host:other}}'}]")
    room.submit(file)
    room.run_agent()
    here = room.backend.namespace
    secrets = room.cluster.list(resource_kinds.SECRET, namespace=here).items
    assert len(secrets) == 2
    (service,) = [
        each
        for each in room.cluster.list(resource_kinds.SERVICE, namespace=here).items
        if "gang-" in each["metadata"]["name"]
    ]
    assert room.list_pods()[0]["spec"]["subdomain"] == service["metadata"]["name"]
    (pod_group,) = room.list_pod_groups()
    assert secrets[0]["metadata"]["ownerReferences"][0]["uid"] == pod_group["metadata"]["uid"]
    room.finish_pods(*room.list_pods())
    room.run_agent()
    assert room.cluster.list(resource_kinds.SECRET, namespace=here).items == []
    left = room.cluster.list(resource_kinds.SERVICE, namespace=here).items
    assert [each for each in left if "gang-" in each["metadata"]["name"]] == []


def test_a_slice_has_its_own_queue(twin: AgentHarness) -> None:
    room = AgentHarness.make(twin.cluster, "osmo-b", name="other", pool="split", a=40)
    room.cluster.create(resource_kinds.NAMESPACE, {"metadata": {"name": "osmo-b"}}, field_manager="test")
    room.submit(to="split--a")
    room.run_agent()
    assert [each["spec"]["queue"] for each in room.list_pod_groups()] == ["osmo-pool-osmo-b-split--a"]


def test_a_cancelled_workflow_is_taken_away(room: AgentHarness) -> None:
    from scheduling.services.workflows.user_actions import cancel_workflow
    from tests.support import factories

    workflow = room.submit(gang_file("lead", "other"))
    room.run_agent()
    room.run_pods(room.list_pods()[0])
    room.run_agent()
    cancel_workflow(actor=factories.admin_actor(), name=workflow.name)
    room.run_agent()
    assert (room.list_pods(), room.list_pod_groups()) == ([], [])
    assert {status for _, _, status, _ in task_statuses(workflow)} == {"FAILED_CANCELED"}
    assert verify() == []
