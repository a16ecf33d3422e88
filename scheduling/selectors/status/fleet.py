"""The GPUs of the fleet in one picture, as far as a reader may see it: what there is, what is in use, and the hours
before.

A platform reader sees the GPUs of all nodes. Other readers see the quota of their pools: of nodes that pools share,
they may not learn what others hold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Sum

from pools.database.statements import execute_sql
from pools.domain.people.roles import Actor
from pools.domain.quota.usage_bar import FlavorUse, UsageBar
from pools.models import Backend, FlavorUsage
from pools.selectors.quotas.backend_capacity import unzip_flavors
from pools.selectors.quotas.platform_totals import PlatformTotals, bars_of_clusters
from scheduling.domain.lists import UsageKey
from scheduling.selectors.usage.answers import HOUR, UsageRow
from scheduling.selectors.usage.reading import read_last_hours

HOURS = 24
_MS_PER_HOUR = HOUR / timedelta(milliseconds=1)

# The nodes as the record of use knows them: a node that accepts no pods is away, and every node of a lost cluster. What
# work holds there is in use and not offline.
_CAPACITY = """
    SELECT {column}, COALESCE(sum(node.gpus), 0)::bigint,
        COALESCE(sum(GREATEST(node.gpus - held.gpus, 0)) FILTER (WHERE away.is_away), 0)::bigint
    FROM scheduling_nodespan node
    CROSS JOIN LATERAL (SELECT EXISTS (
        SELECT FROM scheduling_offlinespan span
        WHERE span.until IS NULL AND span.backend_id = node.backend_id
            AND (span.node_id IS NULL OR span.node_id = node.node_id)
    ) AS is_away) away
    CROSS JOIN LATERAL (
        SELECT COALESCE(sum(task.gpu_count), 0) AS gpus
        FROM pools_node named JOIN scheduling_task task ON task.node_name = named.name AND task.status = 'RUNNING'
        JOIN scheduling_group part ON part.uuid = task.group_id
        JOIN scheduling_workflow work ON work.uuid = part.workflow_id
        JOIN pools_pool root ON root.id = work.root_pool_id AND root.backend_id = node.backend_id
        WHERE away.is_away AND named.id = node.node_id
    ) held
    WHERE node.until IS NULL AND NOT EXISTS (
        SELECT FROM unnest(%s::bigint[], %s::text[]) part (backend_id, flavor)
        WHERE part.backend_id = node.backend_id AND part.flavor = node.flavor
    )
    GROUP BY GROUPING SETS (({key}))
"""


@dataclass(frozen=True, slots=True)
class Fleet:
    """In whole GPUs; parts of GPUs are in `flavors` alone. `gpus` are those of the nodes where `has_nodes`, else of the
    quota; `whole` is the length of the picture: the same, or the use where it is more. `bar` has the use; its free
    part is what is idle. `offline` is not in it. The series have the average of each of the last full hours, the
    oldest first; they are empty before the first full hour."""

    has_nodes: bool
    gpus: int
    whole: int
    offline: int
    bar: UsageBar
    since: datetime | None
    used: Sequence[float]
    idle: Sequence[float]
    waiting: Sequence[float]
    flavors: Sequence[FlavorUse] = ()
    """Of the nodes of clusters that name flavors, by name: GPUs in use, and all."""

    @property
    def idle_now(self) -> int:
        """The GPUs that nobody uses and that may be used."""
        return self.bar.free

    @property
    def share(self) -> int:
        """The use in percent of the GPUs of the nodes or of the quota; above 100 where it is more."""
        return round(100 * self.bar.in_use / self.gpus) if self.gpus else 0


@dataclass(frozen=True, slots=True)
class ClusterUse:
    """In whole GPUs. `whole` is those of the nodes, or the use where it is more; `bar` has the use and, as its free
    part, what is idle. `used` is the average of each of the last full hours, the oldest first."""

    whole: int
    bar: UsageBar
    used: Sequence[float]


def read_fleet(
    actor: Actor, totals: PlatformTotals, flavors: Mapping[str, int], parts: Mapping[int, frozenset[str]]
) -> Fleet:
    """The picture for this reader, whose `totals` are those of the pools that the reader may see. `flavors` are the
    GPUs of nodes by flavor, `parts` the flavors of backends that count parts of GPUs. The hours are those of the
    record that are closed: the page is fetched often."""
    has_nodes, gpus, offline = False, totals.quota, 0
    if actor.can_read_all:
        gpus, offline = _read_capacities("", parts).get(None, (0, 0))
        has_nodes = gpus > 0
        gpus = gpus or totals.quota
    whole = max(gpus, totals.bar.in_use)
    offline = min(offline, whole - totals.bar.in_use)
    bar = totals.bar.with_quota(whole - offline)
    since, rows = read_last_hours(actor, UsageKey.BACKEND, HOURS)
    return Fleet(
        has_nodes,
        gpus,
        whole,
        offline,
        bar,
        since,
        used=_averages(since, rows, lambda row: row.used),
        idle=_averages(since, rows, _idle_of_nodes if has_nodes else _idle_quota),
        waiting=_averages(since, rows, lambda row: row.waiting),
        flavors=_uses(flavors, parts) if has_nodes else (),
    )


def _uses(gpus: Mapping[str, int], parts: Mapping[int, frozenset[str]]) -> list[FlavorUse]:
    """What is in use of these GPUs by flavor; one query where there are some."""
    if not gpus:
        return []
    used = dict(FlavorUsage.objects.order_by().values_list("flavor").annotate(Sum("total_usage")))
    shared = frozenset().union(*parts.values())
    return [
        FlavorUse(flavor, used.get(flavor, 0), total, flavor in shared)
        for flavor, total in sorted(gpus.items())
        if total
    ]


def read_clusters(actor: Actor, parts: Mapping[int, frozenset[str]]) -> dict[str, ClusterUse]:
    """The use of each cluster by its name, for readers of the platform."""
    names = dict(Backend.objects.values_list("pk", "name"))
    capacities, bars = _read_capacities("node.backend_id", parts), bars_of_clusters(actor, parts)
    since, rows = read_last_hours(actor, UsageKey.BACKEND, HOURS)
    found = {}
    for pk, name in names.items():
        gpus, offline = capacities.get(pk, (0, 0))
        bar = bars.get(pk, UsageBar())
        whole = max(gpus, bar.in_use)
        used = _averages(since, [row for row in rows if row.key == name], lambda row: row.used)
        found[name] = ClusterUse(whole, bar.with_quota(whole - min(offline, whole - bar.in_use)), used)
    return found


def _read_capacities(key: str, parts: Mapping[int, frozenset[str]]) -> dict[int | None, tuple[int, int]]:
    """The GPUs of the nodes and those that are away, by the column `key`; without one, all are those of None."""
    of_backends, flavors = unzip_flavors(parts)
    rows = execute_sql(_CAPACITY.format(key=key, column=key or "NULL"), (of_backends, flavors))
    return {backend: (gpus, offline) for backend, gpus, offline in rows}


def _idle_of_nodes(row: UsageRow) -> int:
    return max(0, (row.sums.get("capacity") or 0) - (row.sums.get("offline") or 0) - row.used)


def _idle_quota(row: UsageRow) -> int:
    return row.sums["idle"] or 0


def _averages(since: datetime | None, rows: Sequence[UsageRow], amount: Callable[[UsageRow], int]) -> list[float]:
    if since is None:
        return []
    sums: defaultdict[datetime, int] = defaultdict(int)
    for row in rows:
        sums[row.start] += amount(row)
    return [sums[since + number * HOUR] / _MS_PER_HOUR for number in range(HOURS)]
