"""The background jobs of the installation, with their last runs and failures."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from pools.domain.people.roles import Actor, Permission
from pools.permissions import require_platform
from scheduling.models import JobFailureCount
from scheduling.selectors.status.job_names import PURPOSES
from scheduling.selectors.status.problems import PERIOD_SECONDS, late_jobs


class JobState(StrEnum):
    """OFF: beat leaves it out; LATE: it did not run for several of its intervals."""

    ACTIVE = "ACTIVE"
    LATE = "LATE"
    OFF = "OFF"


@dataclass(frozen=True, slots=True)
class BackgroundJob:
    """A job that runs by itself."""

    name: str
    state: Annotated[JobState, "LATE after three of its intervals and a minute without a run."]
    purpose: str
    interval_seconds: Annotated[float | None, "Null for a job that runs by the clock."]
    last_run: datetime | None
    runs: int
    failures: Annotated[int, "Runs that ended with an error."]
    last_failure: datetime | None
    error: Annotated[str, "The kind of the last error; empty without one."]


def read_jobs(actor: Actor) -> list[BackgroundJob]:
    """All jobs by name. Three queries. Raises :class:`PermissionDenied` for people who may not read the platform."""
    require_platform(actor, Permission.PLATFORM_READ)
    late = {each.subject for each in late_jobs(actor, timezone.now())}
    failures = JobFailureCount.objects.in_bulk()
    rows = PeriodicTask.objects.select_related("interval").order_by("name")
    return [_job(row, late, failures.get(row.task)) for row in rows]


def _job(row: PeriodicTask, late: set[str], failed: JobFailureCount | None) -> BackgroundJob:
    state = JobState.LATE if f"job/{row.name}" in late else JobState.ACTIVE
    interval = PERIOD_SECONDS[row.interval.period] * row.interval.every if row.interval else None
    return BackgroundJob(
        name=row.name,
        state=state if row.enabled else JobState.OFF,
        purpose=PURPOSES.get(row.name, row.task),
        interval_seconds=interval and interval.total_seconds(),
        last_run=row.last_run_at if row.total_run_count else None,
        runs=row.total_run_count,
        failures=failed.count if failed else 0,
        last_failure=failed.last if failed else None,
        error=failed.error if failed else "",
    )
