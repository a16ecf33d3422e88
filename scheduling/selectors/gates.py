"""The quotas and the use of a pool's leaves as the gates that a start passes."""

from __future__ import annotations

from collections.abc import Mapping

from pools.domain import names
from pools.domain.quotas import UNLIMITED, PoolBalance, Usage
from pools.models import Pool
from pools.selectors import balance
from scheduling.domain.admission import Gate
from scheduling.domain.deeds import Path


def leaf_ids(root: Pool) -> dict[str, int]:
    """Row ids of the leaves of a tree by short name; the shared leaf goes by its pool's."""
    slices = Pool.objects.filter(parent=root).values_list("subpool_name", "pk")
    return {names.SHARED: root.pk} | {short: pk for short, pk in slices if short}


def leaf_paths(facts: PoolBalance, ids: Mapping[str, int]) -> dict[int, Path]:
    """The gates of every leaf of a tree by its row id, from the leaf to the container (the scheduling view, D4)."""
    container = Gate(facts.name, facts.scheduling_quota, facts.used, facts.maximum, facts.total_usage)
    leaves = [(names.SHARED, facts.shared_scheduling_quota, facts.shared_usage)]
    leaves += [(part.name, part.scheduling_quota, part.usage) for part in facts.slices]
    return {
        ids[short]: (_leaf_gate(names.canonical(facts.name, short), quota, usage), container)
        for short, quota, usage in leaves
        if short in ids
    }


def paths_of(root: Pool) -> dict[int, Path]:
    """The gates of a tree as they are now."""
    return leaf_paths(balance(root), leaf_ids(root))


def _leaf_gate(name: str, quota: int, usage: Usage) -> Gate:
    return Gate(name, quota, usage.used, UNLIMITED, usage.total_usage)
