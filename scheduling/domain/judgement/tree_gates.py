"""The cohort tree above some leaves, with its usage while work starts and stops there."""

from __future__ import annotations

from collections.abc import Mapping

from pools.domain.quota.tree import QuotaTree, Shortfall
from pools.domain.values.amounts import DEFAULT_FLAVOR, Amount, gpu_key


class TreeGates:
    """Keyed by the id of a leaf, in GPUs, like :class:`scheduling.domain.judgement.plan_units.Gates`. Nothing here
    bounds a leaf without a cohort above it."""

    def __init__(self, tree: QuotaTree | None = None, nodes: Mapping[int, str] | None = None) -> None:
        """`nodes` are the tree names of the leaves that the tree bounds, or of their pools."""
        self._tree = tree or QuotaTree([])
        self._nodes = nodes or {}

    def shortfall(self, leaf: int, gpus: int, flavor: str = DEFAULT_FLAVOR) -> Shortfall | None:
        """Why these GPUs of a flavor may not start there, or None if they may. On a cycle of parents nothing may."""
        if leaf not in self._nodes:
            return None
        return next(iter(self._tree.shortfalls(self._nodes[leaf], {gpu_key(flavor): gpus})), None)

    def add_usage(self, leaf: int, gpus: int, flavor: str = DEFAULT_FLAVOR) -> None:
        """Count GPUs of work that starts there, or (below 0) of work that stops."""
        if leaf not in self._nodes or (column := self._tree.columns.get(gpu_key(flavor))) is None:
            return
        x = self._tree.index[self._nodes[leaf]]
        if gpus >= 0:
            column.reserve(x, gpus)
        else:
            column.release(x, -gpus)

    def balances(self, leaf: int, flavor: str = DEFAULT_FLAVOR) -> tuple[Amount, ...]:
        """The balance T of the pool of a leaf and of every node above it, from the pool upward."""
        if leaf not in self._nodes or (column := self._tree.columns.get(gpu_key(flavor))) is None:
            return ()
        found, x = [], self._tree.index[self._nodes[leaf]]
        while x >= 0:
            found.append(column.balance(x))
            x = self._tree.parents[x]
        return tuple(found)
