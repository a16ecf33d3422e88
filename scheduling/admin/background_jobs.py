"""The jobs that Celery beat runs. Read-only: the intervals are set in the settings, not in these rows."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django_celery_beat.models import PeriodicTask

from pools.admin.base import PolicyAdmin
from pools.domain.people.roles import Permission
from scheduling.domain.list_columns import JOB_COLUMNS


@admin.register(PeriodicTask)
class BackgroundJobAdmin(PolicyAdmin):
    """Read by the platform's admins and viewers."""

    address = "jobs"
    read_permission = Permission.PLATFORM_READ

    def show_list(self, request: HttpRequest) -> HttpResponse:
        rows = PeriodicTask.objects.select_related("interval", "crontab", "solar", "clocked").order_by("name")
        return self.render_page(
            request, "osmo/background_jobs.html", title="Background jobs", columns=JOB_COLUMNS, jobs=list(rows)
        )
