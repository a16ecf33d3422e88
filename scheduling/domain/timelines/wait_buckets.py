"""The bounds of the histogram of waits."""

from __future__ import annotations

MINUTE, HOUR, DAY = 60, 3_600, 86_400

WAIT_BUCKETS = (1, 5, 15, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 4 * HOUR, 12 * HOUR, DAY, 3 * DAY, 7 * DAY)
"""Upper bounds in seconds; a bound belongs to its bucket. Rows of the database hold numbers of buckets,
so a new bound needs a migration of :class:`scheduling.models.work_counters.StartCount`."""
