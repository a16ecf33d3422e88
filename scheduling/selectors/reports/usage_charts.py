"""Charts of the record of use: average GPUs by state, and by cause of waiting, over time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pools.domain.numbers import USAGE_NUMBERS
from pools.representations.charts import Chart, ChartSeries, Tone
from scheduling.domain.lists import Bucket, UsageKey
from scheduling.domain.reason_codes import WaitCause
from scheduling.selectors.reports.usage import UsageAnswer, UsageQuestion

HOURS_UP_TO = timedelta(days=8)
"""A longer window is drawn in days."""


@dataclass(frozen=True, slots=True)
class Period:
    """A window that ends now: its name in the address, and its words."""

    name: str
    title: str
    length: timedelta


PERIODS = (
    Period("24h", "24 hours", timedelta(hours=24)),
    Period("7d", "7 days", timedelta(days=7)),
    Period("30d", "30 days", timedelta(days=30)),
    Period("90d", "90 days", timedelta(days=90)),
)

_STATES: tuple[tuple[str, str, Tone], ...] = (
    ("guaranteed", USAGE_NUMBERS["guaranteed_gpu_s"].label, "guaranteed"),
    ("low_inside", USAGE_NUMBERS["low_inside_gpu_s"].label, "low"),
    ("over_quota", USAGE_NUMBERS["over_quota_gpu_s"].label, "over"),
    ("idle", USAGE_NUMBERS["idle_quota_gpu_s"].label, "idle"),
    ("unallocated", "Unallocated", "unallocated"),
    ("offline", "Offline", "offline"),
)
_CAUSES: tuple[tuple[WaitCause, str, Tone], ...] = (
    (WaitCause.OWN_QUOTA, "own quota", "waiting"),
    (WaitCause.LIMIT, "a limit above", "borrowed"),
    (WaitCause.ROOM, "room on nodes", "over"),
    (WaitCause.OFFLINE, "backend offline", "offline"),
    (WaitCause.ORDER, "its turn", "idle"),
)
CAUSE_TITLES = {str(cause): title for cause, title, _ in _CAUSES}


def chosen_period(name: str | None, default: str = "7d") -> Period:
    """The period with this name in the address."""
    found = {period.name: period for period in PERIODS}
    return found.get(name or default, found[default])


def question_of_period(
    period: Period, now: datetime, *, by: UsageKey, pools: Sequence[str] = (), users: Sequence[str] = ()
) -> UsageQuestion:
    """The record of a period until now, in hours or days."""
    if period.length < HOURS_UP_TO:
        since = (now - period.length).replace(minute=0, second=0, microsecond=0)
        return UsageQuestion(since, now, by, Bucket.HOUR, pools, users)
    since = (now - period.length).replace(hour=0, minute=0, second=0, microsecond=0)
    return UsageQuestion(since, now, by, Bucket.DAY, pools, users)


def usage_charts(answer: UsageAnswer, *, prefix: str = "use") -> list[Chart]:
    """The charts of a window; `prefix` makes their keys unique on the page."""
    return [_state_chart(answer, f"{prefix}-states"), _waiting_chart(answer, f"{prefix}-waiting")]


def _state_chart(answer: UsageAnswer, key: str) -> Chart:
    drawn = [state for state in _STATES if answer.totals.sums.get(state[0]) is not None]
    times, columns = _averages(answer, [name for name, _, _ in drawn])
    used = _average(answer, answer.totals.used)
    return Chart(
        key=key,
        title="Use",
        unit="GPUs on average",
        summary=f"On average {used:.1f} GPUs were in use.",
        times=times,
        end=answer.question.until,
        series=[ChartSeries(title, tone, values) for (_, title, tone), values in zip(drawn, columns, strict=True)],
        is_stacked=True,
    )


def _waiting_chart(answer: UsageAnswer, key: str) -> Chart:
    times, columns = _averages(answer, [f"waiting_{cause}" for cause, _, _ in _CAUSES])
    waited = _average(answer, answer.totals.waiting)
    return Chart(
        key=key,
        title="Waiting, by what it waited for",
        unit="GPUs on average",
        summary=f"On average work for {waited:.1f} GPUs was waiting.",
        times=times,
        end=answer.question.until,
        series=[ChartSeries(title, tone, values) for (_, title, tone), values in zip(_CAUSES, columns, strict=True)],
        is_stacked=True,
    )


def _average(answer: UsageAnswer, total: int) -> float:
    question = answer.question
    return total / ((question.until - question.since) / timedelta(milliseconds=1))


def _averages(answer: UsageAnswer, names: Sequence[str]) -> tuple[list[datetime], list[list[float]]]:
    """The beginnings of the buckets, and for each sum its average in each bucket."""
    question = answer.question
    sums: defaultdict[datetime, list[int]] = defaultdict(lambda: [0] * len(names))
    for row in answer.rows:
        sums[row.start] = [total + (row.sums[name] or 0) for total, name in zip(sums[row.start], names, strict=True)]
    step = timedelta(hours=1) if question.bucket is Bucket.HOUR else timedelta(days=1)
    times, columns = [], [list[float]() for _ in names]
    at = question.since
    while at < question.until:
        length = (min(at + step, question.until) - at) / timedelta(milliseconds=1)
        times.append(at)
        for column, total in zip(columns, sums[at], strict=True):
            column.append(round(total / length, 3))
        at += step
    return times, columns
