"""The background jobs of the installation: `/api/jobs`. Platform admins and viewers may read them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.schema import describe_operation
from pools.api.views import View
from scheduling.selectors.status.jobs import BackgroundJob, JobState, read_jobs


class JobAnswer(TypedDict):
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


class JobsAnswer(TypedDict):
    """All jobs by name."""

    jobs: list[JobAnswer]


class JobList(View):
    """What runs by itself, and what of it fails."""

    @describe_operation("List the background jobs with their last runs and failures.", answer=JobsAnswer)
    def get(self, request: Request) -> Response:
        return Response({"jobs": [_body(each) for each in read_jobs(self.actor)]})


def _body(job: BackgroundJob) -> JobAnswer:
    return {
        "name": job.name,
        "state": job.state,
        "purpose": job.purpose,
        "interval_seconds": None if job.interval is None else job.interval.total_seconds(),
        "last_run": job.last_run,
        "runs": job.runs,
        "failures": job.failures,
        "last_failure": job.last_failure,
        "error": job.error,
    }
