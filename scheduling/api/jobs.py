"""The background jobs of the installation: `/api/jobs`. Platform admins and viewers may read them."""

from __future__ import annotations

from typing import TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.schema import describe_operation
from pools.api.views import View
from scheduling.selectors.status.jobs import BackgroundJob, read_jobs


class JobsAnswer(TypedDict):
    """All jobs by name."""

    jobs: list[BackgroundJob]


class JobList(View):
    """What runs by itself, and what of it fails."""

    @describe_operation("List the background jobs with their last runs and failures.", answer=JobsAnswer)
    def get(self, request: Request) -> Response:
        return Response(JobsAnswer(jobs=read_jobs(self.actor)))
