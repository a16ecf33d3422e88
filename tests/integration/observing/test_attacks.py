"""Other readers of the cluster, people of other pools, and processes that die or sleep in the midst of a look."""

from __future__ import annotations

import math

import pytest

from scheduling.models import ClusterState, SchedulerDifference, Task, Workflow
from scheduling.services.kubernetes.leases import LeaseLost
from scheduling.services.kubernetes.observing.record import WorkRecorder
from scheduling.services.verify import verify
from tests.integration.observing.test_seen_work import Lab
from tests.support import world
from tests.support.observed_cluster import observed_backend, observer_of

KEPT = {"preemptibility": "non-preemptible"}


@pytest.fixture
def lab(db: None) -> Lab:
    found = Lab()
    world.make_pool("science", 2, on=found.backend)
    world.make_pool("vision", 6, on=found.backend)
    return found


class Killed(BaseException):
    """The process is gone."""


def die_before(call: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process die before it writes this tree, counted from 0."""
    write, calls = WorkRecorder._write_some, iter(range(100))

    def write_or_die(self: WorkRecorder, *arguments: object) -> None:
        if next(calls) == call:
            raise Killed
        write(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(WorkRecorder, "_write_some", write_or_die)


@pytest.mark.parametrize("call", [0, 1])
def test_a_reader_that_is_killed_between_two_pools(lab: Lab, monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    for namespace in ("science", "vision"):
        lab.firm.add_pod("job", namespace=namespace, node="n1")
    with monkeypatch.context() as patch:
        die_before(call, patch)
        with pytest.raises(Killed):
            lab.look()
    assert Workflow.objects.count() == call
    lab.observer = observer_of(lab.backend, lab.seen)
    lab.look()
    assert sorted(Workflow.objects.values_list("pool__name", "status")) == [
        ("science", "RUNNING"),
        ("vision", "RUNNING"),
    ]
    assert lab.other_gpus() == {"n1": 0, "n2": 0}
    assert verify() == []


def test_a_reader_that_is_killed_between_the_facts_and_the_decision(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look with decisions is written twice, first as if they were not made yet."""
    pods = lab.firm.add_pod_group("big", namespace="science", queue="science", pods=3, **KEPT)
    lab.look()
    for pod in pods:
        lab.firm.start(pod["metadata"]["name"], "n1", namespace="science")
    with monkeypatch.context() as patch:
        die_before(0, patch)  # nothing has changed without the starts, so this is the second writing
        with pytest.raises(Killed):
            lab.look()
    assert SchedulerDifference.objects.count() == 1
    lab.observer = observer_of(lab.backend, lab.seen)
    lab.look()
    assert lab.states() == {"big": ("RUNNING", 3)}
    assert SchedulerDifference.objects.count() == 1, "it is told once"
    assert verify() == []


def test_a_reader_that_slept_writes_nothing_of_what_it_saw_before(lab: Lab) -> None:
    """Another process works with the cluster meanwhile; by the old look its new work would be deleted."""
    lab.firm.add_pod("job", namespace="science", node="n1")
    lab.look()
    sleeper = observer_of(lab.backend, lab.seen)
    sleeper.relist_and_observe()
    ClusterState.objects.update(lease_holder=None, lease_expires_at=None)
    sleeper._lease.claim()
    sleeper._is_leased = True
    sleeper._informers.relist()
    lab.firm.add_pod("late", namespace="science", node="n1")
    lab.look()
    sleeper._lease._renewed = -math.inf
    sleeper._informers.pop_changed()
    sleeper._due["round"] = 0.0
    with pytest.raises(LeaseLost):
        sleeper.observe()
    assert lab.states() == {"job": ("RUNNING", 1), "late": ("RUNNING", 1)}
    assert Task.objects.filter(status="RUNNING").count() == 2


def test_two_backends_observe_one_cluster(lab: Lab) -> None:
    """Each counts the work of its own pools; what the other counts is use of others."""
    second = observed_backend("second", "osmo-second")
    world.make_pool("second-pool", 8, on=second, osmo=2)
    lab.firm.add_pod("job", namespace="science", node="n1")
    lab.firm.add_pod("other", namespace="osmo", gpus=2, node="n1")
    lab.look()
    observer = observer_of(second, lab.seen)
    observer.relist_and_observe()
    assert lab.states() == {"job": ("RUNNING", 1)}
    assert lab.other_gpus() == {"n1": 2, "n2": 0}
    other = Lab.__new__(Lab)
    other.backend = second
    assert other.states() == {"other": ("RUNNING", 2)}
    assert other.other_gpus() == {"n1": 1, "n2": 0}
    assert verify() == []


_ADDRESSES = (
    "/api/backend/lab/differences",
    "/api/backend/lab/sync",
    "/api/workflow?all_users=True&details=True",
    "/api/workflow/secret-1",
    "/api/workflow/secret-1/logs",
    "/api/usage?by=workflow",
    "/clusters/lab",
    "/clusters/lab/differences",
    "/clusters/lab/differences?format=csv",
    "/clusters/-/differences",
    "/workflows?format=csv",
    "/workflows/secret-1",
    "/queue",
)


@pytest.fixture
def secrets(lab: Lab) -> None:
    """Work of vision with a difference, and an object that cannot count."""
    world.make_user("ann", "osmo-science-user")
    world.make_user("nobody")
    world.make_user("vera", "osmo-viewer")
    pods = lab.firm.add_pod_group("secret", namespace="vision", queue="vision", pods=7, **KEPT)
    lab.firm.add_pod("secret-huge", namespace="vision", gpus=10**9)
    lab.look()
    for number, pod in enumerate(pods):
        lab.firm.start(pod["metadata"]["name"], f"n{number % 2 + 1}", namespace="vision")
    lab.look()
    assert SchedulerDifference.objects.count() == 1


@pytest.mark.usefixtures("secrets")
def test_people_of_another_pool_learn_nothing() -> None:
    for address in _ADDRESSES:
        for name in ("ann", "nobody"):
            answer = world.sign_in(name).get(address)
            body = b"".join(answer.streaming_content) if answer.streaming else answer.content
            assert answer.status_code in {403, 404} or b"secret" not in body, (address, name, answer.status_code)
        assert world.sign_in("vera").get(address).status_code == 200, address
