"""Lending limits that keep idle quota from a queue: which, and how far they would have to rise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pools.domain.quota.tree import ResourceColumn
from pools.domain.values.amounts import Amount


@dataclass(frozen=True, slots=True)
class LendingRise:
    """The lending limit of this node (an index of the tree), the amount that it keeps idle now, and its rise."""

    node: int
    idle: Amount
    amount: Amount


def find_lending_rises(column: ResourceColumn, x: int, missing: Amount) -> tuple[tuple[LendingRise, ...], Amount]:
    """The least rises of lending limits, largest owners first, after which the root above the node `x` has the missing
    amount, and the part of it that they give: less than is missing if all that is kept is not enough."""
    path, root = {x}, x
    while column.parents[root] >= 0:
        root = column.parents[root]
        path.add(root)
    before, idle, now = column.balance(root), dict(_kept(column, path)), column
    rises: dict[int, Amount] = {}
    while (lacking := missing - (now.balance(root) - before)) > 0:
        # What one limit lets through, one above it may keep: the amounts are found again after each rise.
        owner = max(_kept(now, path), key=lambda kept: kept[1], default=None)
        if owner is None:
            break
        node, kept = owner
        rises[node] = rises.get(node, 0) + min(kept, lacking)
        now = column.with_lending(rises)
    given = min(missing, now.balance(root) - before)
    return tuple(LendingRise(node, idle.get(node, 0), amount) for node, amount in rises.items()), given


def _kept(column: ResourceColumn, path: set[int]) -> Iterator[tuple[int, Amount]]:
    """The nodes outside of the path that keep idle quota by a lending limit of their own, with the amount, if nothing
    above them keeps it as well."""
    parents, local = column.parents, column.local
    for x, parent in enumerate(parents):
        idle = local[x] - column.usage[x]
        above = parent
        while above >= 0 and above not in path and not local[above]:
            above = parents[above]
        if x not in path and idle > 0 and above in path:
            yield x, idle
