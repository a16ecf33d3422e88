"""The most that a pool in a cohort could ever hold if everything else were idle (design, D6).

The number depends on the quotas and limits of the whole tree and not on usage. A cache therefore keeps the tree of all
pools until a quota or limit changes, and a submission costs one query, however many pools share its tree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pools.domain.quota.forest import PoolQuotaFacts, build_forest, display_name, pool_key
from pools.domain.quota.stored_quotas import flavor_quotas
from pools.domain.quota.tree import LIMIT_KEYS, NodeQuota, QuotaTree
from pools.domain.values.amounts import DEFAULT_FLAVOR, UNLIMITED, Amount, decode_gpus, gpu_key
from pools.models import Cohort, Pool
from pools.selectors.change_tokens import KeptResult, read_cohorts_token
from pools.selectors.quotas.quota_facts import read_cohort_facts


@dataclass(frozen=True, slots=True)
class PotentialLimit:
    """The potential in GPUs and its cause: the node of the tree, its limit (`borrowing_limit`, or `quota` at a root),
    and the amount of that limit."""

    gpus: Amount
    node: str
    limit: str
    bound: Amount


def potential_limit(pool: Pool, flavor: str = DEFAULT_FLAVOR) -> PotentialLimit | None:
    """The potential of a top-level pool in one flavor. None without a cohort, without a limit, and on a cycle, where
    work waits."""
    if pool.cohort_id is None:
        return None
    tree, name = idle_tree.get(), pool_key(pool.name)
    if name not in tree.index or not tree.is_active(name):
        return None
    column, x = tree.columns.get(gpu_key(flavor)), tree.index[name]
    if column is None or (most := column.potential(x)) == UNLIMITED:
        return None
    node, limit = column.binding_potential_limit(x)
    bound = column.borrowing[node] if limit == "borrowing_limit" else column.subtree[node]
    return PotentialLimit(most, display_name(tree.names[node]), limit, bound)


def _read_idle_tree() -> QuotaTree:
    """The idle tree of all pools in cohorts, a pool being one node."""
    columns = ("name", "cohort__name", "guarantee", "maximum", *LIMIT_KEYS, "flavors")
    pools = []
    rows = Pool.objects.exclude(cohort=None).values_list(*columns)
    for name, cohort, guarantee, maximum, borrowing, lending, flavors in rows:
        limits = NodeQuota(0, decode_gpus(borrowing), decode_gpus(lending))
        quota = decode_gpus(guarantee)
        facts = PoolQuotaFacts(name, cohort, quota, decode_gpus(maximum), limits, quota=quota)
        kinds = {
            each.flavor: replace(
                facts,
                guarantee=each.quota,
                maximum=each.maximum,
                limits=each.limits,
                quota=each.quota,
            )
            for each in flavor_quotas(flavors)
        }
        pools.append(replace(facts, kinds=kinds) if kinds else facts)
    return build_forest(read_cohort_facts(Cohort.objects.all()), pools)


# Read again when a quota, a limit or a parent in a tree of cohorts has changed.
idle_tree = KeptResult(read_cohorts_token, _read_idle_tree)
