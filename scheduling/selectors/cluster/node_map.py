"""The nodes of one backend with the workflows that run on them, and the number of tasks of each size that still fit.

The number of queries does not depend on the number of nodes, workflows or pools.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Min, QuerySet, Sum

from pools.domain.configuration.flavors import flavors_of, parts_among
from pools.domain.configuration.platforms import platforms_of
from pools.domain.errors import NotFound
from pools.domain.people.roles import Actor
from pools.domain.values.amounts import DEFAULT_FLAVOR
from pools.domain.values.counting import counted
from pools.models import Backend, Node, Pool
from scheduling.domain.statuses import TaskStatus
from scheduling.selectors.cluster.nodes import NodeUsage, read_node_usage
from scheduling.selectors.work.tasks import visible_tasks

_WORK = "group__workflow"


@dataclass(frozen=True, slots=True)
class NodeWork:
    """The running tasks of one workflow on a node; `since` is the start of the first."""

    workflow: str
    pool: str
    user: str
    priority: str
    gpus: int
    tasks: int
    since: datetime | None


@dataclass(frozen=True, slots=True)
class MappedNode:
    """A node and the workflows on it that the reader may see, most GPUs first."""

    usage: NodeUsage
    work: Sequence[NodeWork]

    @property
    def unseen_gpus(self) -> int:
        """The GPUs of workflows that the reader may not see."""
        return self.usage.used_gpus - sum(each.gpus for each in self.work)

    @property
    def unseen_text(self) -> str:
        """The same for people."""
        return counted(self.unseen_gpus, *self.usage.words)

    @property
    def closed_gpus(self) -> int:
        """The unused GPUs of a node that takes no new work."""
        use = self.usage
        return max(0, use.gpus - use.used_gpus - use.ending_gpus - use.other_gpus - use.free_gpus)


@dataclass(frozen=True, slots=True)
class TaskFit:
    """The number of tasks of `gpus` GPUs each that could start now if only free GPUs on nodes mattered."""

    gpus: int
    tasks: int


@dataclass(frozen=True, slots=True)
class FlavorNodes:
    """The visible nodes of one flavor together, in GPUs; in parts of GPUs if it `is_shared`."""

    flavor: str
    gpus: int
    used: int
    free: int
    fits: Sequence[TaskFit]
    is_shared: bool


@dataclass(frozen=True, slots=True)
class NodeMap:
    """The nodes of a backend that the reader may see. `total` counts the nodes that match the filters, `nodes` is one
    part of them; all other numbers are those of all visible nodes, in whole GPUs. Parts of GPUs that count are in
    `flavors` alone."""

    backend: str
    offline: bool
    nodes: Sequence[MappedNode]
    total: int
    all_nodes: int
    gpus: int
    used: int
    ending: int
    other: int
    free: int
    closed: int
    fits: Sequence[TaskFit]
    flavors: Sequence[FlavorNodes]
    """By flavor, in the order of the backend; empty where it names none."""

    @property
    def part_flavors(self) -> set[str]:
        """The flavors that count parts of GPUs."""
        return {room.flavor for room in self.flavors if room.is_shared}


def visible_backends(actor: Actor) -> list[str]:
    """The names of the backends with a pool that `actor` may see, all for platform readers; in order."""
    rows = Backend.objects.order_by("name")
    if not actor.can_read_all:
        rows = rows.filter(pk__in=_visible_roots(actor).values("backend"))
    return list(rows.values_list("name", flat=True))


def read_node_map(
    actor: Actor, backend: str, *, name: str = "", free: int = 0, flavor: str = "", limit: int, offset: int = 0
) -> NodeMap:
    """The nodes whose names contain `name`, of this flavor if one is named, that have at least `free` free GPUs, by
    name. Raises NotFound."""
    row, uses = _visible_nodes(actor, backend)
    matching = [use for use in uses if name in use.name and use.free_gpus >= free and flavor in {"", use.flavor}]
    shown = matching[offset : offset + limit]
    work = _read_work(actor, row.pk, {use.name for use in shown})
    nodes = [MappedNode(use, work.get(use.name, ())) for use in uses]
    by_name = {node.usage.name: node for node in nodes}
    shared = parts_among(row.flavors)
    summed = [node for node in nodes if node.usage.flavor not in shared]
    whole = [node.usage for node in summed]
    return NodeMap(
        backend=row.name,
        offline=row.offline,
        nodes=[by_name[use.name] for use in shown],
        total=len(matching),
        all_nodes=len(uses),
        gpus=sum(use.gpus for use in whole),
        used=sum(use.used_gpus for use in whole),
        ending=sum(use.ending_gpus for use in whole),
        other=sum(use.other_gpus for use in whole),
        free=sum(use.free_gpus for use in whole),
        closed=sum(node.closed_gpus for node in summed),
        fits=_fits(whole),
        flavors=_by_flavor(row, uses),
    )


def _fits(uses: Sequence[NodeUsage]) -> list[TaskFit]:
    return count_fits([use.free_gpus for use in uses], max((use.gpus for use in uses), default=0))


def _by_flavor(backend: Backend, uses: Sequence[NodeUsage]) -> list[FlavorNodes]:
    parts = {each.name: each.is_of_parts for each in flavors_of(backend.flavors)}
    found = []
    for flavor in [*parts, DEFAULT_FLAVOR] if parts else []:
        mine = [use for use in uses if use.flavor == flavor]
        if mine and (flavor in parts or any(use.gpus for use in mine)):
            gpus, used, free = (sum(getattr(use, key) for use in mine) for key in ("gpus", "used_gpus", "free_gpus"))
            found.append(FlavorNodes(flavor, gpus, used, free, _fits(mine), parts.get(flavor, False)))
    return found


def read_mapped_node(actor: Actor, backend: str, name: str) -> MappedNode:
    """One node. Raises NotFound."""
    row, uses = _visible_nodes(actor, backend, name)
    if not uses:
        raise NotFound(f"There is no node {name} on cluster {backend} that you can see.")
    return MappedNode(uses[0], _read_work(actor, row.pk, {name}).get(name, ()))


def pools_of_node(actor: Actor, use: NodeUsage) -> list[str]:
    """The pools that `actor` may see and that have the platform of the node, in order. One query."""
    rows = _visible_roots(actor).filter(backend_id=use.backend_id).values_list("name", "config")
    return sorted(name for name, config in rows if use.platform in platforms_of(config))


def count_fits(free: Collection[int], largest: int) -> list[TaskFit]:
    """The number of tasks of 1, 2, 4, … GPUs, up to `largest`, that fit on nodes with these free GPUs. Each size
    is counted alone."""
    sizes = [1 << power for power in range(largest.bit_length())]
    return [TaskFit(size, sum(each // size for each in free)) for size in sizes]


def _visible_roots(actor: Actor) -> QuerySet[Pool]:
    return Pool.objects.visible_to(actor).roots().filter(archived=False)


def visible_nodes(actor: Actor, backend: Backend) -> list[str]:
    """The names of the nodes that `actor` may see: those of the platforms of their pools, all for platform readers."""
    rows = Node.objects.filter(backend=backend)
    if not actor.can_read_all:
        rows = rows.filter(platform__in=_visible_platforms(actor, backend))
    return sorted(rows.values_list("name", flat=True))


def _visible_platforms(actor: Actor, backend: Backend) -> set[str]:
    configs = _visible_roots(actor).filter(backend=backend).values_list("config", flat=True)
    return {platform for config in configs for platform in platforms_of(config)}


def _visible_nodes(actor: Actor, backend: str, name: str | None = None) -> tuple[Backend, list[NodeUsage]]:
    row = Backend.objects.filter(name=backend).first()
    platforms: set[str] = set()
    if row is not None and not actor.can_read_all:
        platforms = _visible_platforms(actor, row)
    if row is None or not (actor.can_read_all or platforms):
        raise NotFound(f"There is no cluster {backend} that you can see.")
    uses = read_node_usage(name, backend=row.pk)
    return row, [use for use in uses if actor.can_read_all or use.platform in platforms]


def _read_work(actor: Actor, backend: int, names: Collection[str]) -> dict[str, list[NodeWork]]:
    keys = ("node_name", f"{_WORK}__name", f"{_WORK}__pool__name", f"{_WORK}__submitted_by__username")
    rows = (
        visible_tasks(actor)
        .filter(status=TaskStatus.RUNNING, node_name__in=names, **{f"{_WORK}__root_pool__backend": backend})
        .order_by()
        .values_list(*keys, f"{_WORK}__priority")
        .annotate(Sum("gpu_count"), Count("pk"), Min("start_time"))
    )
    found: dict[str, list[NodeWork]] = defaultdict(list)
    for node, *work in rows:
        found[node].append(NodeWork(*work))
    for works in found.values():
        works.sort(key=lambda each: (-each.gpus, each.workflow))
    return found
