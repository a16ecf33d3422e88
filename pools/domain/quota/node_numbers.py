"""The numbers on pages for each node of the tree: borrowed, lent out, still lendable, debt, weighted share.

Only balances are stored, not the pairs of borrowers and lenders (design, Q3). So *lent out* is computed from the
balances: the borrowing of a node's children first uses the nominal quota of the node itself (which belongs to them
all), then the unused visible part of its other children in the order given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Literal

from pools.domain.quota.tree import QuotaTree
from pools.domain.values.amounts import UNLIMITED, Amount, Number, resource_of

INFINITE: Literal["infinite"] = "infinite"


@dataclass(frozen=True, slots=True)
class NodeNumbers:
    """One (flavor, resource) of one node. `available` is never below 0; `t` may be."""

    subtree_quota: Amount
    usage: Number
    t: Amount
    available: Amount
    potential_available: Amount
    borrowed: Amount
    lent: Amount
    lendable: Amount
    debt: Amount


@dataclass(frozen=True, slots=True)
class WeightedShare:
    """Dominant resource share: `exact` is borrowed·1000 / lendable / weight; `UNLIMITED` if it borrows at weight 0."""

    exact: Amount
    dominant_resource: str | None

    @property
    def reported_share(self) -> int | Literal["infinite"]:
        """The share rounded up, as Kueue reports it."""
        return INFINITE if self.exact == UNLIMITED else math.ceil(self.exact)


def node_numbers(tree: QuotaTree, key: str) -> dict[str, NodeNumbers]:
    """The numbers of every node for one (flavor, resource), by name."""
    column, lent = tree.columns[key], _lent_amounts(tree, key)
    available = column.available_of_all()
    result = {}
    for x, name in enumerate(tree.names):
        unused = max(0, column.visible[x] - max(0, column.usage[x] - column.local[x]))
        result[name] = NodeNumbers(
            subtree_quota=column.subtree[x],
            usage=column.usage[x],
            t=column.balance(x),
            available=max(0, available[x]) if tree.is_active(name) else 0,
            potential_available=column.potential(x),
            borrowed=max(0, column.usage[x] - column.subtree[x]),
            lent=lent[x],
            lendable=UNLIMITED if unused == UNLIMITED else unused - lent[x] if tree.parents[x] >= 0 else 0,
            debt=column.debt(x),
        )
    return result


def add_numbers(of_flavors: Sequence[Mapping[str, NodeNumbers]]) -> dict[str, NodeNumbers]:
    """The sums of the numbers of several flavors, by the name of the node."""
    names = [each.name for each in fields(NodeNumbers)]
    return {
        node: NodeNumbers(**{name: sum(getattr(each[node], name) for each in of_flavors) for name in names})
        for node in of_flavors[0]
    }


def _lent_amounts(tree: QuotaTree, key: str) -> list[Amount]:
    column, parents = tree.columns[key], tree.parents
    children: list[list[int]] = [[] for _ in parents]
    queue = []
    for x, parent in enumerate(parents):
        if parent < 0:
            queue.append(x)
        else:
            children[parent].append(x)
    lent: list[Amount] = [0] * len(parents)
    for x in queue:
        below = children[x]
        queue.extend(below)
        drawn = sum((max(0, column.usage[c] - column.subtree[c]) for c in below), start=lent[x])
        drawn -= max(0, column.usage[x] - column.subtree[x])
        wanted = max(0, drawn - column.nominal[x])
        for c in below:
            unused = max(0, column.visible[c] - max(0, column.usage[c] - column.local[c]))
            lent[c] = min(unused, wanted)
            wanted -= lent[c]
    return lent


def weighted_share(tree: QuotaTree, name: str) -> WeightedShare:
    """The weighted dominant resource share of a node (design, Q5). A root has share 0."""
    x = tree.index[name]
    parent = tree.parents[x]
    if parent < 0:
        return WeightedShare(0, None)
    borrowed: dict[str, Amount] = {}
    lendable: dict[str, Amount] = {}
    for key, column in tree.columns.items():
        resource = resource_of(key)
        over = max(0, column.usage[x] - column.subtree[x])
        borrowed[resource] = borrowed.get(resource, 0) + over
        lendable[resource] = lendable.get(resource, 0) + column.potential(parent)
    ratio, dominant = Fraction(0), None
    for resource in sorted(borrowed):
        if borrowed[resource] <= 0 or lendable[resource] <= 0:
            continue
        # A share of an unlimited lendable amount is 0.
        pool = lendable[resource]
        found = Fraction(0) if pool == UNLIMITED else Fraction(borrowed[resource]) * 1000 / Fraction(pool)
        if dominant is None or found > ratio:
            ratio, dominant = found, resource
    weight = tree.nodes[name].weight
    if weight == 0:
        return WeightedShare(UNLIMITED if any(amount > 0 for amount in borrowed.values()) else 0, dominant)
    return WeightedShare(ratio / Fraction(weight), dominant)
