"""Charts of the record of use: average GPUs by state, and by cause of waiting, over time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pools.domain.numbers import USAGE_NUMBERS
from pools.representations.charts import Chart, ChartSeries, Tone, number_text
from scheduling.domain.lists import Bucket
from scheduling.selectors.usage.answers import UsageAnswer
from scheduling.selectors.usage.periods import UsageWindow


@dataclass(frozen=True, slots=True)
class UsageSeries:
    """A series of the charts: the column of the record that it shows, its words, and its look."""

    column: str
    label: str
    meaning: str
    tone: Tone
    is_line: bool = False


def _declare(column: str, key: str, tone: Tone, *, is_line: bool = False) -> UsageSeries:
    number = USAGE_NUMBERS[key]
    return UsageSeries(column, number.label, number.meaning, tone, is_line)


USE_SERIES = (
    _declare("guaranteed", "guaranteed_gpu_s", "guaranteed"),
    _declare("low_inside", "low_inside_gpu_s", "low"),
    _declare("over_quota", "over_quota_gpu_s", "over"),
    _declare("quota", "quota_gpu_s", "quota", is_line=True),
    UsageSeries("capacity", "Capacity", "GPUs of the nodes of the clusters, those offline included.", "capacity", True),
)
"""Use as areas, and what it is measured by as lines: the gap between them is idle."""
WAIT_SERIES = (
    UsageSeries("waiting_own_quota", "own quota", "The quota of its pool is in use.", "own_quota"),
    UsageSeries("waiting_limit", "a limit above", "A limit of the pool or of a node above it is reached.", "limit"),
    UsageSeries("waiting_room", "room on nodes", "No node has as many free GPUs as one task needs.", "room"),
    UsageSeries("waiting_offline", "backend offline", "The cluster takes no work.", "offline"),
    UsageSeries(
        "waiting_order", "work before it", "Other work comes first, or the scheduler has not judged it yet.", "order"
    ),
)
CAUSE_TITLES = {series.column.removeprefix("waiting_"): series.label for series in WAIT_SERIES}


def usage_charts(answer: UsageAnswer, window: UsageWindow, *, prefix: str = "use") -> list[Chart]:
    """The charts of a window: of whole GPUs, then of each flavor of parts of shared GPUs. `prefix` makes their keys
    unique on the page."""
    whole = replace(answer, rows=[row for row in answer.rows if not row.part])
    parts = answer.by_part()
    charts = _charts_of(whole, window, prefix, "GPUs") if whole.rows or not parts else []
    for part in parts:
        flavor = part.totals.key
        charts += _charts_of(part, window, f"{prefix}-{flavor}", f"{flavor} parts of GPUs", f" of {flavor} parts")
    return charts


def _charts_of(answer: UsageAnswer, window: UsageWindow, prefix: str, unit: str, of: str = "") -> list[Chart]:
    used, waited = _average(answer, answer.totals.used), _average(answer, answer.totals.waiting)
    return [
        _chart(
            answer,
            window,
            f"{prefix}-states",
            f"Use{of}",
            f"On average {number_text(used)} {unit} were in use.",
            USE_SERIES,
            unit,
            "" if answer.totals.used else f"No {unit} were in use in this time.",
        ),
        _chart(
            answer,
            window,
            f"{prefix}-waiting",
            f"Waiting{of}, by what it waited for",
            f"On average work for {number_text(waited)} {unit} was waiting.",
            WAIT_SERIES,
            unit,
            f"{'Almost no' if answer.totals.waiting else 'No'} work was waiting in this time.",
        ),
    ]


def _chart(
    answer: UsageAnswer,
    window: UsageWindow,
    key: str,
    title: str,
    summary: str,
    declared: Sequence[UsageSeries],
    unit: str,
    nothing: str,
) -> Chart:
    drawn = [series for series in declared if answer.totals.sums.get(series.column) is not None]
    times, columns = _averages(answer, [series.column for series in drawn])
    return Chart(
        key=key,
        title=title,
        unit=f"{unit} on average",
        summary=summary,
        times=times,
        end=answer.question.until,
        nothing=nothing,
        series=[
            ChartSeries(each.label, each.tone, values, is_line=each.is_line, meaning=each.meaning)
            for each, values in zip(drawn, columns, strict=True)
        ],
        axis=(window.since, window.end),
        now=window.until if window.until < window.end else None,
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
