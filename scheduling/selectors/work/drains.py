"""Draining subpools: since when they drain, what still runs on them, and when it ends at the latest.

A drain ends no work, and a deadline that somebody set (`drain_by`) ends none either. The latest end of running work is
its time limit (`exec_timeout`, from the first start of the workflow); work without one may run as long as it wants, and
nobody knows the end of work that waits.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import F, Q, QuerySet

from pools.database.statements import execute_sql
from pools.domain.people.roles import Actor
from pools.domain.subpool_lifecycle import SubpoolState
from pools.models import Pool
from pools.selectors.leaf_holders import gpus_in_use_texts
from scheduling.domain.statuses import ACTIVE_WORKFLOW_STATUSES

LONG_DRAIN = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Drain:
    """A draining subpool. `workflows` are active; of them `waiting` have not started, and `unlimited` run without time
    limits. Half of the `gpus` in use are free at `half_free_by` at the latest; the last time limit of running work is
    `limits_end_at`. With no `waiting` and no `unlimited` work the drain is over then at the latest. `drain_by` is the
    deadline that somebody set."""

    subpool: str
    since: datetime
    drain_by: datetime | None
    workflows: int
    waiting: int
    unlimited: int
    gpus: int
    half_free_by: datetime | None
    limits_end_at: datetime | None

    @property
    def ends_by(self) -> datetime | None:
        """The latest end of the drain; None if it is not known."""
        return None if self.waiting or self.unlimited else self.limits_end_at

    def is_long(self, now: datetime) -> bool:
        """Whether it drains for more than a day."""
        return now - self.since > LONG_DRAIN

    def is_overdue(self, now: datetime) -> bool:
        """Whether its deadline has passed."""
        return self.drain_by is not None and self.drain_by < now

    @property
    def may_miss_deadline(self) -> bool:
        """Whether time limits let its work run beyond its deadline, or nothing limits it."""
        return self.drain_by is not None and (self.ends_by is None or self.ends_by > self.drain_by)


_ACTIVE = ", ".join(f"'{status}'" for status in sorted(ACTIVE_WORKFLOW_STATUSES))

_OUTLOOK = f"""
    WITH live AS (
        SELECT work.pool_id, work.start_time IS NULL AS is_waiting, work.start_time + work.exec_timeout AS limit_at,
            COALESCE(held.held_gpus, 0) AS gpus
        FROM scheduling_workflow work LEFT JOIN pools_reservation held ON held.workflow = work.uuid
        WHERE work.pool_id = ANY(%s) AND work.status IN ({_ACTIVE})
    ), walked AS (
        SELECT *, sum(gpus) OVER (PARTITION BY pool_id) AS whole, sum(gpus) OVER (
            PARTITION BY pool_id ORDER BY limit_at NULLS LAST ROWS UNBOUNDED PRECEDING) AS upto
        FROM live
    )
    SELECT pool_id, count(*), count(*) FILTER (WHERE is_waiting),
        count(*) FILTER (WHERE NOT is_waiting AND limit_at IS NULL), sum(gpus)::bigint,
        min(limit_at) FILTER (WHERE whole > 0 AND 2 * upto >= whole), max(limit_at)
    FROM walked GROUP BY pool_id
"""


def read_drains(actor: Actor, *, pools: Collection[str] = (), limit: int, offset: int = 0) -> list[Drain]:
    """The draining subpools that the actor may see, the oldest drain first; with `pools`, names of leaves, only these.
    Two queries."""
    rows = _draining(actor).order_by("updated_at", "name")
    if pools:
        rows = rows.filter(name__in=pools)
    found = list(rows.values_list("pk", "name", "updated_at", "drain_by")[offset : offset + limit])
    live = {pk: numbers for pk, *numbers in execute_sql(_OUTLOOK, [[pk for pk, *_ in found]])}
    nothing = [0, 0, 0, 0, None, None]
    return [Drain(name, since, deadline, *live.get(pk, nothing)) for pk, name, since, deadline in found]


@dataclass(frozen=True, slots=True)
class LateDrain:
    """A subpool that drains beyond its deadline, or for more than a day."""

    name: str
    began: datetime
    deadline: datetime | None
    workflows: int
    gpus: int
    gpus_text: str
    """The GPUs in use: `8 GPUs`, and with flavors `8 h100 GPUs`."""


def read_late_drains(actor: Actor, now: datetime, limit: int) -> list[LateDrain]:
    """The late drains, the earliest deadline first. One query, two where a pool names flavors."""
    late = _draining(actor).filter(Q(updated_at__lt=now - LONG_DRAIN) | Q(drain_by__lt=now))
    rows = late.order_by(F("drain_by").asc(nulls_last=True), "updated_at")
    found = list(rows.select_related("parent__backend", "usage")[:limit])
    words = gpus_in_use_texts(found)
    return [
        LateDrain(
            row.name, row.updated_at, row.drain_by, row.usage.live_workflows, row.usage.total_usage, words[row.name]
        )
        for row in found
    ]


def _draining(actor: Actor) -> QuerySet[Pool]:
    # Only the deadline in the row of a draining subpool changes, which leaves `updated_at`: the time of the deletion.
    return Pool.objects.visible_to(actor).filter(subpool_state=SubpoolState.DELETING)
