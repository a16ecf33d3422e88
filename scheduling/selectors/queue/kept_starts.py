"""When work starts, as the background knows it: the forecasts that it keeps of gangs that wait.

:mod:`scheduling.history.starts.background` makes them; :mod:`scheduling.history.starts.question` answers for work that
is not submitted yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from pools.database.prepared import read_rows
from pools.models import Pool
from scheduling.domain.priorities import Priority
from scheduling.domain.start_words import StartTimes
from scheduling.domain.statuses import WorkflowStatus
from scheduling.selectors.queue.pending_queue import StartPromise

MOST_READ = 50

_STARTS_SQL = """
    SELECT group_id, p10, p50, p90, samples, made_at, never, like_scored, like_in_time
    FROM scheduling_startforecast WHERE group_id = ANY(%s)
"""

# Only recent work is read, so that a queue with a long history and nothing pending costs nothing.
_LAST_BEFORE_SQL = f"""
    SELECT kept.p10, kept.p50, kept.p90, kept.samples, kept.made_at, kept.never,
        kept.like_scored, kept.like_in_time
    FROM (
        SELECT uuid, priority, submit_time FROM scheduling_workflow
        WHERE pool_id = %s AND status = '{WorkflowStatus.PENDING}' AND submit_time > now() - interval '7 days'
        ORDER BY submit_time DESC LIMIT {MOST_READ}
    ) work
    JOIN scheduling_group gang ON gang.workflow_id = work.uuid
    JOIN scheduling_startforecast kept ON kept.group_id = gang.uuid
    WHERE work.priority = ANY(%s)
    ORDER BY work.submit_time DESC, kept.p50 DESC NULLS FIRST LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class GangStart(StartTimes):
    """When a gang is forecast to start, from that number of sampled futures."""

    made_at: datetime
    samples: int = 1


def read_kept_starts(promises: Mapping[UUID, StartPromise | None]) -> dict[UUID, GangStart]:
    """The starts of these waiting groups that have a forecast, each with the reservation that bounds it. One query."""
    rows = read_rows(_STARTS_SQL, [list(promises)])
    return {group: _at_the_latest(_gang_start(*row), promises[group]) for group, *row in rows}


def _gang_start(
    p10: datetime | None, p50: datetime | None, p90: datetime | None, samples: int, made_at: datetime, never: str,
    like: int, in_time: int,
) -> GangStart:  # fmt: skip
    return GangStart(made_at, p10, p50, p90, never or None, like=like, in_time=in_time, samples=samples)


def read_start_of_last_before(leaf: Pool, priority: Priority) -> GangStart | None:
    """The kept forecast of the gang that new work of this priority would stand behind in the queue of the leaf; None if
    nothing is before it there, or no forecast was made yet. One query."""
    before = [str(each) for each in Priority if each.priority_class_value >= priority.priority_class_value]
    rows = read_rows(_LAST_BEFORE_SQL, [leaf.pk, before])
    return _gang_start(*rows[0]) if rows else None


def _at_the_latest(start: GangStart, promise: StartPromise | None) -> GangStart:
    """A forecast that says nothing later than the certain latest start of a reservation."""
    if promise is None or not promise.is_certain or promise.holds_dispatch:
        return start
    latest = promise.latest_start
    if latest is None or latest < start.made_at or start.never is not None:
        return replace(start, latest=latest)
    p10, p50, p90 = (None if time is None else min(time, latest) for time in (start.p10, start.p50, start.p90))
    return replace(start, p10=p10, p50=p50, p90=p90, latest=latest)
