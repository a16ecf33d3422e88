"""Quotas and usage of the leaves of a pool, as the gates that a start has to pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from pools.domain import names
from pools.domain.quota.forest import pool_key
from pools.domain.quota.pool_balance import PoolBalance, UsageCounts
from pools.domain.quota.tree import QuotaTree
from pools.domain.values.amounts import UNLIMITED, Gpus, gpu_key
from pools.models import Pool
from pools.selectors.quotas.pool_balance import read_balance
from pools.selectors.quotas.quota_facts import read_admission_tree
from scheduling.domain.judgement.admission import Gate
from scheduling.domain.judgement.plan_units import GatePath
from scheduling.domain.judgement.tree_gates import TreeGates
from scheduling.selectors.queue.dispatched_usage import DispatchedUsage, read_dispatched_usage


def read_leaf_ids(root: Pool) -> dict[str, int]:
    """Row ids of the leaves of a tree by short name; the shared leaf has the id of its pool."""
    subpools = Pool.objects.filter(parent=root).values_list("subpool_name", "pk")
    return {names.SHARED_QUEUE: root.pk} | {short: pk for short, pk in subpools if short}


def build_gate_paths(facts: PoolBalance, ids: Mapping[str, int]) -> dict[int, dict[str, GatePath]]:
    """The gates of every leaf of a tree by its row id and by flavor, from the leaf to the container: the scheduling
    view (design, D4)."""
    found: dict[int, dict[str, GatePath]] = defaultdict(dict)
    for flavor, balance in facts.by_flavor.items():
        for leaf, path in _gate_paths(balance, ids).items():
            found[leaf][flavor] = path
    return found


def _gate_paths(facts: PoolBalance, ids: Mapping[str, int]) -> dict[int, GatePath]:
    container = Gate(facts.name, facts.scheduling_quota, facts.used, facts.maximum, facts.total_usage)
    leaves = [(names.SHARED_QUEUE, facts.shared_scheduling_quota, facts.shared_usage)]
    leaves += [(part.name, part.scheduling_quota, part.usage) for part in facts.subpools]
    return {
        ids[short]: (_leaf_gate(names.canonical_name(facts.name, short), quota, usage), container)
        for short, quota, usage in leaves
        if short in ids
    }


def read_gate_paths(root: Pool) -> dict[int, dict[str, GatePath]]:
    """The current gates of a tree."""
    return build_gate_paths(read_balance(root), read_leaf_ids(root))


def read_tree_gates(roots: Sequence[Pool], tops: Collection[int]) -> TreeGates:
    """The current trees of cohorts above these pools. `tops` are the top cohorts of these trees; a caller that decides
    with these numbers holds their locks."""
    if not any(root.cohort_id for root in roots):
        return TreeGates()
    return build_tree_gates(read_quota_tree(tops, read_dispatched_usage(tops)), roots)


def read_quota_tree(tops: Collection[int], dispatched: Iterable[DispatchedUsage]) -> QuotaTree:
    """The trees below these cohorts with the usage of their pools, and with the usage that was dispatched to
    clusters."""
    tree = read_admission_tree(tops)
    for each in dispatched:
        if (x := tree.index.get(pool_key(each.pool))) is not None:
            tree.columns[gpu_key(each.flavor)].reserve(x, each.gpus)
    return tree


def build_tree_gates(tree: QuotaTree, roots: Sequence[Pool]) -> TreeGates:
    """A tree as the gate of the leaves of those pools that are in it."""
    governed = {root.pk: pool_key(root.name) for root in roots if root.cohort_id is not None}
    subpools = Pool.objects.filter(parent__in=governed).values_list("pk", "parent")
    nodes = governed | {pk: governed[parent] for pk, parent in subpools if parent is not None}
    return TreeGates(tree, nodes)


def _leaf_gate(name: str, quota: Gpus, usage: UsageCounts) -> Gate:
    return Gate(name, quota, usage.used, UNLIMITED, usage.total_usage)
