"""The cache of the idle tree: read once, and again after every change of a quota, a limit or a parent."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pytest_django import DjangoAssertNumQueries

from pools.domain.changes.cohorts import PatchCohort
from pools.domain.changes.pools import PatchPool
from pools.domain.quota.forest import pool_key
from pools.domain.values.amounts import GPU
from pools.models import Cohort, Pool
from pools.selectors.quotas.quota_potential import idle_tree
from tests.integration.cohorts.conftest import create_cohorts, create_member_pool, gpu_quota_row
from tests.support.world import apply_change

pytestmark = pytest.mark.django_db


def potential_of(pool: str) -> float:
    tree = idle_tree.get()
    return float(tree.columns[GPU].potential(tree.index[pool_key(pool)]))


def test_the_tree_is_read_once(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    create_cohorts("org 4")
    create_member_pool("p", "org", 6)
    first = idle_tree.get()
    with django_assert_num_queries(1):
        assert idle_tree.get() is first


@pytest.mark.parametrize(
    ("change", "potential"),
    [
        (lambda: apply_change(PatchPool(name="p", patch={"borrowing_limit": 1})), 7),
        (lambda: apply_change(PatchPool(name="p", patch={"resources": {"gpu": {"guarantee": 2}}})), 6),
        (lambda: apply_change(PatchCohort(name="org", patch={"quotas": [gpu_quota_row(9)]})), 15),
        (lambda: apply_change(PatchCohort(name="org", patch={"parent": "above"})), 10),
        (lambda: Pool.objects.filter(name="p").update(guarantee=1), 5),
        (lambda: Cohort.objects.filter(name="org").update(quotas={}), 6),
    ],
)
def test_every_change_is_read_at_once(change: Callable[[], object], potential: int) -> None:
    create_cohorts("org 4")
    create_member_pool("p", "org", 6)
    assert potential_of("p") == 10
    before = idle_tree.get()
    change()
    assert potential_of("p") == potential
    assert idle_tree.get() is not before
