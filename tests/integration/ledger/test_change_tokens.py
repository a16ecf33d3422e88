"""The tokens of changes: each write moves exactly those that it should, raw SQL included, no commit is missed, and
nobody waits for a token."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator

import pytest
from django.apps import apps
from django.db import connection, transaction

from pools.domain.changes.gpu_allocations import AllocateWorker
from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.domain.people.roles import SYSTEM
from pools.models import Backend, ChangeToken, Cohort, Node, Pool
from pools.services.gpu_quota.gpu_allocations import allocate
from pools.services.gpu_quota.gpu_quotas import put_gpu_quota
from scheduling.models import ClusterState, Group, NodeState, StartReservation, WorkflowConfig
from scheduling.selectors.queue.pending_queue import read_queue_token
from tests.support import world
from tests.support.agent_harness import kubernetes_backend
from tests.support.threads import run_concurrently

NEAR, TREE = {"plan near", "quotas near"}, {"plan near", "quotas near", "plan far", "quotas far"}
COHORTS = {"quotas cohorts"}
OF_NEAR = "(SELECT id FROM pools_backend WHERE name = 'near')"
NEW_NODE = f"""INSERT INTO pools_node (backend_id, name, gpus, cpu, memory_bytes, storage_bytes, platform)
    VALUES ({OF_NEAR}, 'n{{n}}', 1, 1, 1, 1, 'default')"""
GROUP_STATUS = """UPDATE scheduling_group SET status =
    CASE status WHEN 'SCHEDULING' THEN 'INITIALIZING' ELSE 'SCHEDULING' END"""

WRITES: list[tuple[str, set[str]]] = [
    ("UPDATE pools_backend SET description = '{n}' WHERE name = 'near'", {"plan near"}),
    ("UPDATE pools_node SET gpus = {n} WHERE name = 'n1'", {"plan near"}),
    (NEW_NODE, {"plan near"}),
    ("DELETE FROM pools_node WHERE name = 'n2'", {"plan near"}),
    ("UPDATE pools_pool SET weight = {n} WHERE name = 'team'", TREE),
    ("UPDATE pools_pool SET guarantee = 100 + {n} WHERE name = 'team'", TREE | COHORTS),
    ("UPDATE pools_pool SET borrowing_limit = {n} WHERE name LIKE 'lender%'", TREE | COHORTS),
    ("UPDATE pools_pool SET name = 'lender{n}' WHERE name LIKE 'lender%'", TREE | COHORTS),
    ("UPDATE pools_pool SET last_quota = {n} % 50 WHERE name = 'team--a'", NEAR),
    ("UPDATE pools_pool SET maximum = {n} WHERE name = 'alone'", {"plan lab", "quotas lab"}),
    ("UPDATE pools_cohort SET weight = {n} WHERE name = 'both'", TREE | COHORTS),
    ("INSERT INTO pools_cohort (name, explicit, quotas, weight, version) VALUES ('c{n}', true, '{{}}', 1, 1)", COHORTS),
    ("UPDATE pools_kubernetessettings SET server = 's{n}'", {"plan lab", "quotas lab"}),
    ("UPDATE pools_gpuquota SET spec = jsonb_set(spec, '{{total,maxWorkers}}', '{n}')", {"work ns", "plan near"}),
    ("UPDATE pools_gpuquota SET conditions = '[{n}]'", set()),
    ("UPDATE pools_reservation SET needed_gpus = 100 + {n}", {"work near"}),
    ("UPDATE scheduling_workflow SET cancelled_by = '{n}'", {"work near"}),
    ("UPDATE scheduling_group SET waiting_reason = '{{\"code\": \"{n}\"}}'", {"work near"}),
    (GROUP_STATUS, {"work near", "plan near"}),
    (f"SELECT set_config('osmo.controller', {OF_NEAR}::text, true); {GROUP_STATUS}", {"work near"}),
    ("UPDATE scheduling_task SET pod_ip = '{n}'", {"work near"}),
    ("UPDATE scheduling_startreservation SET since = since + interval '{n} s'", {"work near"}),
    ("DELETE FROM scheduling_startreservation", {"work near"}),
    ("UPDATE scheduling_nodestate SET other_gpus = {n}", {"work near"}),
    ("UPDATE pools_user SET email = '{n}@example.com'", set()),
    ("UPDATE scheduling_workflowconfig SET max_retry_per_task = {n} % 100", set()),
    ("UPDATE scheduling_clusterstate SET error = '{n}'", set()),
    ("UPDATE scheduling_backendschedulingstate SET full_cycle_seconds = {n}", set()),
    *((f"UPDATE {table} SET {column} = {column}", set()) for table, column in (
        ("pools_backend", "description"), ("pools_node", "gpus"), ("pools_pool", "name"), ("pools_cohort", "weight"),
        ("pools_kubernetessettings", "server"), ("pools_gpuquota", "spec"), ("pools_reservation", "needed_gpus"),
        ("scheduling_workflow", "status"), ("scheduling_group", "status"), ("scheduling_task", "status"),
        ("scheduling_startreservation", "since"), ("scheduling_nodestate", "ready"),
    )),
]  # fmt: skip
"""A raw write, with `n` a random number, and the tokens that it moves. Every table with a token occurs."""

SERVICES: list[tuple[Callable[[int], object], set[str]]] = [
    (lambda n: world.submit_workflow(world.admin_actor(), "team--a", 1, name=f"w{n}"), {"work near"}),
    (lambda n: allocate(AllocateWorker(namespace="ns", id=f"w{n}"), actor=world.admin_actor()), {"work ns"}),
    (lambda n: Pool.objects.filter(name="team").update(config={"description": str(n)}), TREE),
]
MOVING_TABLES = {
    "pools_backend", "pools_cohort", "pools_gpuquota", "pools_gpuusage", "pools_kubernetessettings", "pools_leafusage",
    "pools_node", "pools_pool", "scheduling_group", "scheduling_nodestate", "scheduling_startreservation",
    "scheduling_task", "scheduling_workflow",
}  # fmt: skip


@pytest.fixture
def installation(db: None) -> None:
    """`team` on `near` and `lender` on `far` share a cohort, `alone` is on `lab`; work waits on `team--a`."""
    near, far = world.make_backend("near", nodes=0), world.make_backend("far", namespace="far")
    for name in ("n1", "n2"):
        Node.objects.create(backend=near, name=name, gpus=8)
    team = world.make_pool("team", 100, on=near, a=50)
    lender = world.make_pool("lender", 8, on=far)
    Pool.objects.filter(pk__in=[team.pk, lender.pk]).update(cohort=Cohort.objects.create(name="both"))
    Pool.objects.filter(pk=team.pk).update(config={"gpu_quota_namespace": "ns"})
    world.make_pool("alone", 8, on=kubernetes_backend("lab"))
    world.submit_workflow(world.admin_actor(), "team--a", 1)
    put_gpu_quota(PutGpuQuota(namespace="ns", spec={"total": {"maxWorkers": 999}}), actor=SYSTEM)
    allocate(AllocateWorker(namespace="ns", id="w"), actor=world.admin_actor())
    NodeState.objects.create(node=near.nodes.get(name="n1"))
    ClusterState.objects.create(backend=near)
    StartReservation.objects.create(group=Group.objects.get(), backend=near, since="2026-01-01T00:00:00Z")
    WorkflowConfig.objects.get_or_create(pk=1)


def read_tokens() -> dict[str, set[object]]:
    """The stamps by `kind name`."""
    names = {f"backend/{pk}": name for pk, name in Backend.objects.values_list("pk", "name")}
    found: dict[str, set[object]] = {}
    for subject, kind, stamp in ChangeToken.objects.values_list("subject", "kind", "stamp"):
        name = names.get(subject, subject.removeprefix("namespace/"))
        found.setdefault(f"{kind} {name}", set()).add(stamp)
    return found


@pytest.fixture
def moved_by(installation: None) -> Callable[[Callable[[], object]], set[str]]:
    """A function that runs a write, undoes it, and returns the tokens that it moved."""

    def run(write: Callable[[], object]) -> set[str]:
        before = read_tokens()
        with transaction.atomic():
            write()
            after = read_tokens()
            transaction.set_rollback(True)
        assert read_tokens() == before
        return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}

    return run


def execute(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def test_a_random_write_moves_exactly_its_tokens(moved_by: Callable[[Callable[[], object]], set[str]]) -> None:
    chance = random.Random(28)
    writes: list[tuple[Callable[[int], object], set[str], object]] = [
        *((lambda n, sql=sql: execute(sql.format(n=n)), tokens, sql) for sql, tokens in WRITES),  # type: ignore[misc]
        *((service, tokens, service) for service, tokens in SERVICES),
    ]
    for write, expected, what in writes:
        number = chance.randint(60, 99)
        assert moved_by(lambda write=write, number=number: write(number)) == expected, what  # type: ignore[misc]
    lasting = [each for each in writes if "DELETE" not in str(each[2]) and "osmo.controller" not in str(each[2])]
    for _ in range(20):  # two in one transaction move the tokens of both
        first, second = chance.sample(lasting, 2)

        def both(first: Callable[[int], object] = first[0], second: Callable[[int], object] = second[0]) -> None:
            first(chance.randint(60, 79))
            second(chance.randint(80, 99))

        assert moved_by(both) == first[1] | second[1], (first[2], second[2])


def test_the_tables_that_move_tokens_are_these() -> None:
    moving = {
        model._meta.db_table
        for label in ("pools", "scheduling")
        for model in apps.get_app_config(label).get_models()
        for trigger in getattr(model._meta, "triggers", ())
        if "pools_changetoken" in (trigger.func or "") and trigger.name != "delete_tokens"
    }
    assert moving == MOVING_TABLES


@pytest.fixture
def two_gangs(ledger: None) -> tuple[Backend, list[Group]]:
    """Two gangs of two leaves of one tree."""
    backend = world.make_backend("near")
    world.make_pool("team", 100, on=backend, a=50, b=50)
    for leaf in ("a", "b"):
        world.submit_workflow(world.admin_actor(), f"team--{leaf}", 1, name=leaf)
    return backend, list(Group.objects.order_by("workflow__name"))


@pytest.fixture
def held_open(two_gangs: tuple[Backend, list[Group]]) -> Iterator[Callable[[], None]]:
    """A transaction has changed the first gang. The function commits it."""
    has_written, may_commit = threading.Event(), threading.Event()

    def write_slowly() -> None:
        with transaction.atomic():
            two_gangs[1][0].tasks.update(pod_ip="slow")
            has_written.set()
            assert may_commit.wait(30)

    outcome: list[object] = []
    thread = threading.Thread(target=lambda: outcome.extend(run_concurrently([write_slowly])))
    thread.start()
    assert has_written.wait(30)

    def commit() -> None:
        may_commit.set()
        thread.join(30)
        assert outcome == [None]

    yield commit
    may_commit.set()
    thread.join(30)


@pytest.mark.race
def test_a_transaction_that_moves_a_token_early_and_commits_late_is_not_missed(
    two_gangs: tuple[Backend, list[Group]], held_open: Callable[[], None]
) -> None:
    backend, (_, other) = two_gangs

    def newest_transaction() -> object:
        with connection.cursor() as cursor:
            cursor.execute("SELECT max(xmin::text::bigint) FROM pools_changetoken")
            return cursor.fetchone()

    first = read_queue_token(backend)
    other.tasks.update(pod_ip="quick")
    second, newest = read_queue_token(backend), newest_transaction()
    held_open()
    third = read_queue_token(backend)
    assert len({first, second, third}) == 3
    assert newest_transaction() == newest, "the highest number alone misses the late commit"


@pytest.mark.race
def test_no_writer_waits_for_the_token_of_another(
    two_gangs: tuple[Backend, list[Group]], held_open: Callable[[], None]
) -> None:
    """Two transactions on one tree, of one user: only the rows of the token are common to both."""
    with transaction.atomic():
        execute("SET LOCAL lock_timeout = '100ms'")
        two_gangs[1][1].tasks.update(pod_ip="quick")
        two_gangs[1][1].workflow.groups.update(waiting_reason={"code": "x"})
    held_open()
    rows = ChangeToken.objects.filter(subject=f"backend/{two_gangs[0].pk}", kind="work")
    assert rows.count() == 2, "as many rows as writers at the same time"
    two_gangs[1][1].tasks.update(pod_ip="later")
    assert rows.count() == 2
