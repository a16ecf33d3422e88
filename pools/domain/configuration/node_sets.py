"""The pools that share nodes (design, O5.2).

A node belongs to a pool when both are on one backend, and its platform and its GPU flavor are of the pool's. So all
nodes of one platform and flavor on one backend belong to the same pools; such a group of nodes is a `NodeGroup`, and
pools share whole groups.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import product

NodeGroup = tuple[int, str, str]
"""The id of a backend, a platform and a flavor: all such nodes on that backend."""


@dataclass(slots=True)
class NodeSet:
    """Pools that share nodes, directly or through other pools, in the order given; and the groups of these nodes."""

    pools: list[str] = field(default_factory=list)
    node_groups: set[NodeGroup] = field(default_factory=set)


def connected_node_sets(
    pools: Iterable[tuple[str, int, Collection[str], Collection[str]]], existing_groups: Collection[NodeGroup]
) -> list[NodeSet]:
    """The connected components of (name, backend id, platforms, flavors), over the groups that have nodes.

    Components are in the order of their first pool. Pools without nodes share one empty set for each backend.
    """
    rows = list(pools)
    groups_by_pool = {
        name: [group for group in product([backend], platforms, flavors) if group in existing_groups]
        for name, backend, platforms, flavors in rows
    }
    roots: dict[NodeGroup, NodeGroup] = {}
    for groups in groups_by_pool.values():
        for group in groups:
            roots[_root(roots, group)] = _root(roots, groups[0])
    sets: dict[NodeGroup | int, NodeSet] = {}
    for name, backend, _, _ in rows:
        key = _root(roots, groups_by_pool[name][0]) if groups_by_pool[name] else backend
        found = sets.setdefault(key, NodeSet())
        found.pools.append(name)
        found.node_groups.update(groups_by_pool[name])
    return list(sets.values())


def _root(roots: dict[NodeGroup, NodeGroup], group: NodeGroup) -> NodeGroup:
    """The group that represents a component; the groups on the path to it are attached to it directly."""
    top = roots.setdefault(group, group)
    while top != roots[top]:
        top = roots[top]
    while (above := roots[group]) != top:
        roots[group], group = top, above
    return top
