"""The quotas and the use of a pool's leaves as the gates that a start passes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from pools.domain import names
from pools.domain.amounts import GPU, UNLIMITED, Gpus
from pools.domain.quota.forest import pool_key
from pools.domain.quota.pool_balance import PoolBalance, UsageCounts
from pools.domain.quota.tree import QuotaTree
from pools.models import Pool
from pools.selectors.pool_balance import read_balance
from pools.selectors.quota_facts import read_admission_tree
from scheduling.domain.admission import Gate
from scheduling.domain.plan_units import GatePath
from scheduling.domain.tree_gates import TreeGates
from scheduling.selectors.dispatched_usage import DispatchedUsage, read_dispatched_usage


def read_leaf_ids(root: Pool) -> dict[str, int]:
    """Row ids of the leaves of a tree by short name; the shared leaf goes by its pool's."""
    slices = Pool.objects.filter(parent=root).values_list("subpool_name", "pk")
    return {names.SHARED_QUEUE: root.pk} | {short: pk for short, pk in slices if short}


def build_gate_paths(facts: PoolBalance, ids: Mapping[str, int]) -> dict[int, GatePath]:
    """The gates of every leaf of a tree by its row id, from the leaf to the container (the scheduling view, D4)."""
    container = Gate(facts.name, facts.scheduling_quota, facts.used, facts.maximum, facts.total_usage)
    leaves = [(names.SHARED_QUEUE, facts.shared_scheduling_quota, facts.shared_usage)]
    leaves += [(part.name, part.scheduling_quota, part.usage) for part in facts.subpools]
    return {
        ids[short]: (_leaf_gate(names.canonical_name(facts.name, short), quota, usage), container)
        for short, quota, usage in leaves
        if short in ids
    }


def read_gate_paths(root: Pool) -> dict[int, GatePath]:
    """The gates of a tree as they are now."""
    return build_gate_paths(read_balance(root), read_leaf_ids(root))


def read_tree_gates(roots: Sequence[Pool], tops: Collection[int]) -> TreeGates:
    """The trees of cohorts above these pools as they are now. `tops` are the tops of those trees, which the caller has
    locked if what he does depends on it."""
    if not any(root.cohort_id for root in roots):
        return TreeGates()
    return build_tree_gates(read_quota_tree(tops, read_dispatched_usage(tops)), roots)


def read_quota_tree(tops: Collection[int], dispatched: Iterable[DispatchedUsage]) -> QuotaTree:
    """The trees below these cohorts with what their pools hold, and what was promised to clusters beside it."""
    tree = read_admission_tree(tops)
    for each in dispatched:
        if (x := tree.index.get(pool_key(each.pool))) is not None:
            tree.columns[GPU].reserve(x, each.gpus)
    return tree


def build_tree_gates(tree: QuotaTree, roots: Sequence[Pool]) -> TreeGates:
    """A tree as the gate of the leaves of these pools, as far as they stand in it."""
    governed = {root.pk: pool_key(root.name) for root in roots if root.cohort_id is not None}
    slices = Pool.objects.filter(parent__in=governed).values_list("pk", "parent")
    nodes = governed | {pk: governed[parent] for pk, parent in slices if parent is not None}
    return TreeGates(tree, nodes)


def _leaf_gate(name: str, quota: Gpus, usage: UsageCounts) -> Gate:
    return Gate(name, quota, usage.used, UNLIMITED, usage.total_usage)
