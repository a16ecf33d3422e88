"""Pools with their subpools as lists show them: two queries and plain tuples, however many there are.

`/api/pool` and `/api/pool_quota` show every subpool with its parent's whole configuration (design, O5.1),
so the inherited part is built once for each parent.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

from pools.database.prepared import read_rows
from pools.domain.configuration.node_sets import NodeGroup, NodeSet, connected_node_sets
from pools.domain.configuration.platforms import default_platform, platforms_of
from pools.domain.configuration.pool_config import DEFAULT_WEIGHT, GpuResources, PoolSettings
from pools.domain.names import split_name
from pools.domain.people.roles import Actor, Permission
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import DEFAULT_FLAVOR, NO_LIMIT, Gpus, decode_gpus
from pools.models import Node
from pools.representations.pool import pool_status


class ResourcesAnswer(TypedDict):
    """GPUs; null for a pool without any setting of them."""

    gpu: GpuResources | None


class OwnKeys(TypedDict):
    """The keys that a subpool does not share with its pool."""

    name: str
    resources: ResourcesAnswer
    parent_pool: str | None
    subpool_name: str | None
    subpool_state: str | None


class ListedPlatformAnswer(TypedDict):
    """A platform, without the mounts that are always there."""

    description: str
    host_network_allowed: bool
    privileged_allowed: bool
    allowed_mounts: list[str]
    default_mounts: list[str]


class InheritedKeys(TypedDict):
    """The keys that a pool and all its subpools share."""

    description: str
    status: str
    download_type: str | None
    enable_maintenance: bool
    backend: str
    default_platform: str | None
    default_exec_timeout: str
    default_queue_timeout: str
    max_exec_timeout: str
    max_queue_timeout: str
    default_exit_actions: dict[str, str]
    topology_keys: list[dict[str, str]]
    platforms: dict[str, ListedPlatformAnswer]
    archived: bool


class ListedPoolAnswer(OwnKeys, InheritedKeys):
    """A pool or subpool in a list, with the configuration of the pool."""


# By hand, because Django needs more time to write these statements than PostgreSQL to answer them.
_ROOT_CONDITION = """
    root.parent_id IS NULL AND (%(archived)s OR NOT root.archived)
    AND (%(visible)s::text[] IS NULL OR root.name = ANY(%(visible)s::text[]))
    AND (%(wanted)s::text[] IS NULL OR root.name = ANY(%(wanted)s::text[]))
"""
_ROOTS_SQL = f"""
    SELECT root.id, root.name, root.description, root.backend_id, backend.name, backend.offline, root.guarantee,
        root.maximum, root.weight, root.enable_maintenance, root.config, root.archived, usage.used, usage.total_usage,
        root.flavors
    FROM pools_pool root
    LEFT JOIN pools_backend backend ON backend.id = root.backend_id
    LEFT JOIN pools_leafusage usage ON usage.pool_id = root.id
    WHERE {_ROOT_CONDITION}
"""
_SUBPOOLS_SQL = f"""
    SELECT part.parent_id, part.name, part.subpool_name, part.subpool_state, part.last_quota, usage.used,
        usage.total_usage
    FROM pools_pool part
    JOIN pools_pool root ON root.id = part.parent_id
    LEFT JOIN pools_leafusage usage ON usage.pool_id = part.id
    WHERE {_ROOT_CONDITION} AND (%(archived)s OR (NOT part.archived AND part.subpool_state <> 'ARCHIVED'))
"""


class ListedRootRow(NamedTuple):
    """A top-level pool; the fields are the columns of `_ROOTS_SQL`."""

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
    flavors: Sequence[str]


class ListedSubpoolRow(NamedTuple):
    """A subpool; the fields are the columns of `_SUBPOOLS_SQL`."""

    parent_id: int
    name: str
    subpool_name: str
    subpool_state: str
    last_quota: int
    usage__used: int
    usage__total_usage: int

    @property
    def quota(self) -> int:
        """The accounting quota (design, D4)."""
        return self.last_quota if self.subpool_state == SubpoolState.ACTIVE else 0


@dataclass(frozen=True, slots=True)
class ListedPool:
    """A top-level pool and its subpools by name. `listed_names` are the requested names; None means all."""

    root: ListedRootRow
    subpools: Sequence[ListedSubpoolRow]
    listed_names: Collection[str] | None

    def is_listed(self, name: str) -> bool:
        """Whether the list has a row for this pool or subpool."""
        return self.listed_names is None or name in self.listed_names

    @property
    def lists_anything(self) -> bool:
        """Whether the list has a row of this tree."""
        return self.is_listed(self.root.name) or any(self.is_listed(row.name) for row in self.subpools)

    @property
    def allocated(self) -> int:
        """The sum of the quotas of the ACTIVE subpools."""
        return sum(row.quota for row in self.subpools)

    @property
    def is_partitioned(self) -> bool:
        """Whether the pool has ACTIVE or DELETING subpools."""
        return any(row.subpool_state != SubpoolState.ARCHIVED for row in self.subpools)

    @property
    def guarantee(self) -> Gpus:
        """The quota of the whole pool, -1 without one; 0 for an archived pool."""
        if self.root.archived:
            return 0
        return decode_gpus(self.root.guarantee)


def list_pools(
    actor: Actor,
    *,
    names: Collection[str] | None = None,
    include_archived: bool = False,
    with_subpools: bool = False,
) -> list[ListedPool]:
    """The trees that `actor` sees, by the pool's name. With `names` only the trees that contain one of these pools
    or subpools; unknown and invisible names are left out. `with_subpools` lists the subpools of named pools, too."""
    parameters = {
        "archived": include_archived,
        # The names of all top-level pools that may be listed; None without such a limit.
        "visible": None if actor.can_read_all else sorted(actor.pools_with(Permission.POOL_READ)),
        "wanted": None if names is None else sorted({split_name(name).parent for name in names}),
    }
    by_parent: dict[int, list[ListedSubpoolRow]] = defaultdict(list)
    found = read_rows(_ROOTS_SQL, parameters)
    rows = [ListedRootRow._make((*row[:10], json.loads(row[10]), *row[11:14], _read_flavors(row[14]))) for row in found]
    for row in map(ListedSubpoolRow._make, read_rows(_SUBPOOLS_SQL, parameters)):
        by_parent[row.parent_id].append(row)
    rows.sort(key=_name)
    listed = None if names is None else frozenset(names)
    trees = [
        ListedPool(
            root,
            sorted(by_parent[root.id], key=_short_name),
            None if listed is None or (with_subpools and root.name in listed) else listed,
        )
        for root in rows
    ]
    return [tree for tree in trees if tree.lists_anything]


def _read_flavors(text: str) -> Sequence[str]:
    """The flavors whose nodes a pool may use."""
    return [each["flavor"] for each in json.loads(text)] if text != "[]" else (DEFAULT_FLAVOR,)


def node_groups_with_nodes() -> set[NodeGroup]:
    """Every backend, platform and flavor that has a node."""
    return set(Node.objects.order_by().values_list("backend_id", "platform", "flavor").distinct())


def group_by_node_set(
    trees: Sequence[ListedPool], existing_groups: Collection[NodeGroup]
) -> list[tuple[NodeSet, list[ListedPool]]]:
    """The trees by the nodes they share; see :func:`pools.domain.configuration.node_sets.connected_node_sets`."""
    by_name = {tree.root.name: tree for tree in trees}
    found = connected_node_sets(
        ((t.root.name, t.root.backend_id, platforms_of(t.root.config), t.root.flavors) for t in trees), existing_groups
    )
    return [(each, [by_name[name] for name in each.pools]) for each in found]


def minimal_bodies(tree: ListedPool) -> Iterator[tuple[str, ListedPoolAnswer]]:
    """The rows of one tree that the list shows, by name: the pool first, then its subpools (design, O5.1)."""
    root, shared, gpu = tree.root, inherited_body(tree.root), subpool_resources(tree.root)
    if tree.is_listed(root.name):
        yield root.name, {**root_body(root), **shared}
    for row in tree.subpools:
        if tree.is_listed(row.name):
            yield (
                row.name,
                {
                    "name": row.name,
                    "resources": {"gpu": {**gpu, "guarantee": row.quota}},
                    "parent_pool": root.name,
                    "subpool_name": row.subpool_name,
                    "subpool_state": row.subpool_state,
                    **shared,
                },
            )


def root_body(root: ListedRootRow) -> OwnKeys:
    """The keys of a top-level pool that its subpools do not share."""
    return {
        "name": root.name,
        "resources": {"gpu": gpu_resources(root)},
        "parent_pool": None,
        "subpool_name": None,
        "subpool_state": None,
    }


def gpu_resources(root: ListedRootRow) -> GpuResources | None:
    """`resources.gpu` of a top-level pool."""
    return PoolSettings(
        root.backend__name, guarantee=root.guarantee, maximum=root.maximum, weight=root.weight
    ).gpu_resources


def subpool_resources(root: ListedRootRow) -> GpuResources:
    """The same for its subpools, whose `guarantee` is their quota. A pool with subpools has a finite quota, so only
    archived ones need the defaults."""
    return gpu_resources(root) or {"guarantee": 0, "maximum": NO_LIMIT, "weight": DEFAULT_WEIGHT}


def inherited_body(root: ListedRootRow) -> InheritedKeys:
    """The keys that a pool and all its subpools share."""
    config = root.config
    return {
        "description": root.description,
        "status": pool_status(is_maintenance=root.enable_maintenance, is_offline=root.backend__offline),
        "download_type": config.get("download_type"),
        "enable_maintenance": root.enable_maintenance,
        "backend": root.backend__name,
        "default_platform": default_platform(config),
        "default_exec_timeout": config.get("default_exec_timeout", ""),
        "default_queue_timeout": config.get("default_queue_timeout", ""),
        "max_exec_timeout": config.get("max_exec_timeout", ""),
        "max_queue_timeout": config.get("max_queue_timeout", ""),
        "default_exit_actions": config.get("default_exit_actions", {}),
        "topology_keys": config.get("topology_keys", []),
        "platforms": {name: _platform_body(platform) for name, platform in platforms_of(config).items()},
        "archived": root.archived,
    }


def _platform_body(platform: Mapping[str, Any]) -> ListedPlatformAnswer:
    return {
        "description": platform.get("description", ""),
        "host_network_allowed": platform.get("host_network_allowed", False),
        "privileged_allowed": platform.get("privileged_allowed", False),
        "allowed_mounts": platform.get("allowed_mounts", []),
        "default_mounts": [],
    }


def _name(row: ListedRootRow) -> str:
    return row.name


def _short_name(row: ListedSubpoolRow) -> str:
    return row.subpool_name
