"""A chart over time, as pages draw it: series of numbers at common times, and the same numbers as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

Tone = Literal["guaranteed", "low", "over", "idle", "unallocated", "offline", "lent", "borrowed", "waiting", "plain"]
"""The colour and the dashes of a series; the same tone means the same thing on every page."""

MAX_TABLE_ROWS = 200
"""A longer table would hide the rest of the page; the CSV file has every row."""


@dataclass(frozen=True, slots=True)
class ChartSeries:
    """One line or area. `values` belong to the times of the chart; None is a gap. `texts`, where given, are the values
    as a person reads them."""

    label: str
    tone: Tone
    values: Sequence[float | None]
    texts: Sequence[str] = ()

    def text(self, index: int) -> str:
        """The value at the time with this index, for a person."""
        value = self.values[index]
        if value is None:
            return "–"
        return self.texts[index] if self.texts else f"{value:g}"


@dataclass(frozen=True, slots=True)
class Chart:
    """`times` are the beginnings of the steps, and `end` is the end of the last one: a value holds until the next time.
    Stacked series are areas on top of each other, the first one at the bottom; lines are lines of steps. `key` is
    unique on the page. `summary` is one sentence for a person who does not see the picture."""

    key: str
    title: str
    unit: str
    summary: str
    times: Sequence[datetime]
    end: datetime
    series: Sequence[ChartSeries]
    is_stacked: bool = False

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
            "stacked": self.is_stacked,
            "times": seconds,
            "series": [
                {
                    "label": each.label,
                    "tone": each.tone,
                    "values": [*each.values, each.values[-1] if each.values else None],
                    "texts": [*each.texts, each.texts[-1]] if each.texts else None,
                }
                for each in self.series
            ],
        }


def chart_time(at: datetime) -> str:
    """A time in the table of a chart, in UTC."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"
