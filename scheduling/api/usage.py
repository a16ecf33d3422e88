"""The record of use (docs/usage.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, NotRequired, TypedDict

from django.http import HttpResponse
from django.utils import timezone
from django.utils.text import slugify
from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.questions import parameters_of, read_query
from pools.api.rendering import zoned_text
from pools.api.schema import TEXT, ZonedText, describe_operation
from pools.api.views import View
from pools.domain.errors import BadInput, Fault, Violation
from pools.domain.numbers import USAGE_NUMBERS
from pools.domain.questions import Page, parameter
from pools.domain.structured_input.declared_values import TIME, choice
from pools.domain.values.query_values import away_from_ends
from pools.representations.csv_files import csv_response
from scheduling.domain.lists import Bucket, UsageKey, UsageQuery
from scheduling.domain.receipts.causes import EndCause
from scheduling.history.own.usage_trace import read_trace
from scheduling.history.traces.trace_file import csv_trace, swf_trace
from scheduling.selectors.usage.answers import LostShare, UsageAnswer, UsageQuestion, UsageRow
from scheduling.selectors.usage.by_workflow import MAX_WORKFLOW_WINDOW
from scheduling.selectors.usage.reading import read_usage
from scheduling.selectors.work.leaf_names import leaf_names_of

DEFAULT_WINDOW = timedelta(days=30)
SECONDS_PER_HOUR = 3600
HOURS_DIGITS = 4
MAX_NAMED_IN_FILE = 3
_OF_SECONDS = "_gpu_s"


@dataclass(frozen=True, slots=True)
class TraceQuery:
    """The query of the history."""

    since: datetime | None = parameter(TIME, "Submitted from this time on; 30 days ago if it is not given.")
    until: datetime | None = parameter(TIME, "Submitted before this time; now if it is not given.")
    format: str = parameter(choice(["csv", "swf"]), "The form of the trace.", default="csv")


class UsageNumbers(TypedDict):
    """GPU-seconds, waits and counts; null where such a row has no such amount."""

    capacity_gpu_s: float | None
    quota_gpu_s: Annotated[float | None, USAGE_NUMBERS["quota_gpu_s"].meaning]
    used_gpu_s: Annotated[float | None, USAGE_NUMBERS["used_gpu_s"].meaning]
    guaranteed_gpu_s: Annotated[float | None, USAGE_NUMBERS["guaranteed_gpu_s"].meaning]
    low_inside_gpu_s: Annotated[float | None, USAGE_NUMBERS["low_inside_gpu_s"].meaning]
    over_quota_gpu_s: Annotated[float | None, USAGE_NUMBERS["over_quota_gpu_s"].meaning]
    idle_quota_gpu_s: Annotated[float | None, USAGE_NUMBERS["idle_quota_gpu_s"].meaning]
    unallocated_gpu_s: float | None
    offline_gpu_s: float | None
    lent_gpu_s: Annotated[float | None, USAGE_NUMBERS["lent_gpu_s"].meaning]
    borrowed_gpu_s: Annotated[float | None, USAGE_NUMBERS["borrowed_gpu_s"].meaning]
    waiting_gpu_s: Annotated[float | None, USAGE_NUMBERS["waiting_gpu_s"].meaning]
    waiting_own_quota_gpu_s: float | None
    waiting_limit_gpu_s: float | None
    waiting_room_gpu_s: float | None
    waiting_offline_gpu_s: float | None
    waiting_order_gpu_s: float | None
    wait_p50_s: Annotated[float | None, USAGE_NUMBERS["wait_p50_s"].meaning]
    wait_p90_s: float | None
    workflows: Annotated[int, USAGE_NUMBERS["workflows"].meaning]
    preemptions: Annotated[int, USAGE_NUMBERS["preemptions"].meaning]
    lost_gpu_s: Annotated[float, USAGE_NUMBERS["lost_gpu_s"].meaning]


class UsageRowAnswer(UsageNumbers):
    """The numbers of one key in one bucket; the key has the name that `by` asks for. Parts of shared GPUs have rows of
    their own, whose key ends with their flavor: `team/t4`."""

    start: ZonedText
    pool: NotRequired[str | None]
    subpool: NotRequired[str | None]
    cohort: NotRequired[str | None]
    user: NotRequired[str | None]
    priority: NotRequired[str | None]
    backend: NotRequired[str | None]
    flavor: NotRequired[str | None]
    workflow: NotRequired[str | None]
    parts: NotRequired[Annotated[str, "Of a row that counts parts of shared GPUs: their flavor."]]


class LostShareAnswer(TypedDict):
    """What a pool lost by one cause to the work of one pool (docs/receipts.md). `taker` is null where no work got the
    place; "another pool" where the caller may not know it."""

    pool: str
    cause: Annotated[str, EndCause]
    rule: Annotated[str, "The cause in words."]
    taker: str | None
    attempts: int
    lost_gpu_s: float
    parts: NotRequired[Annotated[str, "Where parts of shared GPUs were lost: their flavor."]]


class UsageListAnswer(TypedDict):
    """A page of the record of use, with the sums of all its rows."""

    since: ZonedText
    until: ZonedText
    by: Annotated[str, UsageKey]
    bucket: Annotated[str, Bucket]
    rows: list[UsageRowAnswer]
    totals: Annotated[UsageNumbers, "Of whole GPUs; `workflows`, `preemptions` and waits are those of all work."]
    lost: Annotated[
        list[LostShareAnswer],
        "By pool, cause and taker, most first; those of whole GPUs add up to `lost_gpu_s` of the totals.",
    ]
    more_entries: bool


class Usage(View):
    """The record of use. Readers of the platform see all of it, other people that of their pools and of their own
    work."""

    @describe_operation(
        "Show what was used, lent, idle and waited for, from state changes: in GPU-seconds; the CSV file in GPU-hours.",
        query_parameters=parameters_of(UsageQuery),
        answer=UsageListAnswer,
        text_types=["text/csv"],
    )
    def get(self, request: Request) -> Response | HttpResponse:
        query = read_query(UsageQuery, request)
        since, until = _window(query.since, query.until, timezone.now())
        if query.by is UsageKey.WORKFLOW and until - since > MAX_WORKFLOW_WINDOW:
            days = MAX_WORKFLOW_WINDOW.days
            message = f"A list by workflow covers at most {days} days: give a later since, or by=user."
            raise BadInput.of([Violation("since", Fault.WINDOW_TOO_LONG, message, numbers=(("max_days", days),))])
        pools = leaf_names_of(self.actor, *query.pool)
        answer = read_usage(self.actor, UsageQuestion(since, until, query.by, query.bucket, pools, query.user))
        return (
            usage_csv(answer, (*query.pool, *query.user))
            if query.format == "csv"
            else Response(usage_body(answer, query))
        )


class UsageTrace(View):
    """The history as a trace that `osmo replay` reads."""

    @describe_operation(
        "Export the work that has ended as a trace: CSV, or the Standard Workload Format.",
        query_parameters=parameters_of(TraceQuery),
        answer=TEXT,
        text_types=["text/csv", "text/plain"],
    )
    def get(self, request: Request) -> HttpResponse:
        query = read_query(TraceQuery, request)
        jobs = read_trace(self.actor, *_window(query.since, query.until, timezone.now()))
        text, kind = (csv_trace(jobs), "text/csv") if query.format == "csv" else (swf_trace(jobs), "text/plain")
        headers = {"Content-Disposition": f'attachment; filename="trace.{query.format}"'}
        return HttpResponse(text, content_type=f"{kind}; charset=utf-8", headers=headers)


def _window(since: datetime | None, until: datetime | None, now: datetime) -> tuple[datetime, datetime]:
    """The window of a request, by default the last days. Raises BadInput for one that is empty."""
    until = min(until or now, now)
    begin = since or (away_from_ends(until) - DEFAULT_WINDOW).replace(hour=0, minute=0, second=0, microsecond=0)
    if begin >= until:
        message = f"since ({zoned_text(begin)}) is not before until ({zoned_text(until)}): give an earlier time."
        raise BadInput.of([Violation("since", Fault.BAD_QUERY, message)])
    return begin, until


def usage_body(answer: UsageAnswer, page: Page) -> UsageListAnswer:
    """A page of the answer."""
    question = answer.question
    end = page.offset + page.limit
    return {
        "since": zoned_text(question.since),
        "until": zoned_text(question.until),
        "by": str(question.by),
        "bucket": str(question.bucket),
        "rows": [_row_body(row, question.by) for row in answer.rows[page.offset : end]],
        "totals": usage_numbers(answer.totals),
        "lost": [_lost_body(each) for each in answer.losses],
        "more_entries": answer.has_more or len(answer.rows) > end,
    }


def _lost_body(share: LostShare) -> LostShareAnswer:
    body: LostShareAnswer = {
        "pool": share.pool,
        "cause": share.cause,
        "rule": share.rule,
        "taker": share.taken_by or None,
        "attempts": share.attempts,
        "lost_gpu_s": _seconds(share.gpu_ms) or 0,
    }
    if share.part:
        body["parts"] = share.part
    return body


def _row_body(row: UsageRow, by: UsageKey) -> UsageRowAnswer:
    parts = {"parts": row.part} if row.part else {}
    return {"start": zoned_text(row.start), by.value: row.key, **usage_numbers(row), **parts}  # type: ignore[misc]  # one of its keys


def usage_numbers(row: UsageRow) -> UsageNumbers:
    """The numbers of a row by their names in the API."""
    sums = row.sums
    return {
        "capacity_gpu_s": _seconds(sums["capacity"]),
        "quota_gpu_s": _seconds(sums["quota"]),
        "used_gpu_s": _seconds(row.used),
        "guaranteed_gpu_s": _seconds(sums["guaranteed"]),
        "low_inside_gpu_s": _seconds(sums["low_inside"]),
        "over_quota_gpu_s": _seconds(sums["over_quota"]),
        "idle_quota_gpu_s": _seconds(sums["idle"]),
        "unallocated_gpu_s": _seconds(sums["unallocated"]),
        "offline_gpu_s": _seconds(sums["offline"]),
        "lent_gpu_s": _seconds(sums["lent"]),
        "borrowed_gpu_s": _seconds(sums["borrowed"]),
        "waiting_gpu_s": _seconds(row.waiting),
        "waiting_own_quota_gpu_s": _seconds(sums["waiting_own_quota"]),
        "waiting_limit_gpu_s": _seconds(sums["waiting_limit"]),
        "waiting_room_gpu_s": _seconds(sums["waiting_room"]),
        "waiting_offline_gpu_s": _seconds(sums["waiting_offline"]),
        "waiting_order_gpu_s": _seconds(sums["waiting_order"]),
        "wait_p50_s": _rounded(row.wait_p50),
        "wait_p90_s": _rounded(row.wait_p90),
        "workflows": sums["workflows"] or 0,
        "preemptions": sums["preemptions"] or 0,
        "lost_gpu_s": _seconds(row.lost) or 0,
    }


def _seconds(ms: int | None) -> float | None:
    """GPU-seconds, exact to the millisecond; a whole number where it is one."""
    return None if ms is None else ms // 1000 if ms % 1000 == 0 else ms / 1000


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def usage_csv(answer: UsageAnswer, named: Sequence[str]) -> HttpResponse:
    """The answer as a CSV file in GPU-hours, called by the pools and users that were asked for and by its days."""
    question, names = answer.question, UsageNumbers.__annotations__
    columns = ["start", str(question.by), *(name.replace(_OF_SECONDS, "_gpu_hours") for name in names)]
    rows = (
        [row.start.astimezone(UTC), row.key, *(_file_cell(*each) for each in usage_numbers(row).items())]
        for row in answer.rows
    )
    whom = named if len(named) <= MAX_NAMED_IN_FILE else [f"{len(named)}-pools-and-users"]
    last = question.until.astimezone(UTC) - timedelta.resolution
    parts = ("usage", *map(slugify, whom), f"{question.since.astimezone(UTC).date()}-to-{last.date()}")
    return csv_response("-".join(filter(None, parts)), columns, rows)


def _file_cell(name: str, value: Any) -> Any:
    is_seconds = name.endswith(_OF_SECONDS) and value is not None
    return round(value / SECONDS_PER_HOUR, HOURS_DIGITS) if is_seconds else value
