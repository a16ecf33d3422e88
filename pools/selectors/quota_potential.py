"""The most that a pool in a cohort could ever hold, were everything else idle (D6).

It depends on the quotas and limits of the whole tree and on nothing that work does. So it is worked out once for all
pools of the house and kept in the process until :class:`pools.models.QuotaStamp` says that one of them changed: what a
submission asks costs one row, however many pools share its tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import Any

from pools.domain.amounts import GPU, UNLIMITED, Amount, decode_gpus
from pools.domain.quota.forest import PoolQuotaFacts, build_forest, display_name, pool_key
from pools.domain.quota.tree import QuotaTree
from pools.models import Cohort, Pool, QuotaStamp
from pools.selectors.quota_facts import read_cohort_facts


@dataclass(frozen=True, slots=True)
class PotentialLimit:
    """GPUs, and why not more: the node of the tree, which of its limits (`borrowing_limit`, or `quota` at the top) and
    how much that is."""

    gpus: Amount
    node: str
    limit: str
    bound: Amount


def potential_limit(pool: Pool) -> PotentialLimit | None:
    """Of a top-level pool; None without a cohort, and where the tree is no tree: work waits there until it is."""
    if pool.cohort_id is None:
        return None
    tree, name = _KEPT.tree(), pool_key(pool.name)
    if name not in tree.index or not tree.is_active(name):
        return None
    column, x = tree.columns[GPU], tree.index[name]
    if (most := column.potential(x)) == UNLIMITED:
        return None
    node, limit = column.binding_potential_limit(x)
    bound = column.borrowing[node] if limit == "borrowing_limit" else column.subtree[node]
    return PotentialLimit(most, display_name(tree.names[node]), limit, bound)


class _Kept:
    """The idle tree of this process, with the stamp under which it was read."""

    def __init__(self) -> None:
        self._reading = Lock()
        self._stamp: Any = None
        self._tree = QuotaTree([])

    def tree(self) -> QuotaTree:
        """Every pool in a cohort, a pool being one node."""
        stamp = QuotaStamp.objects.values_list("stamp", flat=True).first()
        with self._reading:
            if stamp is None or stamp != self._stamp:
                # Read after its stamp: whatever came between has a newer stamp, and the next reader sees that.
                self._tree, self._stamp = _idle_tree(), stamp
            return self._tree


_KEPT = _Kept()


def _idle_tree() -> QuotaTree:
    rows = Pool.objects.exclude(cohort=None).values_list(
        "name", "cohort__name", "guarantee", "maximum", "borrowing_limit", "lending_limit"
    )
    pools = [
        PoolQuotaFacts(
            name,
            cohort,
            decode_gpus(guarantee),
            decode_gpus(maximum),
            decode_gpus(borrowing),
            decode_gpus(lending),
            quota=decode_gpus(guarantee),
        )
        for name, cohort, guarantee, maximum, borrowing, lending in rows
    ]
    return build_forest(read_cohort_facts(Cohort.objects.all()), pools)
