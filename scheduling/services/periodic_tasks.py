"""The periodic background jobs, as rows that Celery beat reads. A changed row takes effect within seconds."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.utils import timezone
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from pools.database.statements import execute_sql
from scheduling.models import WorkflowConfig
from scheduling.selectors.status.job_names import (
    CHECK_SIGN_ONS,
    CLOSE_USAGE_HOURS,
    DRAIN_MONITOR,
    END_TEMPORARY_QUOTAS,
    EXPIRE_APPROVALS,
    EXPIRE_RESERVATIONS,
    FIND_COHORT_CYCLES,
    FIND_CONDITIONS,
    FIND_SILENT,
    FORECAST_STARTS,
    FORGET_AUDIT,
    FORGET_DECISIONS,
    FORGET_KEYS,
    FORGET_NOTICES,
    FORGET_USAGE,
    NOTE_WAIT_CAUSES,
    RECONCILE,
    RESUME_REPLAYS,
    SAMPLE_GPU_USAGE,
    SEND_NOTICES,
    SYNC_QUEUES,
)
from scheduling.services import task_names

_AT_ONCE = {CLOSE_USAGE_HOURS}
"""Jobs whose first run is due when beat starts first: readers compute each hour that is not closed, and a demo begins
with a month of them."""
_FORMER = (
    "celery.backend_cleanup",  # beat of older versions added it; tasks leave no results
    "Note why work waits",  # a former name
)
_MIN_EXPIRY_SECONDS = 10  # seconds; a message must survive the time in which a worker restarts


def ensure_periodic_tasks() -> None:
    """Create the rows of our periodic tasks and set their configured intervals. Idempotent."""
    config = WorkflowConfig.objects.filter(pk=1).first() or WorkflowConfig()
    PeriodicTask.objects.filter(name__in=_FORMER).delete()
    _ensure_periodic_task(RECONCILE, task_names.RECONCILE_ALL, timedelta(seconds=settings.OSMO.reconcile_interval))
    _ensure_periodic_task(SYNC_QUEUES, task_names.SYNC_ALL_QUEUES, timedelta(seconds=settings.OSMO.sync_interval))
    _ensure_periodic_task(
        DRAIN_MONITOR, task_names.DRAIN_MONITOR, timedelta(minutes=config.subpool_drain_interval_minutes)
    )
    _ensure_periodic_task(END_TEMPORARY_QUOTAS, task_names.END_TEMPORARY_QUOTAS, timedelta(seconds=15))
    _ensure_periodic_task(EXPIRE_APPROVALS, task_names.EXPIRE_APPROVALS, timedelta(minutes=1))
    _ensure_periodic_task(FORGET_KEYS, task_names.FORGET_KEYS, timedelta(hours=1))
    _ensure_periodic_task(FORGET_DECISIONS, task_names.FORGET_DECISIONS, timedelta(hours=6))
    _ensure_periodic_task(EXPIRE_RESERVATIONS, task_names.EXPIRE_RESERVATIONS, timedelta(minutes=1))
    _ensure_periodic_task(SAMPLE_GPU_USAGE, task_names.SAMPLE_GPU_USAGE, timedelta(minutes=5))
    _ensure_periodic_task(FIND_SILENT, task_names.FIND_SILENT, timedelta(seconds=10))
    _ensure_periodic_task(FIND_COHORT_CYCLES, task_names.FIND_COHORT_CYCLES, timedelta(seconds=30))
    _ensure_periodic_task(NOTE_WAIT_CAUSES, task_names.NOTE_WAIT_CAUSES, timedelta(minutes=1))
    _ensure_periodic_task(CLOSE_USAGE_HOURS, task_names.CLOSE_USAGE_HOURS, timedelta(minutes=1))
    _ensure_periodic_task(FORGET_USAGE, task_names.FORGET_USAGE, timedelta(days=1))
    _ensure_periodic_task(FORGET_AUDIT, task_names.FORGET_AUDIT, timedelta(days=1))
    _ensure_periodic_task(FORECAST_STARTS, task_names.FORECAST_STARTS, timedelta(minutes=1))
    _ensure_periodic_task(SEND_NOTICES, task_names.SEND_NOTICES, timedelta(seconds=5))
    _ensure_periodic_task(FIND_CONDITIONS, task_names.FIND_CONDITIONS, timedelta(minutes=1))
    _ensure_periodic_task(FORGET_NOTICES, task_names.FORGET_NOTICES, timedelta(days=1))
    _ensure_periodic_task(RESUME_REPLAYS, task_names.RESUME_REPLAYS, timedelta(seconds=30))
    if settings.OSMO.sign_on_providers:
        interval = timedelta(seconds=settings.OSMO.sign_on_check_interval / 2)  # a check follows within the interval
        _ensure_periodic_task(CHECK_SIGN_ONS, task_names.CHECK_SIGN_ONS, interval)


def note_failure(task: str, error: BaseException) -> None:
    """Count a run that ended with an error, if the task is a job. Its message is in the log of the worker alone: it may
    quote what a person typed."""
    execute_sql(
        """
        INSERT INTO scheduling_jobfailurecount AS kept (task, count, last, error)
        SELECT %(task)s, 1, statement_timestamp(), %(error)s
        WHERE EXISTS (SELECT FROM django_celery_beat_periodictask WHERE task = %(task)s)
        ON CONFLICT (task) DO UPDATE SET count = kept.count + 1, last = excluded.last, error = excluded.error
        """,
        {"task": task, "error": type(error).__name__},
    )


def set_drain_interval(minutes: int) -> None:
    """Set the interval of the check for drained subpools."""
    _ensure_periodic_task(DRAIN_MONITOR, task_names.DRAIN_MONITOR, timedelta(minutes=minutes))


def _ensure_periodic_task(name: str, task: str, every: timedelta) -> None:
    """Create or update a periodic task. A saved row restarts its schedule in Celery beat, so it is saved only if
    something differs. The operator decides whether it is enabled."""
    interval = _interval_schedule(every)
    # Without a last run Celery beat counts from its own start; if it restarts often, a long interval never ends.
    last = timezone.now() - (every if name in _AT_ONCE else timedelta())
    row, made = PeriodicTask.objects.get_or_create(
        name=name, defaults={"task": task, "interval": interval, "last_run_at": last}
    )
    # A message that no worker took is obsolete when the next one is due.
    life = max(int(every.total_seconds()), _MIN_EXPIRY_SECONDS)
    if not made and (row.task, row.interval_id, row.expire_seconds) == (task, interval.pk, life):
        return
    row.task, row.interval, row.expire_seconds = task, interval, life
    row.crontab = row.solar = row.clocked = None
    row.save()


def _interval_schedule(every: timedelta) -> IntervalSchedule:
    seconds = every.total_seconds()
    for size, period in _PERIODS:
        if seconds % size == 0:
            values = {"every": int(seconds // size), "period": period}
            break
    else:
        values = {"every": round(seconds * 1_000_000), "period": IntervalSchedule.MICROSECONDS}
    return IntervalSchedule.objects.filter(**values).first() or IntervalSchedule.objects.create(**values)


_PERIODS = (
    (86_400, IntervalSchedule.DAYS),
    (3_600, IntervalSchedule.HOURS),
    (60, IntervalSchedule.MINUTES),
    (1, IntervalSchedule.SECONDS),
)
