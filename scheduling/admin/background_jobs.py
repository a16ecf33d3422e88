"""The jobs that Celery beat runs. Read-only: the intervals are set in the settings, not in these rows."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.forms import script_media
from pools.domain.people.roles import Permission
from scheduling.domain.list_columns import JOB_COLUMNS
from scheduling.models import JobFailureCount
from scheduling.selectors.status.problems import late_jobs
from scheduling.services.periodic_tasks import PURPOSES


@admin.register(PeriodicTask)
class BackgroundJobAdmin(PolicyAdmin):
    """Read by the platform's admins and viewers."""

    address = "jobs"
    read_permission = Permission.PLATFORM_READ

    def show_list(self, request: HttpRequest) -> HttpResponse:
        rows = PeriodicTask.objects.select_related("interval", "crontab", "solar", "clocked").order_by("name")
        late = {each.subject for each in late_jobs(actor_of(request), timezone.now())}
        failures = JobFailureCount.objects.in_bulk()
        return self.render_page(
            request,
            "osmo/background_jobs.html",
            title="Background jobs",
            script=script_media("columns"),
            columns=JOB_COLUMNS,
            jobs=[(row, _state(row, late), PURPOSES.get(row.name, row.task), failures.get(row.task)) for row in rows],
        )


def _state(row: PeriodicTask, late: set[str]) -> str:
    return "OFF" if not row.enabled else "LATE" if f"job/{row.name}" in late else "ACTIVE"
