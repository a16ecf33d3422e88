"""The numbers of a node of the quota tree that have everything below it: quota, total in use, what may start, its bar.

The other numbers of the tree (:mod:`pools.domain.quota.node_numbers`) leave out quota that may not be lent, because
they answer what a node has for others. These add up from the leaves to the top.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pools.domain import names
from pools.domain.quota.forest import pool_key
from pools.domain.quota.node_numbers import NodeNumbers, node_numbers
from pools.domain.quota.pool_balance import PoolBalance
from pools.domain.quota.tree import QuotaTree, ResourceColumn
from pools.domain.quota.usage_bar import UsageBar, leaf_bar, subpool_bar, sum_bars
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import GPU, UNLIMITED, Amount, Gpus, Number, flavor_of, is_gpu


@dataclass(frozen=True, slots=True)
class NodeTotals:
    """Of one (flavor, resource) of a node. `can_start_now` is what HIGH and NORMAL work may start on the leaves below
    at the same time without taking anything from other work, `low_can_start_now` the same of LOW work. `is_closed`: no
    new work starts here."""

    quota: Amount
    total_usage: Number
    guaranteed_free: Amount
    can_start_now: Amount
    low_can_start_now: Amount
    bar: UsageBar
    is_closed: bool = False


@dataclass(frozen=True, slots=True)
class _LeafPart:
    quota: Gpus
    guaranteed_free: Gpus
    bar: UsageBar
    is_closed: bool = False


NOTHING = _LeafPart(0, 0, UsageBar())


def node_totals(
    tree: QuotaTree, balances: Iterable[PoolBalance], key: str = GPU, numbers: Mapping[str, NodeNumbers] | None = None
) -> dict[str, NodeTotals]:
    """The totals of every node, by its key. `balances` are those of the pools that have their leaves in the tree;
    `numbers` are those of `node_numbers`, if the caller has them. Only GPUs have leaves."""
    held = numbers or node_numbers(tree, key)
    flavor = flavor_of(key)
    parts = (
        dict(_leaf_parts(each.by_flavor[flavor] for each in balances if flavor in each.by_flavor))
        if is_gpu(key)
        else {}
    )
    column = tree.columns[key]
    quota = [parts[name].quota if name in parts else column.nominal[x] for x, name in enumerate(tree.names)]
    usage = list(column.own)
    free: list[Amount] = [parts.get(name, NOTHING).guaranteed_free for name in tree.names]
    bars = [parts.get(name, NOTHING).bar for name in tree.names]
    available = [held[name].available for name in tree.names]
    parents = [_parent_of(tree, x, parts) for x in range(len(tree.names))]
    has_children = [False] * len(parents)
    for x in tree.children_first:
        if (parent := parents[x]) >= 0:
            has_children[parent] = True
            quota[parent] += quota[x]
            usage[parent] += usage[x]
            free[parent] += free[x]
            bars[parent] = _add(bars[parent], bars[x])
    closed = [parts.get(name, NOTHING).is_closed for name in tree.names]
    is_open_leaf = [not (above or shut) for above, shut in zip(has_children, closed, strict=True)]
    starts = _starts(tree, column, parents, available, [free[x] if each else 0 for x, each in enumerate(is_open_leaf)])
    low = _starts(
        tree, column, parents, available, [available[x] if each else 0 for x, each in enumerate(is_open_leaf)]
    )
    return {
        name: NodeTotals(
            quota[x],
            usage[x],
            free[x],
            starts[x],
            low[x],
            _bar(bars[x], quota[x], usage[x]).lending(held[name].lent),
            closed[x],
        )
        for x, name in enumerate(tree.names)
    }


def gpu_totals(tree: QuotaTree, balances: Sequence[PoolBalance]) -> dict[str, NodeTotals]:
    """The totals of every node in GPUs of all flavors together."""
    of_flavors = [node_totals(tree, balances, key) for key in tree.keys if is_gpu(key)]
    return of_flavors[0] if len(of_flavors) == 1 else add_totals(of_flavors)


def add_totals(of_flavors: Sequence[Mapping[str, NodeTotals]]) -> dict[str, NodeTotals]:
    """The sums of the totals of several flavors, by the key of the node."""
    return {
        name: NodeTotals(
            sum(each[name].quota for each in of_flavors),
            sum(each[name].total_usage for each in of_flavors),
            sum(each[name].guaranteed_free for each in of_flavors),
            sum(each[name].can_start_now for each in of_flavors),
            sum(each[name].low_can_start_now for each in of_flavors),
            sum_bars(each[name].bar for each in of_flavors),
            any(each[name].is_closed for each in of_flavors),
        )
        for name in of_flavors[0]
    }


def _parent_of(tree: QuotaTree, x: int, parts: Mapping[str, _LeafPart]) -> int:
    """The parent; also of a leaf whose pool is on a cycle, where a pool still has its leaves."""
    if tree.parents[x] < 0 and tree.names[x] in parts:
        return tree.index[tree.nodes[tree.names[x]].parent or ""]
    return tree.parents[x]


def _starts(
    tree: QuotaTree, column: ResourceColumn, parents: Sequence[int], available: Sequence[Amount], wanted: list[Amount]
) -> list[Amount]:
    """What may start below each node at the same time, if the leaves want these amounts. The use of quota that may not
    be lent does not count above its node, so a node may start more than what is available at it."""
    starts, counted = list(wanted), list(wanted)
    for x in tree.children_first:
        if counted[x] > available[x]:
            # Only a leaf can want an unlimited amount that is not available.
            starts[x] = available[x] if counted[x] == UNLIMITED else starts[x] - (counted[x] - available[x])
            counted[x] = available[x]
        if (parent := parents[x]) >= 0:
            starts[parent] += starts[x]
            unused = max(0, column.local[x] - column.usage[x])
            counted[parent] += counted[x] - unused if counted[x] > unused else 0
    return starts


def _leaf_parts(balances: Iterable[PoolBalance]) -> Iterator[tuple[str, _LeafPart]]:
    for balance in balances:
        shared = balance.shared_usage
        kept = min(balance.unallocated, balance.shared_scheduling_quota)
        yield (
            pool_key(names.canonical_name(balance.name, names.SHARED_QUEUE)),
            _LeafPart(
                balance.unallocated,
                max(0, kept - shared.used),
                leaf_bar(balance.unallocated, shared),
                balance.is_closed,
            ),
        )
        for part in balance.subpools:
            if part.state is not SubpoolState.ARCHIVED:
                yield (
                    pool_key(names.canonical_name(balance.name, part.name)),
                    _LeafPart(
                        part.quota, max(0, part.available), subpool_bar(part), balance.is_closed or part.is_closed
                    ),
                )


def _add(left: UsageBar, right: UsageBar) -> UsageBar:
    return UsageBar(
        guaranteed=left.guaranteed + right.guaranteed,
        low_inside=left.low_inside + right.low_inside,
        over_quota=left.over_quota + right.over_quota,
        draining=left.draining + right.draining,
    )


def _bar(bar: UsageBar, quota: Amount, usage: Number) -> UsageBar:
    """The bar of a node with everything below it; use of which no leaf is known is inside the quota as far as it
    goes."""
    unknown = usage - bar.in_use
    if unknown > 0:
        inside = unknown if quota == UNLIMITED else min(unknown, max(0, quota - bar.in_use))
        bar = _add(bar, UsageBar(guaranteed=int(inside), over_quota=int(unknown - inside)))
    return bar.with_quota(UNLIMITED if quota == UNLIMITED else int(quota))
