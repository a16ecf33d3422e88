"""A submitted workflow becomes objects in its cluster, follows them to its end, and leaves nothing behind."""

from __future__ import annotations

from pools.models import Reservation
from scheduling.domain.priorities import Priority
from scheduling.kube import kinds
from scheduling.models import Workflow
from scheduling.services.verify import verify
from tests.support.clusters import Room, file_of, group_of, statuses


def test_from_submission_to_the_end(room: Room) -> None:
    workflow = room.submit(file_of("lead", "other", gpus=4), priority=Priority.LOW)
    room.look()
    (pod_group,) = room.pod_groups()
    assert pod_group["metadata"]["name"] == str(group_of(workflow).pk)
    assert pod_group["spec"]["queue"] == f"osmo-pool-{room.backend.namespace}-team---shared"
    assert (pod_group["spec"]["priorityClassName"], pod_group["spec"]["minMember"]) == ("osmo-low", 2)
    pods = room.pods(workflow)
    assert [pod["metadata"]["name"] for pod in pods] == [
        str(pk) for pk in group_of(workflow).tasks.order_by("name").values_list("pk", flat=True)
    ]
    assert all(pod["metadata"]["annotations"]["pod-group-name"] == str(group_of(workflow).pk) for pod in pods)

    room.run(pods[0])
    room.look()
    workflow.refresh_from_db()
    assert (workflow.status, group_of(workflow).status) == ("RUNNING", "RUNNING")
    assert Reservation.objects.get(workflow=workflow.pk).held_gpus == 4  # what runs, not what will
    assert verify() == []
    room.run(pods[1])
    room.look()
    assert Reservation.objects.get(workflow=workflow.pk).held_gpus == 8
    assert verify() == []

    room.finish(pods[0])
    room.look()
    workflow.refresh_from_db()
    assert workflow.status == "COMPLETED"
    assert statuses(workflow) == [("lead", 0, "COMPLETED", 0), ("other", 0, "COMPLETED", 0)]
    assert not Reservation.objects.exists()
    assert (room.pods(), room.pod_groups()) == ([], [])
    assert verify() == []


def test_a_look_with_nothing_to_do_writes_nothing(room: Room) -> None:
    workflow = room.submit(gpus=2)
    room.look()
    room.run(*room.pods(workflow))
    room.look()
    before = room.pods() + room.pod_groups()
    room.look()
    assert room.pods() + room.pod_groups() == before


def test_groups_follow_one_another(room: Room) -> None:
    workflow = room.submit(
        "workflow:\n  name: chain\n  tasks:\n  - {name: first, image: i, command: [c]}\n"
        "  - {name: second, image: i, command: [c], inputs: [{task: first}]}\n"
    )
    room.look()
    assert [pod["metadata"]["labels"]["osmo.task_name"] for pod in room.pods()] == ["first"]
    room.finish(*room.pods())
    room.look()
    assert [pod["metadata"]["labels"]["osmo.task_name"] for pod in room.pods()] == ["second"]
    room.finish(*room.pods(), code=3)
    room.look()
    assert statuses(workflow) == [("first", 0, "COMPLETED", 0), ("second", 0, "FAILED", 3)]
    assert Workflow.objects.get().status == "FAILED"
    assert room.pods() == []


def test_files_and_host_names_come_and_go_with_their_gang(room: Room) -> None:
    file = file_of("lead", "other", more="files: [{path: /tmp/run.sh, contents: 'ping {{host:other}}'}]")
    room.submit(file)
    room.look()
    here = room.backend.namespace
    secrets = room.cluster.list(kinds.SECRET, namespace=here).items
    assert len(secrets) == 2
    (service,) = [
        each for each in room.cluster.list(kinds.SERVICE, namespace=here).items if "gang-" in each["metadata"]["name"]
    ]
    assert room.pods()[0]["spec"]["subdomain"] == service["metadata"]["name"]
    (pod_group,) = room.pod_groups()
    assert secrets[0]["metadata"]["ownerReferences"][0]["uid"] == pod_group["metadata"]["uid"]
    room.finish(*room.pods())
    room.look()
    assert room.cluster.list(kinds.SECRET, namespace=here).items == []
    left = room.cluster.list(kinds.SERVICE, namespace=here).items
    assert [each for each in left if "gang-" in each["metadata"]["name"]] == []


def test_a_slice_has_its_own_queue(twin: Room) -> None:
    room = Room.make(twin.cluster, "osmo-b", name="other", pool="split", a=40)
    room.cluster.create(kinds.NAMESPACE, {"metadata": {"name": "osmo-b"}}, owner="test")
    room.submit(to="split--a")
    room.look()
    assert [each["spec"]["queue"] for each in room.pod_groups()] == ["osmo-pool-osmo-b-split--a"]


def test_a_cancelled_workflow_is_taken_away(room: Room) -> None:
    from scheduling.services.workflows.user_actions import cancel_workflow
    from tests.support import houses

    workflow = room.submit(file_of("lead", "other"))
    room.look()
    room.run(room.pods()[0])
    room.look()
    cancel_workflow(actor=houses.admin(), name=workflow.name)
    room.look()
    assert (room.pods(), room.pod_groups()) == ([], [])
    assert {status for _, _, status, _ in statuses(workflow)} == {"FAILED_CANCELED"}
    assert verify() == []
