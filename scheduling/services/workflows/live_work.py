"""The limit of a user's live workflows, which holds for submissions that run side by side.

A submission counts the committed live workflows of its user under a lock that it keeps until its commit. Near the limit
it holds this lock alone, so it counts everything. Far below the limit small submissions share the lock and do not wait
for each other's commit. Such a submission does not see the others that are not committed yet, so it adds the most that
they can be: each connection of the database has at most one, of at most :data:`MOST_SIDE_BY_SIDE` workflows. If there
is room even then, the limit holds when the submission is let in; and the number of live workflows, committed or not,
grows only when a submission is let in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pools.database.one_message import Statement
from scheduling.domain.statuses import ACTIVE_WORKFLOW_STATUSES
from scheduling.locking import LOCK_LIVE_WORK_SQL, SHARE_LIVE_WORK_SQL

MOST_SIDE_BY_SIDE = 8
"""The most workflows of a submission that shares the lock."""

_LIVE = ", ".join(f"'{status}'" for status in sorted(ACTIVE_WORKFLOW_STATUSES))
_COUNT_SQL = f"""
    SELECT count(*), current_setting('max_connections')::integer
    FROM scheduling_workflow WHERE submitted_by_id = %s AND status IN ({_LIVE})
"""


class NearLimit(Exception):
    """There may be too little room beside other submissions: count again with the lock held alone."""


@dataclass(frozen=True, slots=True)
class LiveWork:
    """The committed live workflows of a user, and the connections that the database allows."""

    live: int
    connections: int

    def has_room(self, requested: int, limit: int, *, is_shared: bool) -> bool:
        """Whether so many more stay within the limit, whatever the submissions add that share the lock."""
        unseen = (self.connections - 1) * MOST_SIDE_BY_SIDE if is_shared else 0
        return self.live + requested + unseen <= limit


def count_live_work(user_id: int) -> Statement:
    """The statement whose row is a :class:`LiveWork`."""
    return _COUNT_SQL, [user_id]


def lock_live_work(user_id: int, *, is_shared: bool) -> Sequence[Statement]:
    """The lock, and then the count: a statement of its own, because its snapshot must be younger than the lock."""
    return (SHARE_LIVE_WORK_SQL if is_shared else LOCK_LIVE_WORK_SQL, [user_id]), count_live_work(user_id)
