"""Rows of the ledger as the tree of quotas: the whole of it for people, or one cohort's for a verdict."""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction

from django.db import connection
from django.db.models import QuerySet

from pools.domain.amounts import whole_if_whole
from pools.domain.lifecycle import SubpoolState
from pools.domain.quota.forest import CohortFact, PoolFact, forest
from pools.domain.quota.pool_balance import UNLIMITED
from pools.domain.quota.tree import QuotaTree
from pools.models import Cohort, Pool

_BELOW = """
    WITH RECURSIVE tree (id) AS (
        SELECT id FROM pools_cohort WHERE id = ANY(%s)
        UNION
        SELECT below.id FROM tree JOIN pools_cohort below ON below.parent_id = tree.id
    )
"""

# One line for each pool: what its leaves may claim and hold together, as the scheduler is told it (D4).
_POOLS = f"""
    {_BELOW}, member AS (
        SELECT pool.*, cohort.name AS cohort_name
        FROM tree JOIN pools_cohort cohort ON cohort.id = tree.id JOIN pools_pool pool ON pool.cohort_id = tree.id
        WHERE NOT pool.archived
    ), parts AS (
        SELECT part.parent_id, sum(held.total_usage) AS used, sum(
            CASE part.subpool_state WHEN '{SubpoolState.ACTIVE}' THEN part.last_quota
                WHEN '{SubpoolState.DELETING}' THEN LEAST(part.last_quota, held.committed) ELSE 0 END
        ) AS kept
        FROM pools_pool part JOIN pools_leafusage held ON held.pool_id = part.id
        WHERE part.parent_id IN (SELECT id FROM member) GROUP BY part.parent_id
    )
    SELECT member.name, member.cohort_name, COALESCE(member.guarantee, {UNLIMITED}),
        COALESCE(member.maximum, {UNLIMITED}), member.borrowing_limit, member.lending_limit,
        COALESCE(member.weight, 1), COALESCE(parts.kept, 0)::bigint,
        (held.total_usage + COALESCE(parts.used, 0))::bigint
    FROM member JOIN pools_leafusage held ON held.pool_id = member.id LEFT JOIN parts ON parts.parent_id = member.id
"""


def verdict_tree(tops: Collection[int]) -> QuotaTree:
    """The trees below these cohorts with what their pools hold right now, a pool being one node. Three queries, or none
    for no cohort."""
    if not tops:
        return QuotaTree([])
    with connection.cursor() as cursor:
        cursor.execute(_POOLS, [list(tops)])
        rows = cursor.fetchall()
    pools = [
        PoolFact(
            name, cohort, guarantee, maximum, borrowing, lending, weight,
            quota=UNLIMITED if guarantee == UNLIMITED else max(guarantee, kept), usage=usage,
        )
        for name, cohort, guarantee, maximum, borrowing, lending, weight, kept, usage in rows
    ]  # fmt: skip
    return forest(cohort_facts(Cohort.objects.filter(pk__in=cohorts_below(tops))), pools)


def cohort_facts(rows: QuerySet[Cohort]) -> list[CohortFact]:
    """Cohorts by name; one query."""
    found = rows.order_by("name").values_list("name", "parent__name", "quotas", "weight")
    return [
        CohortFact(name, parent, quotas, whole_if_whole(Fraction(weight))) for name, parent, quotas, weight in found
    ]


def cohorts_below(tops: Collection[int]) -> list[int]:
    """The ids of these cohorts and of everything below them."""
    with connection.cursor() as cursor:
        cursor.execute(f"{_BELOW} SELECT id FROM tree", [list(tops)])
        return [pk for (pk,) in cursor.fetchall()]


def pools_below(tops: Collection[int]) -> list[int]:
    """The ids of the pools in the trees below these cohorts."""
    return list(Pool.objects.filter(cohort__in=cohorts_below(tops)).order_by("pk").values_list("pk", flat=True))
