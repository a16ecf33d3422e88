"""The tree of quotas as the API shows it (api.md, "Quota tree and cohorts")."""

from __future__ import annotations

from typing import Any

from pools.domain.amounts import GPU, UNLIMITED, Amount, as_json
from pools.domain.quota.forest import display_name
from pools.domain.quota.outline import OutlineNode
from pools.domain.quota.tree import LIMIT_KEYS, NO_QUOTA
from pools.selectors.quota_tree import Body, QuotaView

_NUMBERS = ("subtree_quota", "usage", "t", "available", "potential_available", "borrowed", "lent", "lendable")


def tree_node_bodies(view: QuotaView) -> list[Body]:
    """The nodes as the API shows them."""
    return [_node_body(view, node) for node in view.nodes]


def _node_body(view: QuotaView, node: OutlineNode) -> Body:
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


def _quota_body(view: QuotaView, node: OutlineNode, key: str) -> Body:
    flavor, _, resource = key.partition("/")
    own, held = view.tree.nodes[node.key].quotas.get(key, NO_QUOTA), view.numbers[key][node.key]
    return {
        "flavor": flavor,
        "resource": resource,
        "nominal": as_json(own.nominal),
        **{limit: _limit(getattr(own, limit)) for limit in LIMIT_KEYS},
        **{number: as_json(getattr(held, number)) for number in _NUMBERS},
        "debt": as_json(view.debt(node, key)),
        "pending": view.pending.get(node.key, 0) if key == GPU else 0,
    }


def _limit(limit: Amount) -> Any:
    return None if limit == UNLIMITED else as_json(limit)
