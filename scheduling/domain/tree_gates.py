"""The tree of cohorts above some leaves, while work starts there and loses its places."""

from __future__ import annotations

from collections.abc import Mapping

from pools.domain.amounts import GPU, Amount
from pools.domain.quota.tree import QuotaTree, Shortfall


class TreeGates:
    """Asked and moved like :class:`scheduling.domain.plan_units.Gates`: by the id of a leaf, in GPUs. A leaf without a
    cohort above it is bound by nothing here."""

    def __init__(self, tree: QuotaTree | None = None, nodes: Mapping[int, str] | None = None) -> None:
        """`nodes` are the names in the tree of the leaves that it binds, or of their pools."""
        self._tree = tree or QuotaTree([])
        self._nodes = nodes or {}

    def shortfall(self, leaf: int, gpus: int) -> Shortfall | None:
        """Why so many GPUs may not start there, or None if they may. Nothing may on a circle of parents."""
        if leaf not in self._nodes:
            return None
        return next(iter(self._tree.shortfalls(self._nodes[leaf], {GPU: gpus})), None)

    def add_usage(self, leaf: int, gpus: int) -> None:
        """Work starts there, or (below 0) loses its places."""
        if leaf not in self._nodes:
            return
        column, x = self._tree.columns[GPU], self._tree.index[self._nodes[leaf]]
        if gpus >= 0:
            column.reserve(x, gpus)
        else:
            column.release(x, -gpus)

    def balances(self, leaf: int) -> tuple[Amount, ...]:
        """How the pool of a leaf and everything above it stand, from the pool upward: T of each."""
        if leaf not in self._nodes:
            return ()
        found, x = [], self._tree.index[self._nodes[leaf]]
        while x >= 0:
            found.append(self._tree.columns[GPU].balance(x))
            x = self._tree.parents[x]
        return tuple(found)
