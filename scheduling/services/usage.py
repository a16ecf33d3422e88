"""Keeps the record of use: closes hours and days, computes them again, notes why work waits, forgets what is too
old."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from pools.database.one_by_one import left_out_on_error
from pools.database.open_transactions import has_open_transaction_before
from pools.database.statements import execute_sql
from pools.database.transactions import database_time, one_snapshot
from pools.models import Backend
from scheduling.domain.reason_codes import ReasonCode, WaitCause, wait_cause
from scheduling.locking import lock_usage_progress
from scheduling.models import (
    BackendUsageDay,
    BackendUsageHour,
    LateUsage,
    LeafUsageDay,
    LeafUsageHour,
    NodeSpan,
    OfflineSpan,
    PoolUsageDay,
    PoolUsageHour,
    QuotaSpan,
    WaitCauseChange,
    WaitSpan,
    WorkUsageDay,
    WorkUsageHour,
)
from scheduling.selectors.queue.pending_queue import build_pending_queue
from scheduling.selectors.usage.answers import HOUR, start_of_day, start_of_hour
from scheduling.selectors.usage.computed_sums import (
    EVERY_LEAF,
    OWN_ROWS,
    SPAN_COLUMNS,
    SPANS_FROM_AUDIT,
    STORE,
    SUMS_OF_DAYS,
    SUMS_OF_POOLS,
)
from scheduling.selectors.usage.parts import part_values, read_part_times

HOURS_PER_STATEMENT = 24 * 7
"""The hours that one statement computes; more would only need more memory."""

_SUMS = (BackendUsageHour, LeafUsageHour, PoolUsageHour, WorkUsageHour)
_DAYS = (BackendUsageDay, LeafUsageDay, PoolUsageDay, WorkUsageDay)


def note_wait_causes() -> int:
    """Write why each waiting gang waits, where its cause has changed; returns the number of changes."""
    total = 0
    for backend in Backend.objects.order_by("pk"):
        with left_out_on_error("the causes of waiting of a backend", backend.name):
            total += _note_causes(backend)
    return total


def _note_causes(backend: Backend) -> int:
    with one_snapshot():
        queue = build_pending_queue(backend)
    causes = {
        group: wait_cause(gang.reason.code, node=gang.reason.queue, own_queue=gang.queue)
        for group, gang in queue.by_group.items()
        if gang.reason.code != ReasonCode.WAITING_FOR_GROUPS
    }
    if not causes:
        return 0
    # A gang that nobody has judged yet waits for its turn, so this cause alone needs no row.
    written: int = execute_sql(
        """
        INSERT INTO scheduling_waitcausechange (group_id, since, cause)
        SELECT part.uuid, statement_timestamp(), judged.cause
        FROM unnest(%s::uuid[], %s::text[]) AS judged (group_id, cause)
        JOIN scheduling_group part ON part.uuid = judged.group_id AND part.start_time IS NULL
            AND part.end_time IS NULL AND part.ready_at <= statement_timestamp()
        LEFT JOIN LATERAL (
            SELECT cause FROM scheduling_waitcausechange WHERE group_id = part.uuid AND since >= part.ready_at
            ORDER BY since DESC, id DESC LIMIT 1
        ) last ON TRUE
        WHERE judged.cause <> COALESCE(last.cause, %s)
        """,
        [list(causes), [str(cause) for cause in causes.values()], str(WaitCause.ORDER)],
    ).rowcount
    return written


def close_hours() -> int:
    """Compute the sums of the hours that have ended, and again of those into which something was written late. Returns
    the number of computed hours.

    An hour is closed when every transaction has ended that was open at its end. A later transaction that writes into a
    closed hour leaves a mark (:class:`LateUsage`) by a trigger, in the same transaction, so no order of commits loses
    it."""
    with transaction.atomic():
        progress = lock_usage_progress()
        full = start_of_hour(database_time())
        if progress.closed_until is None:
            progress.closed_until = _first_hour() or full
        if progress.pending_until != full:
            (horizon,) = execute_sql("SELECT pg_snapshot_xmax(pg_current_snapshot())::text").fetchone()
            progress.pending_until, progress.horizon = full, horizon
        if has_open_transaction_before(int(progress.horizon)):
            progress.save()
            return 0
        late = list(LateUsage.objects.values_list("pk", "since"))
        begin = min([progress.closed_until, *(start_of_hour(since) for _, since in late)])
        compute_hours(begin, full)
        LateUsage.objects.filter(pk__in=[pk for pk, _ in late]).delete()
        progress.closed_until = full
        progress.save()
        return (full - begin) // HOUR


def compute_hours(begin: datetime, end: datetime) -> None:
    """Replace the sums of the full hours from `begin` to `end`, and of the days in which they are and that end until
    then. The caller's transaction holds the record's lock."""
    at, every = begin, EVERY_LEAF | part_values(read_part_times())
    while at < end:
        until = min(end, at + HOURS_PER_STATEMENT * HOUR)
        for model in _SUMS:
            model.objects.filter(hour__gte=at, hour__lt=until).delete()
        hours = [at + number * HOUR for number in range((until - at) // HOUR)]
        window = {"begin": at, "end": until}
        execute_sql(STORE, every | window | {"begins": hours, "ends": [hour + HOUR for hour in hours]})
        execute_sql(
            "INSERT INTO scheduling_poolusagehour (hour, backend_id, pool_id, flavor, quota, idle, lent) "
            + SUMS_OF_POOLS,
            window,
        )
        at = until
    _add_up_days(start_of_day(begin), start_of_day(end))


def _add_up_days(begin: datetime, end: datetime) -> None:
    for table, (columns, source) in SUMS_OF_DAYS.items():
        days = {"begin": begin, "end": end}
        execute_sql(f"DELETE FROM {table} WHERE day >= %(begin)s AND day < %(end)s", days)
        execute_sql(f"INSERT INTO {table} ({columns}) {source}", days)


def derive_spans() -> None:
    """Derive the spans from the audit trail again, and open every hour of the retention: readers compute the sums of
    open hours themselves, until :func:`close_hours` has stored them."""
    with transaction.atomic():
        progress = lock_usage_progress()
        for table, source in SPANS_FROM_AUDIT.items():
            execute_sql(f"DELETE FROM {table} WHERE {OWN_ROWS[table]}")
            execute_sql(
                f"INSERT INTO {table} ({SPAN_COLUMNS[table]}) SELECT {SPAN_COLUMNS[table]} FROM ({source}) span"
                " WHERE until IS NULL OR until > %s",
                [_oldest()],
            )
        for model in (*_SUMS, *_DAYS):
            model.objects.all().delete()
        LateUsage.objects.all().delete()
        progress.closed_until = _first_hour()
        progress.save()


def rebuild() -> int:
    """Derive the spans from the audit trail again, and compute every hour of the retention. Returns the number of
    hours."""
    with transaction.atomic():
        derive_spans()
        progress = lock_usage_progress()
        full = start_of_hour(database_time())
        begin = progress.closed_until or full
        compute_hours(begin, full)
        progress.closed_until = full
        progress.save()
        return (full - begin) // HOUR


def delete_old_usage() -> int:
    """Delete the record of the time before the retention; returns the number of rows."""
    before = _oldest()
    old: list[QuerySet[Any]] = [
        *(model.objects.filter(hour__lt=before) for model in _SUMS),
        *(of_days.objects.filter(day__lt=before) for of_days in _DAYS),
        *(spans.objects.filter(until__lt=before) for spans in (QuotaSpan, NodeSpan, OfflineSpan, WaitSpan)),
        WaitCauseChange.objects.filter(since__lt=before),
    ]
    deleted = 0
    for rows in old:
        with left_out_on_error("the retention of the record of use", rows.model.__name__):
            deleted += rows.delete()[0]
    return deleted


def _oldest() -> datetime:
    """The record begins with a full day: the sums of a day are those of its hours."""
    return start_of_day(database_time() - timedelta(days=settings.OSMO.usage_retention_days))


def _first_hour() -> datetime | None:
    """The hour in which the record begins, at most the retention ago."""
    first = NodeSpan.objects.order_by("since").values_list("since", flat=True).first()
    return None if first is None else start_of_hour(max(first, _oldest()))
