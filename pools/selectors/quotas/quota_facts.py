"""Rows of the ledger as the tree of quotas: the whole tree for people, or the tree of one cohort for admission."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from fractions import Fraction

from django.db.models import QuerySet

from pools.database.prepared import read_rows
from pools.domain import names
from pools.domain.people.roles import Actor
from pools.domain.quota.forest import CohortQuotaFacts, LeafQuotaFacts, PoolQuotaFacts, build_forest
from pools.domain.quota.pool_balance import PoolBalance
from pools.domain.quota.tree import LIMIT_KEYS, NO_QUOTA, NodeQuota, QuotaTree
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import decode_gpus, simplify
from pools.models import Cohort, Pool
from pools.selectors.quotas.pool_balance import read_balances

_BELOW = """
    WITH RECURSIVE tree (id) AS (
        SELECT id FROM pools_cohort WHERE id = ANY(%s)
        UNION
        SELECT below.id FROM tree JOIN pools_cohort below ON below.parent_id = tree.id
    )
"""

NO_POOLS: Mapping[str, PoolQuotaFacts] = {}
NOTHING_WAITS: Mapping[str, int] = {}

# One line for each pool: the quota and the use of its leaves together, as the scheduler gets them (design, D4).
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
    SELECT member.name, member.cohort_name, member.guarantee, member.maximum,
        {", ".join(f"member.{key}" for key in LIMIT_KEYS)}, COALESCE(member.weight, 1), COALESCE(parts.kept, 0)::bigint,
        (held.total_usage + COALESCE(parts.used, 0))::bigint, CASE WHEN member.flavors <> '[]' THEN member.id END
    FROM member JOIN pools_leafusage held ON held.pool_id = member.id LEFT JOIN parts ON parts.parent_id = member.id
"""


def read_admission_tree(roots: Collection[int], *, detailed: Mapping[str, PoolQuotaFacts] = NO_POOLS) -> QuotaTree:
    """The trees below these cohorts with what their pools hold right now, a pool being one node. Three queries, or none
    for no cohort; a constant number more where pools have flavors. Pools of the trees that are in `detailed`, by name,
    and those with flavors, have their leaves."""
    if not roots:
        return QuotaTree([])
    rows = read_rows(_POOLS, [list(roots)])
    detailed = {
        **_facts_by_flavor([row[-1] for row in rows if row[-1] is not None and row[0] not in detailed]),
        **detailed,
    }
    pools = [
        detailed.get(name) or PoolQuotaFacts(
            name, cohort, decode_gpus(guarantee), decode_gpus(maximum),
            NodeQuota(0, decode_gpus(borrowing), decode_gpus(lending)), weight,
            quota=max(decode_gpus(guarantee), kept), usage=usage,
        )
        for name, cohort, guarantee, maximum, borrowing, lending, weight, kept, usage, _ in rows
    ]  # fmt: skip
    return build_forest(read_cohort_facts(Cohort.objects.filter(pk__in=cohort_ids_below(roots))), pools)


def _facts_by_flavor(pools: Collection[int]) -> dict[str, PoolQuotaFacts]:
    """The facts of pools with flavors, by name. No query without one."""
    if not pools:
        return {}
    rows = list(Pool.objects.select_related("cohort").filter(pk__in=pools))
    balances = read_balances(rows)
    return {row.name: pool_facts_with_leaves(row, balances[row.pk]) for row in rows}


def pool_facts_with_leaves(
    row: Pool, balance: PoolBalance, waiting: Mapping[str, int] = NOTHING_WAITS
) -> PoolQuotaFacts:
    """A pool with its leaves, ARCHIVED ones left out. `waiting` has pending GPUs by the canonical name of the leaf, the
    shared leaf having the name of its pool. The cohort must be loaded with the row."""
    facts = PoolQuotaFacts(
        name=row.name,
        cohort=row.cohort.name if row.cohort else None,
        guarantee=balance.guarantee,
        maximum=balance.maximum,
        limits=row.limits,
        weight=1 if row.weight is None else row.weight,
        leaves=_leaf_facts(row.name, balance, waiting),
    )
    limits = row.limits_by_flavor
    kinds = {
        flavor: replace(
            facts,
            guarantee=kind.guarantee,
            maximum=kind.maximum,
            limits=limits.get(flavor, NO_QUOTA),
            leaves=_leaf_facts(row.name, kind),
        )
        for flavor, kind in balance.kinds.items()
    }
    return replace(facts, kinds=kinds) if kinds else facts


def _leaf_facts(pool: str, balance: PoolBalance, waiting: Mapping[str, int] = NOTHING_WAITS) -> list[LeafQuotaFacts]:
    shared, use = names.canonical_name(pool, names.SHARED_QUEUE), balance.shared_usage.total_usage
    leaves = [LeafQuotaFacts(shared, balance.shared_scheduling_quota, use, waiting.get(pool, 0))]
    for part in balance.subpools:
        if part.state is not SubpoolState.ARCHIVED:
            name = names.canonical_name(pool, part.name)
            leaves.append(LeafQuotaFacts(name, part.scheduling_quota, part.usage.total_usage, waiting.get(name, 0)))
    return leaves


def read_cohort_facts(rows: QuerySet[Cohort]) -> list[CohortQuotaFacts]:
    """Cohorts by name; one query."""
    found = rows.order_by("name").values_list("name", "parent__name", "quotas", "weight")
    return [
        CohortQuotaFacts(name, parent, quotas, simplify(Fraction(weight))) for name, parent, quotas, weight in found
    ]


def cohort_ids_below(roots: Collection[int]) -> list[int]:
    """The ids of these cohorts and of everything below them."""
    return [pk for (pk,) in read_rows(f"{_BELOW} SELECT id FROM tree", [list(roots)])]


def pool_ids_below(roots: Collection[int]) -> list[int]:
    """The ids of the pools in the trees below these cohorts."""
    return list(Pool.objects.filter(cohort__in=cohort_ids_below(roots)).order_by("pk").values_list("pk", flat=True))


def visible_cohorts(actor: Actor) -> QuerySet[Cohort]:
    """The cohorts above a pool that the actor may see; all for platform readers."""
    if actor.can_read_all:
        return Cohort.objects.all()
    pools = Pool.objects.visible_to(actor).roots().filter(archived=False).exclude(cohort=None)
    members = sorted(set(pools.values_list("cohort_id", flat=True)))
    above = read_rows(f"{_ABOVE} SELECT DISTINCT id FROM path", [members]) if members else []
    return Cohort.objects.filter(pk__in=[pk for (pk,) in above])


_ABOVE = """
    WITH RECURSIVE path (start, id, parent_id) AS (
        SELECT id, id, parent_id FROM pools_cohort WHERE id = ANY(%s)
        UNION
        SELECT path.start, above.id, above.parent_id
        FROM path JOIN pools_cohort above ON above.id = path.parent_id
    )"""
_COHORT_ROOTS = f"""{_ABOVE}
    SELECT start, COALESCE(min(id) FILTER (WHERE parent_id IS NULL), min(id)) FROM path GROUP BY start
"""


def cohort_roots(cohort_ids: Collection[int]) -> dict[int, int]:
    """The id of the root of the tree of each of these cohorts. A cycle of parents has no root, so its smallest id
    counts as the root of all its members; nothing starts there."""
    if not cohort_ids:
        return {}
    return dict(read_rows(_COHORT_ROOTS, [list(cohort_ids)]))
