"""A chart over time, as pages draw it: series of numbers at common times, and the same numbers as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

Tone = Literal[
    "guaranteed",
    "low",
    "over",
    "quota",
    "capacity",
    "own_quota",
    "limit",
    "room",
    "offline",
    "order",
    "before",
    "plain",
]
"""The colour of a series, and its pattern where colours are not shown; the same tone means the same on every page."""

MAX_TABLE_ROWS = 200
"""A longer table would hide the rest of the page; the CSV file has every row."""


@dataclass(frozen=True, slots=True)
class ChartSeries:
    """An area, or a line such as a quota. `values` belong to the times of the chart; None is a gap. `texts`, where
    given, are the values as a person reads them. `meaning` explains the label."""

    label: str
    tone: Tone
    values: Sequence[float | None]
    texts: Sequence[str] = ()
    is_line: bool = False
    meaning: str = ""

    def text(self, index: int) -> str:
        """The value at the time with this index, for a person."""
        value = self.values[index]
        if value is None:
            return "–"
        return self.texts[index] if self.texts else number_text(value)


@dataclass(frozen=True, slots=True)
class Chart:
    """`times` are the beginnings of the steps, and `end` is the end of the last one: a value holds until the next time.
    Areas are on top of each other, the first one at the bottom; lines are lines of steps. The picture is as high as the
    areas need, and a line that is far above them is named beside it. `key` is unique on the page. `summary` is one
    sentence for a person who does not see the picture. `axis` is the period that the picture spans, and `now` is marked
    in it; without them, it spans the times. `nothing`
    stands in place of a picture whose areas are empty."""

    key: str
    title: str
    unit: str
    summary: str
    times: Sequence[datetime]
    end: datetime
    series: Sequence[ChartSeries]
    axis: tuple[datetime, datetime] | None = None
    now: datetime | None = None
    nothing: str = ""

    @property
    def is_empty(self) -> bool:
        """A sentence says more than this picture."""
        areas = [each.values for each in self.series if not each.is_line]
        return bool(self.nothing) and not any(value for values in areas for value in values)

    @property
    def table_rows(self) -> list[tuple[datetime, list[str]]]:
        """The newest rows of the table, the newest first."""
        newest = range(len(self.times) - 1, max(-1, len(self.times) - 1 - MAX_TABLE_ROWS), -1)
        return [(self.times[index], [each.text(index) for each in self.series]) for index in newest]

    @property
    def script_data(self) -> dict[str, Any]:
        """The data of the script that draws: times as seconds since 1970; the last value is repeated at the end."""
        seconds = [at.timestamp() for at in (*self.times, self.end)]
        return {
            "title": self.title,
            "unit": self.unit,
            "axis": [at.timestamp() for at in self.axis or (self.times[0] if self.times else self.end, self.end)],
            "now": self.now and self.now.timestamp(),
            "times": seconds,
            "series": [
                {
                    "label": each.label,
                    "tone": each.tone,
                    "line": each.is_line,
                    "values": [*each.values, each.values[-1] if each.values else None],
                    "texts": [*each.texts, each.texts[-1]] if each.texts else None,
                }
                for each in self.series
            ],
        }


def number_text(value: float) -> str:
    """A number with one decimal at most, thousands apart."""
    text = f"{value:,.1f}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    return text.removesuffix(".0")


def chart_time(at: datetime) -> str:
    """A time in the table of a chart, in UTC."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"
