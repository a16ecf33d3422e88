"""Whatever dies between two steps, every gang is made once, ends once, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pools.models import Reservation
from scheduling.kube import errors, resource_kinds
from scheduling.kube.fake import FakeCluster
from scheduling.models import Task, Workflow
from scheduling.services.kubernetes import observation
from scheduling.services.kubernetes.agent import AgentIntervals, ClusterAgent
from scheduling.services.verify import verify
from tests.support.agent_harness import AgentHarness, find_group, gang_file, task_statuses
from tests.support.flaky_cluster import FlakyCluster, ProcessKilled, fail_nth_write
from tests.support.foreign_objects import ForeignObjects

FILES = "files: [{path: /tmp/run.sh, contents: 'ping {{host:other}}'}]"
GANG = gang_file("lead", "other", task_fields=FILES)
MADE = 1 + 1 + 2 + 2  # a PodGroup, a Service, two Secrets, two pods


@pytest.fixture(autouse=True)
def beside(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever happens in these tests, nothing of others is touched."""
    room: AgentHarness = request.getfixturevalue("room" if "room" in request.fixturenames else "twin")
    others = ForeignObjects(room.cluster, room.backend.namespace)
    yield
    others.assert_untouched()


def agent_of(room: AgentHarness, cluster: Any) -> ClusterAgent:
    return ClusterAgent(room.backend.pk, connect=lambda _: cluster, intervals=AgentIntervals(recount=0))


def look_and_die(agent: ClusterAgent) -> bool:
    """One look; whether it was the last."""
    try:
        agent.relist_and_reconcile()
    except ProcessKilled:
        return True
    return False


def through(room: AgentHarness, shaky: FlakyCluster) -> None:
    """From wherever it stands to the end, by a new agent."""
    agent = agent_of(room, shaky)
    for _ in range(4):
        agent.relist_and_reconcile()
    room.run_pods(*room.list_pods())
    for _ in range(2):
        agent.relist_and_reconcile()
    assert Reservation.objects.get().held_gpus == 2
    room.finish_pods(*room.list_pods())
    for _ in range(4):
        agent.relist_and_reconcile()


def nothing_twice(room: AgentHarness, shaky: FlakyCluster) -> None:
    """Every object was made once and is gone, the work is done, and the ledger agrees."""
    assert set(shaky.created.values()) == {1}
    assert len(shaky.created) == MADE
    assert Workflow.objects.get().status == "COMPLETED"
    assert task_statuses(Workflow.objects.get()) == [("lead", 0, "COMPLETED", 0), ("other", 0, "COMPLETED", 0)]
    here = room.backend.namespace
    for kind in (resource_kinds.POD, resource_kinds.POD_GROUP, resource_kinds.SECRET, resource_kinds.SERVICE):
        assert room.cluster.list(kind, namespace=here, labels="osmo.house").items == []
    assert verify() == []


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "after it, before the answer"])
@pytest.mark.parametrize("number", range(1, MADE + 1))
def test_a_worker_is_killed_at_each_step_of_making_a_gang(twin: AgentHarness, number: int, after: bool) -> None:
    twin.submit(GANG)
    shaky = FlakyCluster(twin.cluster, fail_nth_write(number, ProcessKilled), after)
    assert look_and_die(agent_of(twin, shaky))
    shaky.failure = lambda call, count: None
    through(twin, shaky)
    nothing_twice(twin, shaky)


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "after it, before the answer"])
@pytest.mark.parametrize("number", range(1, 8))
def test_a_worker_is_killed_at_each_step_of_taking_it_away(twin: AgentHarness, number: int, after: bool) -> None:
    twin.submit(GANG)
    shaky = FlakyCluster(twin.cluster)
    agent = agent_of(twin, shaky)
    agent.relist_and_reconcile()
    twin.run_pods(*twin.list_pods())
    agent.relist_and_reconcile()
    twin.finish_pods(*twin.list_pods())
    shaky.failure, shaky.fails_after = fail_nth_write(number, ProcessKilled), after
    dead = [look_and_die(agent_of(twin, shaky)) for _ in range(4)]
    assert dead.count(True) == 1
    shaky.failure = lambda call, count: None
    agent_of(twin, shaky).relist_and_reconcile()
    agent_of(twin, shaky).relist_and_reconcile()
    nothing_twice(twin, shaky)


@pytest.mark.parametrize("function", ["mark_dispatched", "set_waiting_reasons", "write_observations"])
def test_a_worker_is_killed_before_it_writes_down_what_it_did(
    twin: AgentHarness, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    twin.submit(GANG)
    shaky = FlakyCluster(twin.cluster)
    first = agent_of(twin, shaky)
    if function == "write_observations":
        first.relist_and_reconcile()
        twin.run_pods(*twin.list_pods())

    def die(*_: Any) -> None:
        raise ProcessKilled

    with monkeypatch.context() as patch:
        patch.setattr(observation, function, die)
        assert look_and_die(first)
    through(twin, shaky)
    nothing_twice(twin, shaky)


def test_a_pod_that_ran_and_went_before_it_was_written_down_is_not_made_again(twin: AgentHarness) -> None:
    """The worker dies between making the pods and noting it; before the next one looks, they have run to their end and
    somebody has cleaned up after them. Only our finalizer still tells."""
    twin.submit(GANG)
    shaky = FlakyCluster(twin.cluster, fail_nth_write(MADE, ProcessKilled), fails_after=True)
    assert look_and_die(agent_of(twin, shaky))
    assert not Task.objects.exclude(dispatched_at=None).exists()
    shaky.failure = lambda call, count: None
    for pod in twin.list_pods():
        twin.run_pods(pod)
        twin.finish_pods(pod)
        twin.delete_pod(pod)
    agent = agent_of(twin, shaky)
    for _ in range(3):
        agent.relist_and_reconcile()
    nothing_twice(twin, shaky)


@pytest.mark.parametrize(
    "error",
    [
        lambda: errors.WriteConflict("changed meanwhile", status=409),
        lambda: errors.ResourceVersionExpired("too old", status=410),
        lambda: errors.TooManyRequests("slowly", status=429, retry_after=0.0),
        lambda: errors.ServerError("etcdserver: request timed out", status=500),
        lambda: errors.Unreachable("No connection in time."),
        lambda: errors.Unauthorized("token expired", status=401),
        lambda: errors.AccessDenied("exceeded quota", status=403),
    ],
    ids=["409", "410", "429", "500", "silence", "401", "403"],
)
@pytest.mark.parametrize("after", [False, True], ids=["refused", "done all the same"])
def test_answers_that_are_none(twin: AgentHarness, error: Callable[[], BaseException], after: bool) -> None:
    """Every second call fails, reads too, whatever it was; then the cluster is well again."""
    workflow = twin.submit(GANG)
    shaky = FlakyCluster(twin.cluster, lambda call, number: error() if number % 2 else None, after)
    agent = agent_of(twin, shaky)
    for _ in range(3):
        agent.relist_and_reconcile()
    shaky.failure = lambda call, count: None
    for _ in range(3):
        agent._dispatcher.clear_pauses()  # the pauses are told about elsewhere
        agent._due.clear()
        agent.relist_and_reconcile()
    assert find_group(workflow).waiting_reason is None
    through(twin, shaky)
    nothing_twice(twin, shaky)


def test_why_it_waits_while_the_cluster_does_not_answer(twin: AgentHarness) -> None:
    workflow = twin.submit(GANG)
    shaky = FlakyCluster(twin.cluster, lambda call, number: errors.Unreachable("No connection in time."))
    agent = agent_of(twin, shaky)
    agent.relist_and_reconcile()
    assert find_group(workflow).waiting_reason == {
        "code": "cluster_fault",
        "message": "The cluster does not answer; the call will be repeated. (No connection in time.)",
    }
    asked = sum(shaky.calls.values())
    assert not shaky.calls["create"]
    agent.relist_and_reconcile()
    assert sum(shaky.calls.values()) - asked <= 4, "a silent cluster is asked for a sign of life and no more"


def test_a_cluster_that_refuses_for_good_ends_the_gang_with_its_reason(twin: AgentHarness) -> None:
    workflow = twin.submit(GANG)

    def trouble(call: str, _: int) -> BaseException | None:
        return (
            errors.InvalidObject("spec.containers[0].image: Required value", status=422) if call == "create" else None
        )

    agent_of(twin, FlakyCluster(twin.cluster, trouble)).relist_and_reconcile()
    workflow.refresh_from_db()
    assert workflow.status == "FAILED_BACKEND_ERROR"
    assert workflow.failure_message == "The cluster refused the gang: spec.containers[0].image: Required value"
    assert {code for *_, code in task_statuses(workflow)} == {3001}


def test_a_name_that_somebody_else_has_is_left_to_him(room: AgentHarness) -> None:
    workflow = room.submit()
    name, here = str(find_group(workflow).pk), room.backend.namespace
    theirs = {"metadata": {"name": name, "namespace": here, "labels": {"theirs": "yes"}}, "spec": {"minMember": 7}}
    before = room.cluster.create(resource_kinds.POD_GROUP, theirs, field_manager="somebody")
    room.run_agent()
    workflow.refresh_from_db()
    assert workflow.status == "FAILED_BACKEND_ERROR"
    assert "does not belong to OSMO Admin" in workflow.failure_message
    assert room.cluster.get(resource_kinds.POD_GROUP, name, namespace=here) == before
    assert room.list_pods() == []


def test_nothing_of_others_is_touched_and_nothing_of_ours_is_left(room: AgentHarness) -> None:
    workflow = room.submit()
    room.run_agent()
    here, ours = room.backend.namespace, room.list_pods()[0]["metadata"]["labels"]

    def pod(name: str, **labels: str) -> dict[str, Any]:
        spec = {"containers": [{"name": "c", "image": "ubuntu"}]}
        return {"metadata": {"name": name, "namespace": here, "labels": labels}, "spec": spec}

    unknown = "00000000-0000-0000-0000-000000000001"
    kept = [
        pod("plain"),
        pod("other-house", **(ours | {"osmo.house": unknown, "osmo.group_uuid": unknown})),
        pod("upstream", **{"osmo.workflow_uuid": unknown, "osmo.group_uuid": unknown, "osmo.task_uuid": unknown}),
    ]
    orphans = [
        pod("orphan", **(ours | {"osmo.group_uuid": unknown})),
        pod("nameless", **{"osmo.house": ours["osmo.house"]}),
        pod("stranger-in-our-gang", **ours),
    ]
    for body in kept + orphans:
        room.cluster.create(resource_kinds.POD, body, field_manager="somebody")
    lost = {"metadata": {"name": unknown, "namespace": here, "labels": {"osmo.house": ours["osmo.house"]}}, "spec": {}}
    room.cluster.create(resource_kinds.POD_GROUP, lost, field_manager="somebody")
    before = {
        name: room.cluster.get(resource_kinds.POD, name, namespace=here)
        for name in ("plain", "other-house", "upstream")
    }
    room.run_agent()
    left = {pod["metadata"]["name"] for pod in room.list_pods()}
    assert left == {"plain", "other-house", "upstream", str(Task.objects.get().pk)}
    assert [each["metadata"]["name"] for each in room.list_pod_groups()] == [str(find_group(workflow).pk)]
    for name, was in before.items():
        assert room.cluster.get(resource_kinds.POD, name, namespace=here) == was


def test_a_pod_whose_mark_was_taken_off_gets_it_back(room: AgentHarness) -> None:
    workflow = room.submit()
    room.run_agent()
    (pod,) = room.list_pods()
    name = pod["metadata"]["name"]
    bare = {"metadata": {"labels": {"osmo.house": None}}}
    room.cluster.merge(resource_kinds.POD, name, bare, field_manager="somebody", namespace=room.backend.namespace)
    room.run_agent()
    assert room.list_pods()[0]["metadata"]["labels"]["osmo.house"] == pod["metadata"]["labels"]["osmo.house"]
    room.run_pods(*room.list_pods())
    room.run_agent()
    assert task_statuses(workflow) == [("train", 0, "RUNNING", None)]


def test_a_pod_group_that_went_or_was_moved_is_put_right(room: AgentHarness) -> None:
    workflow = room.submit()
    room.run_agent()
    name, here = str(find_group(workflow).pk), room.backend.namespace
    room.cluster.merge(
        resource_kinds.POD_GROUP, name, {"spec": {"queue": "elsewhere"}}, field_manager="somebody", namespace=here
    )
    room.run_agent()
    assert room.list_pod_groups()[0]["spec"]["queue"] == f"osmo-pool-{here}-team---shared"
    room.cluster.delete(resource_kinds.POD_GROUP, name, namespace=here)
    room.run_agent()
    assert [each["metadata"]["name"] for each in room.list_pod_groups()] == [name]
    assert len(room.list_pods()) == 1


def test_a_cluster_without_kai(twin: AgentHarness) -> None:
    bare = FakeCluster(
        served_kinds=[
            resource_kinds.NAMESPACE,
            resource_kinds.POD,
            resource_kinds.NODE,
            resource_kinds.SECRET,
            resource_kinds.SERVICE,
        ],
        namespaces=["osmo"],
    )
    workflow = twin.submit()
    agent = agent_of(twin, bare)
    agent.relist_and_reconcile()
    assert "PodGroup" in find_group(workflow).waiting_reason["message"]
    assert find_group(workflow).waiting_reason["code"] == "cluster_fault"
    assert bare.list(resource_kinds.POD).items == []
    bare.install_kinds(resource_kinds.POD_GROUP)
    for _ in range(2):
        agent.relist_and_reconcile()
    assert len(bare.list(resource_kinds.POD).items) == 1
    assert find_group(workflow).waiting_reason is None
