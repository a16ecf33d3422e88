"""The pages of the quota tree read the trees that they show, and no other pools."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.pools import PatchPool
from pools.domain.people.roles import SYSTEM
from pools.domain.quota.pool_balance import PoolBalance
from pools.models import Pool
from pools.selectors.quotas import quota_tree
from pools.selectors.quotas.quota_pages import quota_node_page, quota_tree_page
from pools.selectors.quotas.quota_tree import read_quota_view
from tests.support import world

pytestmark = pytest.mark.django_db


@pytest.fixture
def read_pools(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the pools whose balances are read from now on.

    Two trees: `corp` with pools `lender` and `borrower`, `lab` with `alone`; `outside` is in no cohort.
    """
    for name in ("corp", "lab"):
        world.apply_change(PutCohort(name=name, body={"quotas": []}))
    for name, cohort in (("lender", "corp"), ("borrower", "corp"), ("alone", "lab"), ("outside", None)):
        world.make_pool(name, 8, a=3)
        if cohort:
            world.apply_change(PatchPool(name=name, patch={"cohort": cohort}))
    found: list[str] = []
    original = quota_tree._pool_facts

    def read(rows: list[Pool], balances: Mapping[int, PoolBalance]) -> object:
        found.extend(row.name for row in rows)
        return original(rows, balances)

    monkeypatch.setattr(quota_tree, "_pool_facts", read)
    return found


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        ("cohort", "corp", {"lender", "borrower"}),
        ("pool", "lender", {"lender", "borrower"}),
        ("pool", "lender--a", {"lender", "borrower"}),
        ("pool", "lender--_shared", {"lender", "borrower"}),
        ("pool", "outside", {"outside"}),
        ("pool", "outside--a", {"outside"}),
    ],
)
def test_the_page_of_a_node_reads_its_tree(read_pools: list[str], kind: str, name: str, expected: set[str]) -> None:
    page = quota_node_page(SYSTEM, kind, name)
    assert set(read_pools) == expected
    whole = read_quota_view(SYSTEM)
    for key, numbers in whole.numbers.items():
        assert page.key == key
        assert page.row.numbers == numbers[page.row.node.key]


def test_the_tree_reads_pools_in_cohorts_and_counts_the_others(read_pools: list[str]) -> None:
    page = quota_tree_page(SYSTEM)
    assert set(read_pools) == {"lender", "borrower", "alone"}
    assert page.pools_without_cohort == 1
    assert {row.node.key for row in page.rows if row.depth == 0} == {"cohort/corp", "cohort/lab"}
