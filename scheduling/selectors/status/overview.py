"""The overview of an installation for one reader: problems, waiting work, idle quota, changes, and the own work.

The number of queries does not depend on the number of pools or workflows; only the reasons of the own waiting work
need one more for each of its clusters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from pools.domain.people.roles import Actor, Permission
from pools.models import AuditEntry, Pool
from pools.selectors.audit_trail import fleet_entries
from pools.selectors.quotas.backend_capacity import parts_of, read_capacities
from pools.selectors.quotas.degraded import degraded_clusters, read_node_gpus
from scheduling.domain.statuses import WorkflowStatus
from scheduling.models import Workflow
from scheduling.selectors.queue.visible_queue import WaitingGang, waiting_gangs_of_many
from scheduling.selectors.queue.waiting_pools import (
    IdlePool,
    WaitingPool,
    read_idle_pools,
    read_waiting_pools,
    sum_parts,
)
from scheduling.selectors.status import problems
from scheduling.selectors.status.problems import Problem

MAX_MINE, MAX_CHANGES, MAX_IDLE = 8, 8, 5


@dataclass(frozen=True, slots=True)
class OwnWork:
    """An active workflow of the reader; `waiting` is its first gang that waits, with its position and reason. `since`
    is the time of its start, or of its submission while it waits."""

    workflow: Workflow
    waiting: WaitingGang | None

    @property
    def since(self) -> datetime:
        """When its present state began."""
        if self.workflow.status == WorkflowStatus.RUNNING and self.workflow.start_time is not None:
            return self.workflow.start_time
        return self.workflow.submit_time


@dataclass(frozen=True, slots=True)
class Overview:
    """The parts of the overview. `mine_count` counts all active workflows of the reader, `mine` holds the newest;
    `waiting` holds every pool with waiting work, most GPUs first."""

    made_at: datetime
    problems: Sequence[Problem]
    mine: Sequence[OwnWork]
    mine_count: int
    waiting: Sequence[WaitingPool]
    idle: Sequence[IdlePool]
    changes: Sequence[AuditEntry]
    flavors: Mapping[str, int]
    """The GPUs of the nodes of clusters that name flavors, by flavor."""
    parts: Mapping[int, frozenset[str]]
    """The flavors of each cluster, by its id, that count parts of GPUs; only clusters that have some."""

    @property
    def waiting_gangs(self) -> int:
        """The gangs that wait for GPUs."""
        return sum(each.gangs for each in self.waiting)

    @property
    def waiting_gpus(self) -> int:
        """The whole GPUs for which they wait."""
        return sum(each.gpus for each in self.waiting)

    @property
    def waiting_parts(self) -> dict[str, int]:
        """The parts of shared GPUs for which they wait, by flavor."""
        return sum_parts(self.waiting)


def read_overview(actor: Actor) -> Overview:
    """The overview as `actor` may see it."""
    now = timezone.now()
    backends = None if actor.can_read_all else Pool.objects.visible_to(actor).roots().values("backend")
    capacities = read_capacities(backends)
    parts = parts_of(capacities)
    waiting = read_waiting_pools(actor, parts)
    busy = {each.backend for each in waiting}
    idle = read_idle_pools(actor, busy, parts, limit=MAX_IDLE) if _may_move_quota(actor) else []
    found = [
        *problems.cluster_problems(actor),
        *problems.late_jobs(actor, now),
        *problems.stuck_gangs(actor),
        *problems.suspect_nodes(actor),
        *problems.promised_starts(actor, now),
        *problems.wrong_previews(actor, now),
        *problems.gpu_quota_alerts(actor),
        *problems.oversubscribed_backends(actor, capacities, degraded_clusters(capacities, read_node_gpus())),
        *problems.long_waits(waiting, now),
        *problems.long_drains(actor, now),
        *problems.idle_quota(waiting, idle),
    ]
    found.sort(key=lambda each: not each.is_urgent)
    mine, count = _own_work(actor)
    changes = list(fleet_entries(actor).order_by("-id")[:MAX_CHANGES])
    gpus: Counter[str] = Counter()
    for capacity in capacities.values():
        gpus.update({flavor: each.gpus for flavor, each in capacity.flavors.items()})
    return Overview(now, found, mine, count, waiting, idle, changes, gpus, parts)


def _may_move_quota(actor: Actor) -> bool:
    """Whether idle quota is news for the reader: a person who only submits work cannot move it."""
    return actor.can_read_all or bool(actor.pools_with(Permission.POOL_PARTITION))


def _own_work(actor: Actor) -> tuple[list[OwnWork], int]:
    rows = Workflow.objects.filter(submitted_by=actor.user_id).visible_to(actor).active()
    newest = list(rows.select_related("pool", "root_pool__backend").order_by("-submit_time", "-name")[:MAX_MINE])
    gangs = waiting_gangs_of_many(actor, newest)
    count = rows.count() if len(newest) == MAX_MINE else len(newest)
    return [OwnWork(row, gangs.get(row.name)) for row in newest], count
