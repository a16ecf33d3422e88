"""After a crash between any two steps, every gang is created once, ends once, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pools.models import Reservation
from scheduling.kube.connection import errors, resource_kinds
from scheduling.models import Task, Workflow
from scheduling.services.kubernetes.agent import AgentIntervals, ClusterAgent
from scheduling.services.kubernetes.dispatching import observation
from scheduling.services.verify import verify
from tests.support.agent_harness import AgentHarness, find_group, gang_file, task_statuses
from tests.support.fake_cluster import FakeCluster
from tests.support.flaky_cluster import FlakyCluster, ProcessKilled, fail_nth_write
from tests.support.foreign_objects import ForeignObjects
from tests.support.kube_server import with_a_real_one

FILES = "files: [{path: /tmp/run.sh, contents: 'ping {{host:other}}'}]"
GANG = gang_file("lead", "other", task_fields=FILES)
CREATED_OBJECTS = 1 + 1 + 2 + 2  # a PodGroup, a Service, two Secrets, two pods


@pytest.fixture(autouse=True)
def foreign_objects_untouched(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test of this file touches foreign objects."""
    harness: AgentHarness = request.getfixturevalue("harness" if "harness" in request.fixturenames else "fake_harness")
    others = ForeignObjects(harness.cluster, harness.backend.namespace)
    yield
    others.assert_untouched()


def agent_of(harness: AgentHarness, cluster: Any) -> ClusterAgent:
    return ClusterAgent(harness.backend.pk, connect=lambda _: cluster, intervals=AgentIntervals(recount=0))


def reconcile_and_die(agent: ClusterAgent) -> bool:
    """One reconciliation; returns whether the process was killed in it."""
    try:
        agent.relist_and_reconcile()
    except ProcessKilled:
        return True
    return False


def reconcile_until(agent: ClusterAgent, is_reached: Callable[[], bool]) -> None:
    """Some rounds, up to the one after which this is so."""
    for _ in range(4):
        agent.relist_and_reconcile()
        if is_reached():
            return
    raise AssertionError("not reached in 4 rounds")


def run_to_end(harness: AgentHarness, flaky: FlakyCluster) -> None:
    """Run the work from its current state to its end, with a new agent, which then finds nothing more to do."""
    agent = agent_of(harness, flaky)
    reconcile_until(agent, lambda: not Task.objects.filter(dispatched_at=None).exists())
    harness.run_pods(*harness.list_pods())
    reconcile_until(agent, lambda: not Task.objects.exclude(status="RUNNING").exists())
    assert Reservation.objects.get().held_gpus == 2
    harness.finish_pods(*harness.list_pods())
    end_and_look_again(agent, harness)


def end_and_look_again(agent: ClusterAgent, harness: AgentHarness) -> None:
    reconcile_until(agent, lambda: not objects_of(harness) and Workflow.objects.get().status == "COMPLETED")
    agent.relist_and_reconcile()


def objects_of(harness: AgentHarness) -> list[Any]:
    """The objects of ours in the cluster."""
    kinds = resource_kinds.POD, resource_kinds.POD_GROUP, resource_kinds.SECRET, resource_kinds.SERVICE
    place = harness.backend.namespace
    return [each for kind in kinds for each in harness.cluster.list(kind, namespace=place, labels="osmo.house").items]


def assert_created_once(harness: AgentHarness, flaky: FlakyCluster) -> None:
    """Every object was created once and is deleted, the work is done, and the ledger agrees."""
    assert set(flaky.created.values()) == {1}
    assert len(flaky.created) == CREATED_OBJECTS
    assert Workflow.objects.get().status == "COMPLETED"
    assert task_statuses(Workflow.objects.get()) == [("lead", 0, "COMPLETED", 0), ("other", 0, "COMPLETED", 0)]
    assert objects_of(harness) == []
    assert verify() == []


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "after it, before the answer"])
@pytest.mark.parametrize("number", range(1, CREATED_OBJECTS + 1))
def test_a_worker_is_killed_at_each_step_of_creating_a_gang(
    fake_harness: AgentHarness, number: int, after: bool
) -> None:
    fake_harness.submit(GANG)
    flaky = FlakyCluster(fake_harness.cluster, fail_nth_write(number, ProcessKilled), after)
    assert reconcile_and_die(agent_of(fake_harness, flaky))
    flaky.failure = lambda call, count: None
    run_to_end(fake_harness, flaky)
    assert_created_once(fake_harness, flaky)


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "after it, before the answer"])
@pytest.mark.parametrize("number", range(1, 8))
def test_a_worker_is_killed_at_each_step_of_deleting_it(fake_harness: AgentHarness, number: int, after: bool) -> None:
    fake_harness.submit(GANG)
    flaky = FlakyCluster(fake_harness.cluster)
    agent = agent_of(fake_harness, flaky)
    agent.relist_and_reconcile()
    fake_harness.run_pods(*fake_harness.list_pods())
    agent.relist_and_reconcile()
    fake_harness.finish_pods(*fake_harness.list_pods())
    flaky.failure, flaky.fails_after = fail_nth_write(number, ProcessKilled), after
    assert any(reconcile_and_die(agent_of(fake_harness, flaky)) for _ in range(4))
    flaky.failure = lambda call, count: None
    end_and_look_again(agent_of(fake_harness, flaky), fake_harness)
    assert_created_once(fake_harness, flaky)


@pytest.mark.parametrize("function", ["mark_dispatched", "set_waiting_reasons", "write_observations"])
def test_a_worker_is_killed_before_it_writes_its_results(
    fake_harness: AgentHarness, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_harness.submit(GANG)
    flaky = FlakyCluster(fake_harness.cluster)
    first = agent_of(fake_harness, flaky)
    if function == "write_observations":
        first.relist_and_reconcile()
        fake_harness.run_pods(*fake_harness.list_pods())

    def die(*_: Any) -> None:
        raise ProcessKilled

    with monkeypatch.context() as patch:
        patch.setattr(observation, function, die)
        assert reconcile_and_die(first)
    run_to_end(fake_harness, flaky)
    assert_created_once(fake_harness, flaky)


def test_a_pod_that_ended_before_it_was_recorded_is_not_created_again(fake_harness: AgentHarness) -> None:
    """The worker dies between the creation of the pods and its record. Before the next worker starts, the pods have run
    to their end and were deleted by another client. Only our finalizer keeps the evidence."""
    fake_harness.submit(GANG)
    flaky = FlakyCluster(fake_harness.cluster, fail_nth_write(CREATED_OBJECTS, ProcessKilled), fails_after=True)
    assert reconcile_and_die(agent_of(fake_harness, flaky))
    assert not Task.objects.exclude(dispatched_at=None).exists()
    flaky.failure = lambda call, count: None
    for pod in fake_harness.list_pods():
        fake_harness.run_pods(pod)
        fake_harness.finish_pods(pod)
        fake_harness.delete_pod(pod)
    end_and_look_again(agent_of(fake_harness, flaky), fake_harness)
    assert_created_once(fake_harness, flaky)


@pytest.mark.parametrize(
    ("error", "after"),
    [
        pytest.param(errors.WriteConflict("changed meanwhile", status=409), False, id="409"),
        pytest.param(errors.ResourceVersionExpired("too old", status=410), False, id="410"),
        pytest.param(errors.TooManyRequests("slowly", status=429, retry_after=0.0), False, id="429"),
        pytest.param(
            errors.ServerError("etcdserver: request timed out", status=500), True, id="500, done nevertheless"
        ),
        pytest.param(errors.Unreachable("No connection in time."), False, id="silence"),
        pytest.param(errors.Unreachable("No connection in time."), True, id="silence, done nevertheless"),
        pytest.param(errors.Unauthorized("token expired", status=401), False, id="401"),
        pytest.param(errors.AccessDenied("exceeded quota", status=403), False, id="403"),
    ],
)
def test_failing_calls_are_repeated(fake_harness: AgentHarness, error: BaseException, after: bool) -> None:
    """Every second call fails, also reads; then the cluster recovers."""
    workflow = fake_harness.submit(GANG)
    flaky = FlakyCluster(fake_harness.cluster, lambda call, number: error if number % 2 else None, after)
    agent = agent_of(fake_harness, flaky)
    for _ in range(3):
        agent.relist_and_reconcile()
    flaky.failure = lambda call, count: None
    for _ in range(3):
        agent._dispatcher.clear_pauses()  # other tests cover the pauses
        agent._due.clear()
        agent.relist_and_reconcile()
    assert find_group(workflow).waiting_reason is None
    run_to_end(fake_harness, flaky)
    assert_created_once(fake_harness, flaky)


def test_the_waiting_reason_while_the_cluster_does_not_answer(fake_harness: AgentHarness) -> None:
    workflow = fake_harness.submit(GANG)
    flaky = FlakyCluster(fake_harness.cluster, lambda call, number: errors.Unreachable("No connection in time."))
    agent = agent_of(fake_harness, flaky)
    agent.relist_and_reconcile()
    assert find_group(workflow).waiting_reason == {
        "code": "cluster_fault",
        "message": "The cluster does not answer; the call will be repeated. (No connection in time.)",
    }
    calls_before = sum(flaky.calls.values())
    assert not flaky.calls["create"]
    agent.relist_and_reconcile()
    assert sum(flaky.calls.values()) - calls_before <= 4, (
        "a silent cluster gets only calls that test whether it answers"
    )


def test_a_cluster_that_refuses_for_good_ends_the_gang_with_its_reason(fake_harness: AgentHarness) -> None:
    workflow = fake_harness.submit(GANG)

    def trouble(call: str, _: int) -> BaseException | None:
        return (
            errors.InvalidObject("spec.containers[0].image: Required value", status=422) if call == "create" else None
        )

    agent_of(fake_harness, FlakyCluster(fake_harness.cluster, trouble)).relist_and_reconcile()
    workflow.refresh_from_db()
    assert workflow.status == "FAILED_BACKEND_ERROR"
    assert workflow.failure_message == "The cluster refused the gang: spec.containers[0].image: Required value"
    assert {code for *_, code in task_statuses(workflow)} == {3001}


@with_a_real_one("harness")
@pytest.mark.parametrize("is_ending", [False, True], ids=["stands", "is being deleted"])
def test_a_foreign_object_with_our_name_is_left_alone(harness: AgentHarness, is_ending: bool) -> None:
    """Also one that its finalizer holds."""
    workflow = harness.submit()
    name, here = str(find_group(workflow).pk), harness.backend.namespace
    metadata = {"name": name, "namespace": here, "labels": {"theirs": "yes"}, "finalizers": ["example.org/hold"]}
    theirs = {"metadata": metadata, "spec": {"minMember": 7}}
    harness.cluster.create(resource_kinds.POD_GROUP, theirs, field_manager="somebody")
    if is_ending:
        harness.cluster.delete(resource_kinds.POD_GROUP, name, namespace=here)
    before = harness.cluster.get(resource_kinds.POD_GROUP, name, namespace=here)
    harness.run_agent()
    workflow.refresh_from_db()
    assert workflow.status == "FAILED_BACKEND_ERROR"
    assert "does not belong to OSMO Admin" in workflow.failure_message
    assert harness.cluster.get(resource_kinds.POD_GROUP, name, namespace=here) == before
    assert harness.list_pods() == []


def test_nothing_of_others_is_touched_and_nothing_of_ours_is_left(harness: AgentHarness) -> None:
    workflow = harness.submit()
    harness.run_agent()
    here, ours = harness.backend.namespace, harness.list_pods()[0]["metadata"]["labels"]

    def pod(name: str, **labels: str) -> dict[str, Any]:
        spec = {"containers": [{"name": "c", "image": "ubuntu"}]}
        return {"metadata": {"name": name, "namespace": here, "labels": labels}, "spec": spec}

    unknown = "00000000-0000-0000-0000-000000000001"
    kept = [
        pod("plain"),
        pod("other-harness", **(ours | {"osmo.house": unknown, "osmo.group_uuid": unknown})),
        pod("upstream", **{"osmo.workflow_uuid": unknown, "osmo.group_uuid": unknown, "osmo.task_uuid": unknown}),
    ]
    orphans = [
        pod("orphan", **(ours | {"osmo.group_uuid": unknown})),
        pod("nameless", **{"osmo.house": ours["osmo.house"]}),
        pod("stranger-in-our-gang", **ours),
    ]
    for body in kept + orphans:
        harness.cluster.create(resource_kinds.POD, body, field_manager="somebody")
    lost = {
        "metadata": {"name": unknown, "namespace": here, "labels": {"osmo.house": ours["osmo.house"]}},
        "spec": {},
    }
    harness.cluster.create(resource_kinds.POD_GROUP, lost, field_manager="somebody")
    before = {
        name: harness.cluster.get(resource_kinds.POD, name, namespace=here)
        for name in ("plain", "other-harness", "upstream")
    }
    harness.run_agent()
    left = {pod["metadata"]["name"] for pod in harness.list_pods()}
    assert left == {"plain", "other-harness", "upstream", str(Task.objects.get().pk)}
    assert [each["metadata"]["name"] for each in harness.list_pod_groups()] == [str(find_group(workflow).pk)]
    for name, was in before.items():
        assert harness.cluster.get(resource_kinds.POD, name, namespace=here) == was


def test_a_pod_that_lost_its_label_gets_it_back(harness: AgentHarness) -> None:
    workflow = harness.submit()
    harness.run_agent()
    (pod,) = harness.list_pods()
    name = pod["metadata"]["name"]
    bare = {"metadata": {"labels": {"osmo.house": None}}}
    harness.cluster.merge(resource_kinds.POD, name, bare, field_manager="somebody", namespace=harness.backend.namespace)
    harness.run_agent()
    assert harness.list_pods()[0]["metadata"]["labels"]["osmo.house"] == pod["metadata"]["labels"]["osmo.house"]
    harness.run_pods(*harness.list_pods())
    harness.run_agent()
    assert task_statuses(workflow) == [("train", 0, "RUNNING", None)]


@with_a_real_one("harness")
def test_a_deleted_or_moved_pod_group_is_restored(harness: AgentHarness) -> None:
    workflow = harness.submit()
    harness.run_agent()
    name, here = str(find_group(workflow).pk), harness.backend.namespace
    harness.cluster.merge(
        resource_kinds.POD_GROUP, name, {"spec": {"queue": "elsewhere"}}, field_manager="somebody", namespace=here
    )
    harness.run_agent()
    assert harness.list_pod_groups()[0]["spec"]["queue"] == f"osmo-pool-{here}-team---shared"
    harness.cluster.delete(resource_kinds.POD_GROUP, name, namespace=here)
    harness.run_agent()
    assert [each["metadata"]["name"] for each in harness.list_pod_groups()] == [name]
    assert len(harness.list_pods()) == 1


def test_a_cluster_without_kai(fake_harness: AgentHarness) -> None:
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
    workflow = fake_harness.submit()
    agent = agent_of(fake_harness, bare)
    agent.relist_and_reconcile()
    assert "PodGroup" in find_group(workflow).waiting_reason["message"]
    assert find_group(workflow).waiting_reason["code"] == "cluster_fault"
    assert bare.list(resource_kinds.POD).items == []
    bare.install_kinds(resource_kinds.POD_GROUP)
    for _ in range(2):
        agent.relist_and_reconcile()
    assert len(bare.list(resource_kinds.POD).items) == 1
    assert find_group(workflow).waiting_reason is None
