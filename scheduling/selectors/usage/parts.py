"""When each flavor counted parts of shared GPUs, for the record of use.

A flavor whose labels change counts something else from the hour of the change on. What it counted in an earlier hour
follows from the audit trail, as the rest of the record: so a closed hour stays as it is, also when the flavor is gone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pools.database.statements import execute_sql
from pools.domain.audit_actions import AuditAction
from pools.domain.configuration.flavors import parts_among

_ALWAYS = datetime.min.replace(tzinfo=UTC)
_NOW = datetime.max.replace(tzinfo=UTC)

# Each object from one to the next by the index of objects: also clusters that are gone. A cluster that connects and
# disconnects a thousand times keeps its flavors.
FLAVOR_HISTORY = f"""
    SELECT jsonb_agg(jsonb_build_array(subject, time, flavors) ORDER BY id)::text FROM (
        WITH RECURSIVE cluster AS (
            SELECT (SELECT min(object) FROM pools_auditentry WHERE object > 'backend/') AS object
            UNION ALL
            SELECT (SELECT min(entry.object) FROM pools_auditentry entry WHERE entry.object > cluster.object)
            FROM cluster WHERE split_part(cluster.object, '/', 1) = 'backend'
        )
        SELECT id, time, subject, flavors, lag(flavors, 1, '[]') OVER (PARTITION BY subject ORDER BY id) AS before
        FROM (
            SELECT id, time, (after ->> 'id')::bigint AS subject, COALESCE(after -> 'flavors', '[]') AS flavors
            FROM cluster JOIN pools_auditentry USING (object)
            WHERE split_part(object, '/', 1) = 'backend' AND after IS NOT NULL
                AND action NOT IN ('{AuditAction.BACKEND_CONNECTED}', '{AuditAction.BACKEND_DISCONNECTED}')
        ) entry
    ) entry WHERE flavors <> before
"""
"""SQL: the flavors of each backend by its id since they changed, in the order of the changes, as JSON; null if no
backend ever named one."""

_PARTS = """
    SELECT * FROM unnest(
        %(part_backends)s::bigint[], %(part_flavors)s::text[], %(part_since)s::timestamptz[],
        %(part_until)s::timestamptz[]
    ) AS parts (backend, flavor, since, until)
"""


def counts_parts(backend: str, flavor: str, at: str) -> str:
    """SQL: whether a flavor of a backend counted parts of shared GPUs in the hour of a time, by their columns."""
    return f"""EXISTS (
        SELECT FROM ({_PARTS}) parts WHERE parts.backend = {backend} AND parts.flavor = {flavor}
            AND parts.since <= {at} AND {at} < parts.until
    )"""


@dataclass(frozen=True, slots=True)
class PartTime:
    """A time of full hours in which a flavor of a backend counted parts of shared GPUs."""

    backend: int
    flavor: str
    since: datetime
    until: datetime


def read_part_times() -> list[PartTime]:
    """The times in which flavors counted parts of shared GPUs; one query."""
    return part_times(execute_sql(FLAVOR_HISTORY).fetchone()[0])


def part_times(history: str | None) -> list[PartTime]:
    """The same from the answer to :data:`FLAVOR_HISTORY`. In an hour a flavor counts what it counted last in it; where
    nothing names it any more, or not yet, what it was named as last, or first."""
    found: dict[tuple[int, str], list[tuple[datetime, bool]]] = {}
    for backend, time, flavors in json.loads(history or "[]"):
        shared = parts_among(flavors)
        for each in flavors:
            is_part = each["name"] in shared
            kept = found.setdefault((backend, each["name"]), [])
            if not kept or kept[-1][1] != is_part:
                hour = datetime.fromisoformat(time).astimezone(UTC).replace(minute=0, second=0, microsecond=0)
                kept.append((hour if kept else _ALWAYS, is_part))
    return [
        PartTime(backend, flavor, since, until)
        for (backend, flavor), kept in sorted(found.items())
        for (since, is_part), (until, _) in zip(kept, [*kept[1:], (_NOW, False)], strict=True)
        if is_part and since < until
    ]


def part_values(times: Iterable[PartTime]) -> dict[str, Any]:
    """The parameters of :func:`counts_parts`."""
    rows = list(times)
    return {
        "part_backends": [each.backend for each in rows],
        "part_flavors": [each.flavor for each in rows],
        "part_since": [each.since for each in rows],
        "part_until": [each.until for each in rows],
    }


def hours_of_changed_days(times: Iterable[PartTime], begin: datetime, end: datetime) -> Iterator[datetime]:
    """The hours of the days from `begin` to `end` within which what a flavor counts has changed: the sums of such a day
    hold both."""
    changes = {at for each in times for at in (each.since, each.until) if begin <= at < end}
    for day in sorted({at.replace(hour=0) for at in changes if at.hour}):
        yield from (day + timedelta(hours=hour) for hour in range(24))
