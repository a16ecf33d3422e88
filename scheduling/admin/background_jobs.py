"""The jobs that Celery beat runs. Read-only: the intervals are set in the settings, not in these rows."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django_celery_beat.models import PeriodicTask

from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.forms import script_media
from pools.domain.people.roles import Permission
from pools.representations.csv_files import is_csv_request, list_csv
from scheduling.domain.list_columns import JOB_COLUMNS
from scheduling.selectors.status.jobs import read_jobs


@admin.register(PeriodicTask)
class BackgroundJobAdmin(PolicyAdmin):
    """Read by the platform's admins and viewers."""

    address = "jobs"
    read_permission = Permission.PLATFORM_READ

    def show_list(self, request: HttpRequest) -> HttpResponse:
        jobs = read_jobs(actor_of(request))
        if is_csv_request(request):
            return list_csv("jobs", JOB_COLUMNS, jobs)
        return self.render_page(
            request,
            "osmo/background_jobs.html",
            title="Background jobs",
            script=script_media("columns"),
            columns=JOB_COLUMNS,
            jobs=jobs,
        )
