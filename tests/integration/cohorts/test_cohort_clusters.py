"""Cohorts over pools of clusters: limits that queues cannot express make work wait, with the reason."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.domain.changes.pools import PatchPool
from pools.domain.people.roles import SYSTEM
from pools.models import GpuAllocation, Pool
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.domain.priorities import Priority
from scheduling.kube.connection.port import Cluster
from scheduling.models import Task, Workflow
from scheduling.selectors.queue.visible_queue import list_waiting_gangs
from scheduling.services.kubernetes.agent import AgentIntervals, ClusterAgent
from scheduling.services.simulated.reconcile import reconcile_backend
from scheduling.services.verify import verify
from tests.integration.cohorts.conftest import create_cohorts, set_parent_past_trigger
from tests.support import world
from tests.support.agent_harness import AgentHarness, find_group, gang_file, kubernetes_backend
from tests.support.fake_cluster import FakeCluster

pytestmark = pytest.mark.django_db

LOW, NORMAL = Priority.LOW, Priority.NORMAL
NOTHING_LENT = (
    "It asks for 1 GPU; everything under org lends 0 GPUs, and 5 more are idle but not lent by their owners "
    "(lending limits). It is dispatched when enough GPUs are free."
)


def make_harness(cluster: Cluster, namespace: str, *, lend: int | None) -> AgentHarness:
    """One cluster with pool `lender` of 8 GPUs and pool `borrower` of 2, both in `org`."""
    create_cohorts("org 0")
    backend = kubernetes_backend(namespace)
    for pool, quota in (("lender", 8), ("borrower", 2)):
        world.make_pool(pool, quota, on=backend)
        world.apply_change(PatchPool(name=pool, patch={"cohort": "org"}))
    world.apply_change(PatchPool(name="lender", patch={"lending_limit": lend}))
    agent = ClusterAgent(backend.pk, connect=lambda _: cluster, intervals=AgentIntervals(recount=0))
    return AgentHarness(cluster, backend, Pool.objects.get(name="borrower"), agent)


@pytest.fixture(params=[pytest.param("fake"), pytest.param("real", marks=pytest.mark.k8s)])
def harness(request: pytest.FixtureRequest, db: None) -> Iterator[AgentHarness]:
    """The lender lends 3, on both clusters alike."""
    if request.param == "real":
        kube = request.getfixturevalue("kube")
        yield make_harness(kube.cluster, kube.namespace, lend=3)
    else:
        yield make_harness(FakeCluster(namespaces=["osmo"]), "osmo", lend=3)


@pytest.fixture
def fake(db: None) -> AgentHarness:
    """The same only on the fake cluster, for tests of rows in the database."""
    return make_harness(FakeCluster(namespaces=["osmo"]), "osmo", lend=3)


def dispatched_gpus() -> dict[str, int]:
    """GPUs of dispatched work, which has pods or may have them, by pool."""
    found: dict[str, int] = {}
    for task in Task.objects.exclude(dispatched_at=None).exclude(end_time__isnull=False):
        pool = task.group.workflow.pool.name
        found[pool] = found.get(pool, 0) + task.gpu_count
    return found


def waiting_reason(work: Workflow) -> tuple[str, str, str | None]:
    (entry,) = [entry for entry in list_waiting_gangs(SYSTEM, limit=50, offset=0)[0] if entry.workflow == work.name]
    return entry.reason.code, entry.reason.message, entry.reason.queue


def test_work_on_quota_that_is_not_lent_waits_with_the_reason(harness: AgentHarness) -> None:
    harness.submit(gpus=5, priority=LOW)  # its own 2 and the 3 that are lent
    harness.run_agent()
    assert dispatched_gpus() == {"borrower": 5}
    more = harness.submit(gpus=1, priority=LOW)
    harness.run_agent()
    assert dispatched_gpus() == {"borrower": 5}
    assert harness.list_pods(more) == []
    assert len(harness.list_pod_groups()) == 1
    assert waiting_reason(more) == (
        "not_lent",
        NOTHING_LENT,
        "org",
    )
    harness.run_agent()
    assert waiting_reason(more)[0] == "not_lent", "a second cycle keeps it"
    assert verify() == []


def test_released_quota_dispatches_the_next_gang(harness: AgentHarness) -> None:
    first, second = harness.submit(gpus=5, priority=LOW), harness.submit(gpus=4, priority=LOW)
    harness.run_agent()
    harness.run_pods(*harness.list_pods())
    harness.run_agent()
    assert harness.list_pods(second) == []
    harness.finish_pods(*harness.list_pods(first))
    harness.run_agent()
    assert len(harness.list_pods(second)) == 1
    assert waiting_reason(second)[0] == "waiting_for_cluster"
    assert verify() == []


def test_dispatched_work_counts_before_it_runs(fake: AgentHarness) -> None:
    """Otherwise two cycles would lend the same GPUs twice, because KAI may start the pods later."""
    first = fake.submit(gpus=4, priority=LOW)
    fake.run_agent()
    second = fake.submit(gpus=2, priority=LOW)
    fake.run_agent()
    assert (len(fake.list_pods(first)), len(fake.list_pods(second))) == (1, 0)
    fake.run_pods(*fake.list_pods(first))
    fake.run_agent()
    assert fake.list_pods(second) == [], "it counts once, and still counts"
    world.apply_change(CancelWorkflow(name=first.name), actor=world.admin_actor())
    fake.run_agent()
    assert len(fake.list_pods(second)) == 1


def test_an_owner_always_gets_its_own_quota(fake: AgentHarness) -> None:
    """The cluster reclaims borrowed quota once it sees the work of the owner."""
    fake.submit(gpus=5, priority=LOW)
    fake.run_agent()
    owners = [fake.submit(gpus=6, priority=NORMAL, to="lender"), fake.submit(gpus=2, priority=LOW, to="lender")]
    fake.run_agent()
    assert [len(fake.list_pods(owner)) for owner in owners] == [1, 1]
    beyond = fake.submit(gpus=1, priority=LOW, to="lender")
    fake.run_agent()
    assert waiting_reason(beyond)[0] == "nothing_to_borrow"


def test_guaranteed_work_above_its_quota_waits_and_holds_nothing(fake: AgentHarness) -> None:
    fake.submit(gpus=2)
    above = fake.submit(gpus=1)
    low = fake.submit(gpus=3, priority=LOW)
    fake.run_agent()
    assert (fake.list_pods(above), len(fake.list_pods(low))) == ([], 1)
    assert waiting_reason(above)[0] == "over_quota"


def test_gangs_of_one_cycle_fill_the_quota_exactly(fake: AgentHarness) -> None:
    """Each counts with its GPUs for the next, no more and no less."""
    gangs = [fake.submit(gpus=gpus, priority=NORMAL, to="lender") for gpus in (4, 4, 1)]
    fake.run_agent()
    assert [len(fake.list_pods(gang)) for gang in gangs] == [1, 1, 0]
    assert waiting_reason(gangs[2])[0] == "over_quota"


def test_a_leaf_borrows_from_its_siblings_without_the_cohort(fake: AgentHarness) -> None:
    world.make_subpool("lender", "a", 6)
    fake.submit(gpus=8, priority=LOW, to="lender")
    fake.run_agent()
    assert dispatched_gpus() == {"lender": 8}


def test_without_lending_limits_the_cluster_decides_alone(db: None) -> None:
    """Its queues express everything, so the cluster reclaims from borrowers in the order of fair shares."""
    harness = make_harness(FakeCluster(namespaces=["osmo"]), "osmo", lend=None)
    works = [harness.submit(gpus=5, priority=LOW) for _ in range(3)]
    harness.run_agent()
    assert [len(harness.list_pods(work)) for work in works] == [1, 1, 1]
    assert not Task.objects.exclude(admitted_at=None).exists()


def test_quota_lent_between_two_clusters_is_counted_on_both(db: None) -> None:
    """Neither cluster knows the work of the other."""
    one = make_harness(FakeCluster(namespaces=["osmo"]), "osmo", lend=None)
    far = kubernetes_backend("far", name="far")
    world.make_pool("guest", 0, on=far)
    world.apply_change(PatchPool(name="guest", patch={"cohort": "org"}))
    cluster = FakeCluster(namespaces=["far"])
    other = AgentHarness(
        cluster,
        far,
        Pool.objects.get(name="guest"),
        ClusterAgent(far.pk, connect=lambda _: cluster, intervals=AgentIntervals(recount=0)),
    )
    one.submit(gpus=7, priority=LOW)
    one.run_agent()
    fits, not_any_more = other.submit(gpus=3, priority=LOW), other.submit(gpus=1, priority=LOW)
    other.run_agent()
    assert (len(other.list_pods(fits)), other.list_pods(not_any_more)) == (1, [])
    assert waiting_reason(not_any_more)[:2] == (
        "nothing_to_borrow",
        "It asks for 1 GPU; everything under org leaves 0 GPUs. It is dispatched when enough GPUs are free.",
    )


def test_a_simulated_backend_leaves_dispatched_quota_to_a_cluster(db: None) -> None:
    harness = make_harness(FakeCluster(namespaces=["osmo"]), "osmo", lend=None)
    sim = world.make_backend()
    world.make_pool("guest", 0, on=sim)
    world.apply_change(PatchPool(name="guest", patch={"cohort": "org"}))
    harness.submit(gpus=9, priority=LOW)
    harness.run_agent()
    wants = [world.submit_workflow(world.admin_actor(), "guest", gpus, priority=LOW) for gpus in (2, 1)]
    assert reconcile_backend(sim.pk)["settled"]
    assert [Workflow.objects.get(pk=work.pk).status for work in wants] == ["PENDING", "RUNNING"]


def test_on_a_cycle_of_parents_nothing_is_dispatched_and_running_work_continues(fake: AgentHarness) -> None:
    runs = fake.submit(gpus=1)
    fake.run_agent()
    fake.run_pods(*fake.list_pods(runs))
    fake.run_agent()
    create_cohorts("ring 0")
    set_parent_past_trigger("org", "ring")
    set_parent_past_trigger("ring", "org")
    waits = fake.submit(gpus=1)
    fake.run_agent()
    assert fake.list_pods(waits) == []
    assert waiting_reason(waits)[0] == "cycle"
    assert Workflow.objects.get(pk=runs.pk).status == "RUNNING"


def test_a_gang_is_dispatched_as_a_whole_or_waits(fake: AgentHarness) -> None:
    fake.submit(gpus=2, priority=LOW)
    fake.run_agent()
    gang = fake.submit(gang_file("lead", "other", gpus=2), priority=LOW)
    fake.run_agent()
    assert fake.list_pods(gang) == []
    assert waiting_reason(gang)[1].startswith(
        "It asks for 4 GPUs; everything under org lends 3 GPUs, and 5 more are idle"
    )


def test_a_gang_admitted_before_a_crash_counts_once(fake: AgentHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    work = fake.submit(gpus=5, priority=LOW)
    with monkeypatch.context() as patch:
        patch.setattr("scheduling.kube.gang_objects.create_gang", _crash)
        with pytest.raises(KeyboardInterrupt):
            fake.run_agent()
    assert Task.objects.exclude(admitted_at=None).filter(dispatched_at=None).count() == 1
    more = fake.submit(gpus=1, priority=LOW)
    fake.new_agent().relist_and_reconcile()
    assert (len(fake.list_pods(work)), fake.list_pods(more)) == (1, [])


def _crash(*_: object) -> object:
    raise KeyboardInterrupt


def test_a_gang_that_its_namespace_refuses_uses_no_quota_of_the_tree(fake: AgentHarness) -> None:
    """One transaction checks the tree and the namespace, so a gang counts in both or in neither."""
    Pool.objects.filter(name="borrower").update(config={"gpu_quota_namespace": "team-a"})
    world.apply_change(PutGpuQuota(namespace="team-a", spec={"total": {"maxWorkers": 1}}))
    world.make_pool("neighbour", 0, on=fake.backend)
    world.apply_change(PatchPool(name="neighbour", patch={"cohort": "org"}))
    first, second = fake.submit(gpus=2, priority=LOW), fake.submit(gpus=3, priority=LOW)
    fake.run_agent()
    assert (len(fake.list_pods(first)), fake.list_pods(second)) == (1, [])
    assert waiting_reason(second)[0] == "gpu_quota"
    other = fake.submit(gpus=3, priority=LOW, to="neighbour")
    fake.run_agent()
    assert len(fake.list_pods(other)) == 1, "the 3 that are lent are still there"
    assert list(GpuAllocation.objects.exclude(state="released").values_list("holder", flat=True)) == [
        find_group(first).pk
    ]
    assert verify() == []
