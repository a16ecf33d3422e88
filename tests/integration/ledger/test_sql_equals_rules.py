"""Rules that exist in SQL, too, for speed: on random pools both forms give the same numbers."""

from __future__ import annotations

import random
from uuid import uuid4

import pytest
from django.db import connection
from django.utils import timezone

from pools.domain.changes.pools import PatchPool
from pools.domain.changes.subpools import DeleteSubpool, ResizeSubpool
from pools.domain.people.roles import SYSTEM
from pools.domain.quota.forest import PoolQuotaFacts, build_forest, pool_key
from pools.domain.quota.node_numbers import node_numbers
from pools.domain.quota.usage_bar import UsageBar, leaf_bar, pool_bar, subpool_bar, sum_bars
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import GPU
from pools.locking import lock_leaf
from pools.models import Cohort, Pool
from pools.selectors.pool_filters import PoolFilter, rows_in_state
from pools.selectors.pool_lists import list_pools
from pools.selectors.quotas.platform_totals import bars_of_clusters, platform_totals
from pools.selectors.quotas.pool_balance import read_balance, read_balances
from pools.selectors.quotas.quota_facts import read_admission_tree
from pools.services.configuration.reservations import ReservationUpdate, reservations_sql, update_reservations
from tests.support import world
from tests.support.world import ModuleData

pytestmark = pytest.mark.django_db
SEEDS = range(6)


def make_random_pools(seed: int) -> list[Pool]:
    """Pools in one cohort, some without a finite quota, with subpools in every state and work of every kind. Quotas are
    cut below the usage afterwards."""
    pick = random.Random(seed)
    roots = []
    for i in range(5):
        quota = -1 if i == 4 else pick.randint(6, 20)
        parts = {} if quota < 0 else {f"s{n}": pick.randint(0, quota // 4) for n in range(pick.randint(0, 4))}
        root = world.make_pool(f"p{seed}{i}", quota, **parts)
        limits = {"borrowing_limit": pick.choice([None, 3]), "lending_limit": pick.choice([None, 2])}
        world.apply_change(PatchPool(name=root.name, patch={"cohort": f"org{seed}", **(limits if quota >= 0 else {})}))
        for leaf in Pool.objects.filter(pk=root.pk) | Pool.objects.filter(parent=root):
            add_random_work(leaf, pick)
        for name in parts:
            change_at_random(root.name, name, pick)
        if quota >= 0 and (free := read_balance(root).unallocated) > 0:  # a new quota while other subpools drain
            world.make_subpool(root.name, "late", int(free))
        roots.append(Pool.objects.select_related("backend", "cohort").get(pk=root.pk))
    return roots


@pytest.fixture(scope="module")
def roots(module_data: ModuleData) -> list[Pool]:
    """The pools of all seeds."""
    with module_data():
        return [root for seed in SEEDS for root in make_random_pools(seed)]


def add_random_work(leaf: Pool, pick: random.Random) -> None:
    for needed in [pick.randint(1, 4) for _ in range(pick.randint(0, 3))]:
        workflow, priority = uuid4(), pick.choice(["HIGH", "NORMAL", "LOW"])
        with connection.cursor() as cursor:
            cursor.execute(
                reservations_sql("SELECT %s::uuid, %s, %s, 'alice', %s, %s, now(), '{}'::jsonb"),
                [workflow, f"w{workflow.hex[:8]}", leaf.pk, priority, needed],
            )
        update_reservations([ReservationUpdate(workflow, pick.randint(0, 6), needed)], at=timezone.now())


def change_at_random(parent: str, name: str, pick: random.Random) -> None:
    match pick.choice(["keep", "shrink", "delete"]):
        case "shrink":
            world.apply_change(ResizeSubpool(parent=parent, subpool_name=name, quota=0))
        case "delete":
            world.apply_change(DeleteSubpool(parent=parent, subpool_name=name))
            if pick.random() < 0.3 and Pool.objects.get(name=f"{parent}--{name}").subpool_state == "ARCHIVED":
                world.make_subpool(parent, name, 1)


def test_the_admission_tree_counts_draining_subpools_as_the_balance_does(roots: list[Pool]) -> None:
    """The SQL of `read_admission_tree` against `PoolBalance.scheduling_quota` (design, D4)."""
    balances = read_balances(roots)
    facts = [
        PoolQuotaFacts(
            root.name,
            None,
            balances[root.pk].guarantee,
            balances[root.pk].maximum,
            quota=balances[root.pk].scheduling_quota,
            usage=balances[root.pk].total_usage,
        )
        for root in roots
    ]
    by_rule = node_numbers(build_forest([], facts), GPU)
    by_sql = node_numbers(read_admission_tree(list(Cohort.objects.values_list("pk", flat=True))), GPU)
    for root in roots:
        key = pool_key(root.name)
        assert by_sql[key].usage == by_rule[key].usage
        assert by_sql[key].subtree_quota == by_rule[key].subtree_quota


def test_the_totals_are_the_sums_of_the_bars(roots: list[Pool]) -> None:
    balances = read_balances(roots).values()
    totals = platform_totals(SYSTEM, {})
    assert totals.bar == sum_bars(pool_bar(balance) for balance in balances)
    assert sum_bars(bars_of_clusters(SYSTEM, {}).values()) == totals.bar
    assert totals.used == sum(balance.total_usage for balance in balances)
    assert totals.quota == sum(balance.guarantee for balance in balances if not balance.is_unlimited)
    assert totals.subpools == sum(
        part.state is not SubpoolState.ARCHIVED for each in balances for part in each.subpools
    )


def test_the_filters_agree_with_the_bars(roots: list[Pool]) -> None:
    draining, over = set(), set()
    for balance in read_balances(roots).values():
        bars = [leaf_bar(balance.unallocated, balance.shared_usage), *map(subpool_bar, balance.subpools)]
        total: UsageBar = sum_bars(bars)
        is_deleting = any(part.state is SubpoolState.DELETING for part in balance.subpools)
        draining |= {balance.name} if total.draining or is_deleting else set()
        over |= {balance.name} if total.over_quota else set()
    rows = Pool.objects.visible_to(SYSTEM).roots()
    assert {row.name for row in rows_in_state(rows, PoolFilter.DRAINING)} == draining
    assert {row.name for row in rows_in_state(rows, PoolFilter.OVER)} == over


def test_the_sum_of_active_subpools_is_the_same_in_every_form(roots: list[Pool]) -> None:
    """Under the lock of a submission, in lists, and in the balance; the trigger holds it below the guarantee."""
    actor = world.make_user("ann")
    balances = read_balances(roots)
    listed = {pool.root.name: pool for pool in list_pools(SYSTEM)}
    for root in roots:
        balance = balances[root.pk]
        locked = lock_leaf(root, actor)
        assert locked is not None
        assert locked.allocated == balance.allocated == listed[root.name].allocated
        assert locked.quota == balance.unallocated
        assert balance.allocated <= balance.guarantee
        quotas = {part.name: part.quota for part in balance.subpools}
        for leaf in Pool.objects.filter(parent=root):
            locked = lock_leaf(leaf, actor)
            assert locked is not None
            assert locked.quota == quotas[leaf.subpool_name]
