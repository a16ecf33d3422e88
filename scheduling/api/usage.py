"""The record of use (time.md, section 1)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.http import HttpResponse
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.rendering import utc_text
from pools.api.request_parsing import collect_faults, query_datetime, query_page
from pools.api.schema import (
    BOOLEAN,
    DATETIME,
    INTEGER,
    LIMIT,
    OFFSET,
    TEXT,
    QueryParameter,
    array_of,
    describe_operation,
    nullable,
    object_with,
)
from pools.api.views import View
from pools.domain.errors import BadInput, Violation
from pools.representations.csv_files import csv_response
from scheduling.api.queries import filter_list
from scheduling.domain.reason_codes import WaitCause
from scheduling.replay.trace_file import csv_trace, swf_trace
from scheduling.selectors.leaf_names import leaf_names_of
from scheduling.selectors.usage import (
    MAX_WORKFLOW_WINDOW,
    Bucket,
    UsageAnswer,
    UsageKey,
    UsageQuestion,
    UsageRow,
    read_usage,
)
from scheduling.selectors.usage_trace import read_trace

NUMBER = {"type": "number"}
DEFAULT_WINDOW = timedelta(days=30)
SECONDS = {
    "capacity_gpu_s": "capacity",
    "quota_gpu_s": "quota",
    "used_gpu_s": "",
    "guaranteed_gpu_s": "guaranteed",
    "low_inside_gpu_s": "low_inside",
    "over_quota_gpu_s": "over_quota",
    "idle_quota_gpu_s": "idle",
    "unallocated_gpu_s": "unallocated",
    "offline_gpu_s": "offline",
    "lent_gpu_s": "lent",
    "borrowed_gpu_s": "borrowed",
    "waiting_gpu_s": "",
    **{f"waiting_{cause}_gpu_s": f"waiting_{cause}" for cause in WaitCause},
}
"""The GPU-seconds of a row, each with the column of its sum; `used` and `waiting` are sums of others."""

OTHERS = ("wait_p50_s", "wait_p90_s", "workflows", "preemptions")

USAGE_NUMBERS = {
    **{name: nullable(NUMBER) for name in SECONDS},
    "wait_p50_s": nullable(NUMBER),
    "wait_p90_s": nullable(NUMBER),
    "workflows": INTEGER,
    "preemptions": INTEGER,
}
ANSWER = object_with(
    {
        "since": DATETIME,
        "until": DATETIME,
        "by": {"type": "string", "enum": list(UsageKey)},
        "bucket": {"type": "string", "enum": list(Bucket)},
        "rows": array_of(object_with({"start": DATETIME, **USAGE_NUMBERS}, additional=True)),
        "totals": object_with(USAGE_NUMBERS),
        "more_entries": BOOLEAN,
    }
)


class Usage(View):
    """The record of use. Readers of the platform see all of it, other people that of their pools and of their own
    work."""

    @describe_operation(
        "Show what was used, lent, idle and waited for, in GPU-seconds, computed from state changes.",
        query_parameters=[
            QueryParameter("since", TEXT, "From this time on (UTC); 30 days ago if it is not given."),
            QueryParameter("until", TEXT, "Up to this time (UTC); now if it is not given."),
            QueryParameter("by", {"type": "string", "enum": list(UsageKey)}, "What a row is about; by default pool."),
            QueryParameter("bucket", {"type": "string", "enum": list(Bucket)}, "Time of a row; by default day."),
            QueryParameter("pool", TEXT, "Only this pool with its subpools, or this subpool.", is_list=True),
            QueryParameter("user", TEXT, "Only work of this user.", is_list=True),
            QueryParameter("format", {"type": "string", "enum": ["json", "csv"]}, "JSON, or a CSV file of all rows."),
            LIMIT,
            OFFSET,
        ],
        answer=ANSWER,
        text_types=["text/csv"],
    )
    def get(self, request: Request) -> Response | HttpResponse:
        parameters, (limit, offset), form = collect_faults(
            lambda: read_usage_question(request, timezone.now()),
            lambda: query_page(request, limit=1000),
            lambda: _choice(request, "format", ["json", "csv"], "json"),
        )
        pools = [leaf for name in filter_list(request, "pool") for leaf in leaf_names_of(self.actor, name)]
        since, until, by, bucket = parameters
        question = UsageQuestion(since, until, by, bucket, pools, filter_list(request, "user"))
        answer = read_usage(self.actor, question)
        if form == "csv":
            return usage_csv(answer)
        return Response(usage_body(answer, limit=limit, offset=offset))


class UsageTrace(View):
    """The history as a trace that `osmo replay` reads."""

    @describe_operation(
        "Export the work that has ended as a trace: CSV, or the Standard Workload Format.",
        query_parameters=[
            QueryParameter("since", TEXT, "Submitted from this time on (UTC); 30 days ago if it is not given."),
            QueryParameter("until", TEXT, "Submitted before this time (UTC); now if it is not given."),
            QueryParameter("format", {"type": "string", "enum": ["csv", "swf"]}, "The form of the trace."),
        ],
        answer=TEXT,
        text_types=["text/csv", "text/plain"],
    )
    def get(self, request: Request) -> HttpResponse:
        (since, until), form = collect_faults(
            lambda: _read_window(request, timezone.now()),
            lambda: _choice(request, "format", ["csv", "swf"], "csv"),
        )
        jobs = read_trace(self.actor, since, until)
        text, kind = (csv_trace(jobs), "text/csv") if form == "csv" else (swf_trace(jobs), "text/plain")
        headers = {"Content-Disposition": f'attachment; filename="trace.{form}"'}
        return HttpResponse(text, content_type=f"{kind}; charset=utf-8", headers=headers)


def _read_window(request: Request, now: datetime) -> tuple[datetime, datetime]:
    since, until = collect_faults(lambda: query_datetime(request, "since"), lambda: query_datetime(request, "until"))
    return _window(since, until, now)


def _window(since: datetime | None, until: datetime | None, now: datetime) -> tuple[datetime, datetime]:
    """The window of a request, by default the last days. Raises BadInput for one that is empty."""
    until = min(until or now, now)
    begin = since or (until - DEFAULT_WINDOW).replace(hour=0, minute=0, second=0, microsecond=0)
    if begin >= until:
        message = f"since ({utc_text(begin)}) is not before until ({utc_text(until)}): give an earlier time."
        raise BadInput.of([Violation("since", "bad_query", message)])
    return begin, until


def read_usage_question(request: Request, now: datetime) -> tuple[datetime, datetime, UsageKey, Bucket]:
    """The window, the key and the bucket of a request. Raises BadInput with every fault."""
    since, until, key, bucket = collect_faults(
        lambda: query_datetime(request, "since"),
        lambda: query_datetime(request, "until"),
        lambda: UsageKey(_choice(request, "by", list(UsageKey), UsageKey.POOL)),
        lambda: Bucket(_choice(request, "bucket", list(Bucket), Bucket.DAY)),
    )
    begin, until = _window(since, until, now)
    if key is UsageKey.WORKFLOW and until - begin > MAX_WORKFLOW_WINDOW:
        days = MAX_WORKFLOW_WINDOW.days
        message = f"A list by workflow covers at most {days} days: give a later since, or by=user."
        raise BadInput.of([Violation("since", "window_too_long", message, numbers=(("max_days", days),))])
    return begin, until, key, bucket


def _choice(request: Request, name: str, allowed: list[Any], default: str) -> str:
    text = request.query_params.get(name) or str(default)
    if text not in allowed:
        message = f"{name}: give one of {', '.join(allowed)}."
        raise BadInput.of([Violation(name, "bad_query", message)])
    return text


def usage_body(answer: UsageAnswer, *, limit: int, offset: int) -> dict[str, Any]:
    """The answer as JSON."""
    question = answer.question
    page = answer.rows[offset : offset + limit]
    return {
        "since": utc_text(question.since),
        "until": utc_text(question.until),
        "by": str(question.by),
        "bucket": str(question.bucket),
        "rows": [{"start": utc_text(row.start), str(question.by): row.key, **usage_numbers(row)} for row in page],
        "totals": usage_numbers(answer.totals),
        "more_entries": answer.has_more or len(answer.rows) > offset + limit,
    }


def usage_numbers(row: UsageRow) -> dict[str, float | None]:
    """The numbers of a row by their names in the API."""
    sums = row.sums
    found: dict[str, float | None] = {name: _seconds(sums[column]) for name, column in SECONDS.items() if column}
    found |= {"used_gpu_s": _seconds(row.used), "waiting_gpu_s": _seconds(row.waiting)}
    found |= {"wait_p50_s": _rounded(row.wait_p50), "wait_p90_s": _rounded(row.wait_p90)}
    found |= {"workflows": sums["workflows"] or 0, "preemptions": sums["preemptions"] or 0}
    return {name: found[name] for name in (*SECONDS, *OTHERS)}


def _seconds(ms: int | None) -> float | None:
    """GPU-seconds, exact to the millisecond; a whole number where it is one."""
    return None if ms is None else ms // 1000 if ms % 1000 == 0 else ms / 1000


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def usage_csv(answer: UsageAnswer) -> HttpResponse:
    """The answer as a CSV file."""
    columns = ["start", str(answer.question.by), *SECONDS, *OTHERS]
    rows = ([row.start.astimezone(UTC), row.key, *usage_numbers(row).values()] for row in answer.rows)
    return csv_response("usage", columns, rows)
