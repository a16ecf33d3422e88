"""The trees of cohorts above a backend's pools, as facts of the engine.

A tree may span several backends: a GPU of one cluster cannot be used in another, but quota can be lent. So the facts
also contain the pools of other backends: they use their part of the quota, and their LOW work can be reclaimed for a
lender here, but no work is placed or started there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pools.domain.quota.forest import CohortQuotaFacts, PoolQuotaFacts, pool_node_quota
from pools.domain.quota.pool_balance import PoolBalance
from pools.domain.quota.stored_quotas import quotas_from_stored
from pools.domain.quota.tree import LIMIT_KEYS, NO_QUOTA, NodeQuota
from pools.domain.values.amounts import UNLIMITED, Amount, gpu_key
from pools.models import Backend, Cohort, Pool
from pools.selectors.quotas.quota_facts import cohort_ids_below, cohort_roots, read_cohort_facts
from scheduling.domain.engine import facts as engine


@dataclass(frozen=True, slots=True)
class CohortsAbove:
    """`tops` are the ids of the top cohorts, `outside` the pools of other backends in their trees."""

    tops: Collection[int] = ()
    cohorts: Sequence[engine.CohortFacts] = ()
    outside: Sequence[Pool] = ()


def read_cohorts_above(backend: Backend, pools: Collection[Pool]) -> CohortsAbove:
    """The cohorts above these pools of the backend, and the other pools in their trees. No query for pools without a
    cohort."""
    joined = {pool.cohort_id for pool in pools if pool.cohort_id is not None}
    if not joined:
        return CohortsAbove()
    tops = set(cohort_roots(joined).values())
    inside = Cohort.objects.filter(pk__in=cohort_ids_below(tops))
    outside = Pool.objects.roots().filter(cohort__in=inside, archived=False).exclude(backend=backend)
    rows = outside.select_related("backend", "cohort").order_by("name")
    return CohortsAbove(tops, [engine_cohort(fact) for fact in read_cohort_facts(inside)], list(rows))


def engine_cohort(fact: CohortQuotaFacts) -> engine.CohortFacts:
    """A cohort in the form of the engine."""
    quotas = quotas_from_stored(fact.quotas or {})
    return engine.CohortFacts(
        fact.name,
        fact.parent,
        {key: quota.nominal for key, quota in quotas.items()},
        *_finite_limits(quotas),
        weight=fact.weight,
    )


def pool_cohort_limits(root: Pool, balance: PoolBalance) -> tuple[Mapping[str, Amount], Mapping[str, Amount]]:
    """The borrowing and lending limits of a pool in its cohort, in the form of the engine; empty without a cohort."""
    if root.cohort_id is None:
        return {}, {}
    return _finite_limits(
        {
            gpu_key(flavor): pool_node_quota(PoolQuotaFacts(root.name, None, each.guarantee, each.maximum, root.limits))
            for flavor, each in balance.by_flavor.items()
        }
    )


def limits_its_borrowing(root: Pool, balance: PoolBalance) -> bool:
    """Whether the maximum of the pool alone bounds its borrowing."""
    limits = root.limits_by_flavor
    return all(
        each.maximum != UNLIMITED and limits.get(flavor, NO_QUOTA).borrowing_limit >= each.maximum - each.guarantee
        for flavor, each in balance.by_flavor.items()
    )


def _finite_limits(quotas: Mapping[str, NodeQuota]) -> tuple[Mapping[str, Amount], Mapping[str, Amount]]:
    """What may be borrowed and lent by resource, where it has a limit."""
    borrowing, lending = (
        {key: limit for key, quota in quotas.items() if (limit := getattr(quota, which)) != UNLIMITED}
        for which in LIMIT_KEYS
    )
    return borrowing, lending
