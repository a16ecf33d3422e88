"""The database notes every change on which scheduling depends, also a change by raw SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection, transaction

from pools.database.transactions import Changes, change, read_changes
from pools.domain.changes.backends import DeleteBackend
from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.gpu_allocations import AllocateWorker, ReleaseWorker
from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.domain.changes.pools import PatchPool
from pools.domain.people.roles import SYSTEM
from pools.models import Backend, ChangeToken, KubernetesSettings, Node, Pool, TokenKind
from pools.services.gpu_quota.gpu_allocations import allocate
from pools.signals import changes_committed
from scheduling import tasks
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.domain.priorities import Priority
from scheduling.services import notifications
from scheduling.services.simulated.reconcile import reconcile_backend
from tests.support import world

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def member_pool() -> Pool:
    """A pool of 6 GPUs, in a cohort with `other` on another backend, bound to GPU namespace `team-a`; a workflow
    runs."""
    pool = world.make_pool("team", 6, on=world.make_backend(nodes=2, gpus=4))
    world.make_pool("other", 2, on=world.make_backend("far", namespace="far", nodes=1))
    world.apply_change(PutCohort(name="both", body={"quotas": []}))
    worth = {"default": {"gpu_tflops": "100", "gpu_vram": "80Gi"}}
    world.apply_change(
        PatchPool(name="team", patch={"cohort": "both", "gpu_quota_namespace": "team-a", "platforms": worth})
    )
    world.apply_change(PatchPool(name="other", patch={"cohort": "both"}))
    world.apply_change(PutGpuQuota(namespace="team-a", spec={"total": {"maxWorkers": 9}}))
    world.submit_workflow(world.admin_actor(), "team", 3, name="old")
    reconcile_backend(pool.backend_id or 0)
    return pool


@pytest.fixture
def committed() -> Iterator[list[Changes]]:
    """What committed transactions announced, in order."""
    found: list[Changes] = []

    def receive(changes: Changes, **_: Any) -> None:
        found.append(changes)

    changes_committed.connect(receive)
    yield found
    changes_committed.disconnect(receive)


@pytest.fixture
def moved(request: pytest.FixtureRequest) -> Callable[[], list[str]]:
    """A function that names the backends whose plan has moved since `member_pool` was made, or since now."""
    if "member_pool" in request.fixturenames:
        request.getfixturevalue("member_pool")

    def read_plans() -> set[tuple[str, object]]:
        return set(ChangeToken.objects.filter(kind=TokenKind.PLAN).values_list("subject", "stamp"))

    before = read_plans()

    def find() -> list[str]:
        subjects = {subject for subject, _ in read_plans() ^ before}
        return [each.name for each in Backend.objects.order_by("name") if f"backend/{each.pk}" in subjects]

    return find


def run_sql(statement: str) -> None:
    """Execute a statement without any service."""
    with connection.cursor() as cursor:
        cursor.execute(statement)


NEW_NODE = """
    INSERT INTO pools_node (backend_id, name, gpus, cpu, memory_bytes, storage_bytes, platform)
    SELECT id, 'new', 1, 1, 1, 1, 'default' FROM pools_backend WHERE name = 'far'
"""


MOVED_BY: list[tuple[str, list[str]]] = [
    ("UPDATE pools_pool SET guarantee = 5 WHERE name = 'team'", ["far", "sim"]),
    ("UPDATE pools_pool SET cohort_id = NULL WHERE name = 'other'", ["far", "sim"]),
    ("UPDATE pools_cohort SET weight = 2", ["far", "sim"]),
    ("UPDATE pools_node SET gpus = 5 WHERE name = 'sim-n1'", ["sim"]),
    ("UPDATE pools_node SET gpus = 5", ["far", "sim"]),
    ("DELETE FROM pools_node WHERE name = 'sim-n1'", ["sim"]),
    (NEW_NODE, ["far"]),
    ("UPDATE pools_backend SET auto_end = NOT auto_end WHERE name = 'sim'", ["sim"]),
    ('UPDATE pools_gpuquota SET spec = \'{"total": {"maxWorkers": 1}}\'', ["sim"]),
    ("UPDATE scheduling_group SET status = 'COMPLETED'", ["sim"]),
    ("UPDATE pools_pool SET guarantee = guarantee", []),
    ("UPDATE pools_node SET gpus = gpus", []),
    ("UPDATE pools_gpuquota SET conditions = '[1]'", []),
    ("UPDATE scheduling_group SET failure_message = 'none'", []),
    ("UPDATE scheduling_task SET pod_ip = '1'", []),
]
"""Statements, each with the backends whose plan it moves: none where it changes nothing for scheduling."""


def test_a_change_by_raw_sql_moves_the_plan_of_its_backends(member_pool: Pool, moved: Callable[[], list[str]]) -> None:
    for statement, backends in MOVED_BY:
        with transaction.atomic():
            run_sql(statement)
            connection.check_constraints()  # the triggers of a commit
            assert moved() == backends, statement
            transaction.set_rollback(True)


def test_a_submission_moves_no_plan_and_is_announced(
    member_pool: Pool, committed: list[Changes], moved: Callable[[], list[str]]
) -> None:
    world.submit_workflow(world.admin_actor(), "team", 1)
    assert moved() == []
    assert committed[-1] == Changes(frozenset({member_pool.backend_id or 0}))


def test_a_submission_to_an_offline_backend_is_not_announced(member_pool: Pool, committed: list[Changes]) -> None:
    Backend.objects.filter(pk=member_pool.backend_id).update(offline=True)
    world.submit_workflow(world.admin_actor(), "team", 1)
    assert committed == []


def test_one_transaction_is_announced_once(
    member_pool: Pool, committed: list[Changes], moved: Callable[[], list[str]]
) -> None:
    with change(actor=SYSTEM):
        Node.objects.filter(backend=member_pool.backend).update(cpu=7)
        Pool.objects.filter(name="team").update(description="more")
        with change(actor=SYSTEM):
            pass
        far = Backend.objects.get(name="far")
        assert read_changes().backend_ids == {member_pool.backend_id, far.pk}
    assert moved() == ["far", "sim"]
    assert committed == [Changes(frozenset({member_pool.backend_id or 0, far.pk}))]


def test_an_outer_change_announces_what_an_inner_one_changed(member_pool: Pool, committed: list[Changes]) -> None:
    with change(actor=SYSTEM):
        world.make_subpool("team", "a", 1)
        assert read_changes().backend_ids == {member_pool.backend_id}
    assert committed[-1] == Changes(frozenset({member_pool.backend_id or 0}))


def test_changes_by_its_own_controller_are_not_announced_to_a_backend(
    member_pool: Pool, committed: list[Changes], moved: Callable[[], list[str]]
) -> None:
    world.submit_workflow(world.admin_actor(), "team", 3, priority=Priority.LOW)
    committed.clear()
    assert reconcile_backend(member_pool.backend_id or 0)["steps"]
    assert (committed, moved()) == ([], [])
    world.apply_change(CancelWorkflow(name="job-1"), actor=world.admin_actor())
    assert member_pool.backend_id in committed[-1].backend_ids
    assert moved() == ["sim"]


def test_workers_that_release_capacity_are_announced_by_their_namespace(
    member_pool: Pool, committed: list[Changes], moved: Callable[[], list[str]]
) -> None:
    worker = {"namespace": "team-a", "id": "w", "request": {"tflops": "1"}, "limit": {"tflops": "1"}}
    allocate(AllocateWorker.from_json(worker), actor=SYSTEM)
    assert committed == []
    world.apply_change(ReleaseWorker(namespace="team-a", id="w"))
    assert committed == [Changes(namespaces=frozenset({"team-a"}))]
    assert moved() == []


def test_a_backend_can_be_deleted_with_its_nodes(moved: Callable[[], list[str]]) -> None:
    world.make_backend("gone", namespace="gone", nodes=2)
    world.apply_change(DeleteBackend(name="gone"))
    assert moved() == []


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The requests that would have been sent to the broker."""
    found: list[tuple[str, int]] = []
    monkeypatch.setattr(notifications, "_enqueue", lambda task, backend_id: found.append((task, backend_id)))
    monkeypatch.setattr(notifications, "wake_agent", lambda backend_id: found.append(("wake", backend_id)))
    return found


def test_a_change_is_routed_by_the_kind_of_its_backend(
    requests: list[tuple[str, int]], moved: Callable[[], list[str]]
) -> None:
    simulated = world.make_backend(nodes=1)
    cluster = Backend.objects.create(name="kube", kind=Backend.Kind.KUBERNETES, namespace="k")
    requests.clear()
    with change(actor=SYSTEM):
        Backend.objects.update(description="changed")
    assert sorted(requests) == [
        (notifications.FOLLOW_LEDGER_TASK, cluster.pk),
        (notifications.RECONCILE_TASK, simulated.pk),
        ("wake", cluster.pk),
    ]
    assert set(moved()) == {"kube", "sim"}


def test_following_the_ledger_syncs_only_what_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(tasks, "sync_while_requested", synced.append)
    row = Backend.objects.create(name="kube", kind=Backend.Kind.KUBERNETES, namespace="k")
    tasks.follow_ledger(row.pk)
    assert synced == [], "no cluster is connected"
    KubernetesSettings.objects.create(backend=row, access=KubernetesSettings.Access.IN_CLUSTER)
    tasks.follow_ledger(row.pk)
    assert synced == [row.pk]


def test_after_an_error_the_broker_is_left_alone_for_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    class UnreachableBroker:
        def __getattr__(self, name: str) -> Callable[..., Any]:
            def fail(*_: Any, **__: Any) -> Any:
                calls.append(name)
                raise notifications.redis.ConnectionError

            return fail

    broker = notifications.Broker()
    monkeypatch.setattr(notifications, "broker", broker)
    monkeypatch.setattr(broker, "_client", UnreachableBroker())
    for _ in range(2):
        notifications.enqueue_reconcile(1)
        notifications.wake_agent(1)
    assert len(calls) == 1
    assert broker.is_paused
    broker.reset()
    assert not broker.is_paused
