"""Which pools share machines (OSMO contract, section 5.2).

A node belongs to a pool when both are on one backend and its platform is one of the pool's. So all nodes of one
platform on one backend belong to the same pools, and such a *place* is what pools share or not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

NodeGroup = tuple[int, str]
"""A backend's id and a platform: the nodes that are there."""


@dataclass(slots=True)
class NodeSet:
    """Pools that share nodes, directly or through other pools, in the order given; and the places of their nodes."""

    pools: list[str] = field(default_factory=list)
    node_groups: set[NodeGroup] = field(default_factory=set)


def connected_node_sets(
    pools: Iterable[tuple[str, int, Collection[str]]], existing_groups: Collection[NodeGroup]
) -> list[NodeSet]:
    """The connected components of (name, backend id, platforms) over the places that have nodes (`existing_groups`).

    Components stand in the order of their first pool. Pools without nodes share one empty set per backend.
    """
    listed = list(pools)
    mine = {
        name: [(backend, each) for each in platforms if (backend, each) in existing_groups]
        for name, backend, platforms in listed
    }
    roots: dict[NodeGroup, NodeGroup] = {}
    for places in mine.values():
        for place in places:
            roots[_root(roots, place)] = _root(roots, places[0])
    sets: dict[NodeGroup | int, NodeSet] = {}
    for name, backend, _ in listed:
        key = _root(roots, mine[name][0]) if mine[name] else backend
        found = sets.setdefault(key, NodeSet())
        found.pools.append(name)
        found.node_groups.update(mine[name])
    return list(sets.values())


def _root(roots: dict[NodeGroup, NodeGroup], place: NodeGroup) -> NodeGroup:
    """The place that stands for a component; places on the way are hung below it."""
    top = roots.setdefault(place, place)
    while top != roots[top]:
        top = roots[top]
    while (above := roots[place]) != top:
        roots[place], place = top, above
    return top
