"""The tree of quotas as the API shows it (design, A4)."""

from __future__ import annotations

from typing import Annotated, TypedDict

from pools.domain.numbers import TREE_NUMBERS, WEIGHT
from pools.domain.quota.forest import display_name
from pools.domain.quota.outline import NodeKind, OutlineNode
from pools.domain.quota.tree import NO_QUOTA
from pools.domain.quota.usage_bar import UsageBarAnswer
from pools.domain.values.amounts import UNLIMITED, Amount, JsonAmount, as_json
from pools.selectors.quotas.quota_tree import CycleCondition, QuotaView

_OF_WEIGHT_0 = " Infinite for a node of weight 0 that borrows."


class NodeQuotaAnswer(TypedDict):
    """The quota of a node for one resource, its limits (null: none) and its numbers (docs/numbers.md)."""

    flavor: str
    resource: str
    nominal: Annotated[JsonAmount, TREE_NUMBERS["nominal"].meaning]
    borrowing_limit: Annotated[JsonAmount | None, TREE_NUMBERS["borrowing_limit"].meaning]
    lending_limit: Annotated[JsonAmount | None, TREE_NUMBERS["lending_limit"].meaning]
    quota: Annotated[JsonAmount, TREE_NUMBERS["quota"].meaning]
    total_usage: Annotated[JsonAmount, TREE_NUMBERS["total_usage"].meaning]
    can_start_now: Annotated[JsonAmount, TREE_NUMBERS["can_start_now"].meaning]
    low_can_start_now: Annotated[JsonAmount, TREE_NUMBERS["low_can_start_now"].meaning]
    subtree_quota: Annotated[JsonAmount, TREE_NUMBERS["subtree_quota"].meaning]
    usage: Annotated[JsonAmount, TREE_NUMBERS["usage"].meaning]
    t: Annotated[JsonAmount, TREE_NUMBERS["t"].meaning]
    available: Annotated[JsonAmount, TREE_NUMBERS["available"].meaning]
    potential_available: Annotated[JsonAmount, TREE_NUMBERS["potential_available"].meaning]
    borrowed: Annotated[JsonAmount, TREE_NUMBERS["borrowed"].meaning]
    lent: Annotated[JsonAmount, TREE_NUMBERS["lent"].meaning]
    lendable: Annotated[JsonAmount, TREE_NUMBERS["lendable"].meaning]
    debt: Annotated[JsonAmount, TREE_NUMBERS["debt"].meaning]
    pending: Annotated[int, TREE_NUMBERS["pending"].meaning]
    bar: UsageBarAnswer


class TreeNodeAnswer(TypedDict):
    """A node of the quota tree."""

    name: str
    kind: Annotated[str, NodeKind]
    parent: str | None
    explicit: bool
    active: bool
    condition: CycleCondition | None
    quotas: list[NodeQuotaAnswer]
    weight: Annotated[JsonAmount, WEIGHT.meaning]
    weighted_share: Annotated[int | str, TREE_NUMBERS["weighted_share"].meaning + _OF_WEIGHT_0]
    dominant_resource: str | None


def tree_node_bodies(view: QuotaView) -> list[TreeNodeAnswer]:
    """The nodes as the API shows them."""
    return [_node_body(view, node) for node in view.nodes]


def _node_body(view: QuotaView, node: OutlineNode) -> TreeNodeAnswer:
    condition, found = view.condition(node), view.share(node)
    return {
        "name": node.name,
        "kind": node.kind,
        "parent": None if node.parent is None else display_name(node.parent),
        "explicit": node.is_explicit,
        "active": condition is None,
        "condition": condition,
        "quotas": [_quota_body(view, node, key) for key in view.keys_for(node)],
        "weight": as_json(view.tree.nodes[node.key].weight),
        "weighted_share": found.reported_share,
        "dominant_resource": found.dominant_resource,
    }


def _quota_body(view: QuotaView, node: OutlineNode, key: str) -> NodeQuotaAnswer:
    flavor, _, resource = key.partition("/")
    own, held = view.tree.nodes[node.key].quotas.get(key, NO_QUOTA), view.numbers[key][node.key]
    total = view.totals[key][node.key]
    return {
        "flavor": flavor,
        "resource": resource,
        "nominal": as_json(own.nominal),
        "borrowing_limit": _limit(own.borrowing_limit),
        "lending_limit": _limit(own.lending_limit),
        "quota": as_json(total.quota),
        "total_usage": as_json(total.total_usage),
        "can_start_now": as_json(total.can_start_now),
        "low_can_start_now": as_json(total.low_can_start_now),
        "subtree_quota": as_json(held.subtree_quota),
        "usage": as_json(held.usage),
        "t": as_json(held.t),
        "available": as_json(held.available),
        "potential_available": as_json(held.potential_available),
        "borrowed": as_json(held.borrowed),
        "lent": as_json(held.lent),
        "lendable": as_json(held.lendable),
        "debt": as_json(view.debt(node, key)),
        "pending": view.pending.get(key, {}).get(node.key, 0),
        "bar": total.bar.as_body(),
    }


def _limit(limit: Amount) -> JsonAmount | None:
    return None if limit == UNLIMITED else as_json(limit)
