"""Pools with their slices as lists show them: two queries and plain tuples, however many there are.

`/api/pool` and `/api/pool_quota` show every slice with its parent's whole configuration (OSMO contract, section 5.1),
so what a slice inherits is made once for its parent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pools.domain.lifecycle import SubpoolState
from pools.domain.names import split
from pools.domain.node_sets import NodeSet, Place, node_sets
from pools.domain.platforms import default_platform, platforms_of
from pools.domain.pool_config import TIMEOUTS, PoolSettings
from pools.domain.quota.pool_balance import UNLIMITED
from pools.domain.roles import Actor
from pools.models import Node, Pool
from pools.representations.pool import status

Body = dict[str, Any]


class RootRow(NamedTuple):
    """A top-level pool; the fields are columns."""

    id: int
    name: str
    description: str
    backend_id: int
    backend__name: str
    backend__offline: bool
    guarantee: int | None
    maximum: int | None
    weight: int | None
    enable_maintenance: bool
    config: dict[str, Any]
    archived: bool
    usage__used: int
    usage__total_usage: int


class SliceRow(NamedTuple):
    """A slice; the fields are columns."""

    parent_id: int
    name: str
    subpool_name: str
    subpool_state: str
    last_quota: int
    usage__used: int
    usage__total_usage: int

    @property
    def quota(self) -> int:
        """The accounting quota (D4)."""
        return self.last_quota if self.subpool_state == SubpoolState.ACTIVE else 0


@dataclass(frozen=True, slots=True)
class Tree:
    """A top-level pool and its slices by name. `shown` are the names a list was asked for; None means all."""

    root: RootRow
    slices: Sequence[SliceRow]
    shown: Collection[str] | None

    def shows(self, name: str) -> bool:
        """Whether the list has a row for this pool or slice."""
        return self.shown is None or name in self.shown

    @property
    def shows_anything(self) -> bool:
        """Whether the list has a row of this tree."""
        return self.shows(self.root.name) or any(self.shows(row.name) for row in self.slices)

    @property
    def allocated(self) -> int:
        """What the ACTIVE slices were promised."""
        return sum(row.quota for row in self.slices)

    @property
    def is_divided(self) -> bool:
        """Whether it has ACTIVE or DELETING slices."""
        return any(row.subpool_state != SubpoolState.ARCHIVED for row in self.slices)

    @property
    def guarantee(self) -> int:
        """The pool's whole guarantee, -1 without one; an archived pool guarantees nothing."""
        if self.root.archived:
            return 0
        return UNLIMITED if self.root.guarantee is None else self.root.guarantee


def listed_trees(actor: Actor, *, names: Collection[str] | None = None, include_archived: bool = False) -> list[Tree]:
    """The trees that `actor` sees, by the pool's name. With `names` those that hold one of these pools or slices;
    names that are unknown or unseen are left out."""
    seen = Pool.objects.visible_to(actor)
    if not include_archived:
        seen = seen.listed()
    roots, slices = seen.filter(parent__isnull=True), seen.filter(parent__isnull=False)
    if names is not None:
        wanted = {split(name).parent for name in names}
        roots, slices = roots.filter(name__in=wanted), slices.filter(parent__name__in=wanted)
    by_parent: dict[int, list[SliceRow]] = defaultdict(list)
    for row in map(SliceRow._make, slices.order_by().values_list(*SliceRow._fields)):
        by_parent[row.parent_id].append(row)
    shown = None if names is None else frozenset(names)
    rows = sorted(map(RootRow._make, roots.order_by().values_list(*RootRow._fields)), key=_name)
    trees = [Tree(root, sorted(by_parent[root.id], key=_short_name), shown) for root in rows]
    return [tree for tree in trees if tree.shows_anything]


def places_with_nodes() -> set[Place]:
    """Every backend and platform that has a node."""
    return set(Node.objects.order_by().values_list("backend_id", "platform").distinct())


def sets_of(trees: Sequence[Tree], there: Collection[Place]) -> list[tuple[NodeSet, list[Tree]]]:
    """The trees by the nodes they share; see :func:`pools.domain.node_sets.node_sets`."""
    by_name = {tree.root.name: tree for tree in trees}
    found = node_sets(((t.root.name, t.root.backend_id, platforms_of(t.root.config)) for t in trees), there)
    return [(each, [by_name[name] for name in each.pools]) for each in found]


def minimal_bodies(tree: Tree) -> Iterator[tuple[str, Body]]:
    """The rows of one tree that the list shows, by name: the pool first, then its slices (5.1)."""
    root, shared, gpu = tree.root, inherited(tree.root), gpu_shares(tree.root)
    if tree.shows(root.name):
        yield root.name, own_body(root) | shared
    for row in tree.slices:
        if tree.shows(row.name):
            own = {
                "name": row.name,
                "resources": {"gpu": {**(gpu or {}), "guarantee": row.quota}},
                "parent_pool": root.name,
                "subpool_name": row.subpool_name,
                "subpool_state": row.subpool_state,
            }
            yield row.name, own | shared


def own_body(root: RootRow) -> Body:
    """What a top-level pool says of itself alone."""
    return {
        "name": root.name,
        "resources": {"gpu": gpu_shares(root)},
        "parent_pool": None,
        "subpool_name": None,
        "subpool_state": None,
    }


def gpu_shares(root: RootRow) -> dict[str, int] | None:
    """`resources.gpu` of a top-level pool; a divided one always has it, for slices need a finite guarantee."""
    return PoolSettings(root.backend__name, guarantee=root.guarantee, maximum=root.maximum, weight=root.weight).gpu


def inherited(root: RootRow) -> Body:
    """What a pool and all its slices have in common."""
    config = root.config
    return {
        "description": root.description,
        "status": status(maintenance=root.enable_maintenance, offline=root.backend__offline),
        "download_type": config.get("download_type"),
        "enable_maintenance": root.enable_maintenance,
        "backend": root.backend__name,
        "default_platform": default_platform(config),
        **{key: config.get(key, "") for key in TIMEOUTS},
        "default_exit_actions": config.get("default_exit_actions", {}),
        "topology_keys": config.get("topology_keys", []),
        "platforms": {name: _platform(platform) for name, platform in platforms_of(config).items()},
        "archived": root.archived,
    }


def _platform(platform: Mapping[str, Any]) -> Body:
    return {
        "description": platform.get("description", ""),
        "host_network_allowed": platform.get("host_network_allowed", False),
        "privileged_allowed": platform.get("privileged_allowed", False),
        "allowed_mounts": platform.get("allowed_mounts", []),
        "default_mounts": [],
    }


def _name(row: RootRow) -> str:
    return row.name


def _short_name(row: SliceRow) -> str:
    return row.subpool_name
