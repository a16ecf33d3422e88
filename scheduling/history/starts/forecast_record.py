"""The record of forecasts that came true: the same rows as the metrics `osmo_forecast_*`."""

from __future__ import annotations

from dataclasses import dataclass

from pools.database.prepared import read_rows

RECENT = 1000
FEWEST = 20
"""Fewer scores say nothing."""

_SQL = """
    SELECT count(*), avg((wait <= (first_waits ->> 1)::float8)::int), avg((wait <= (first_waits ->> 2)::float8)::int)
    FROM (
        SELECT wait, first_waits FROM scheduling_startforecast
        WHERE scored_at IS NOT NULL AND wait IS NOT NULL AND first_waits IS NOT NULL
        ORDER BY scored_at DESC, group_id LIMIT %s
    ) scored
"""


@dataclass(frozen=True, slots=True)
class ForecastRecord:
    """Of the scored forecasts, the shares of work that had started by the time for half of such work, and by that
    for nine of ten."""

    scored: int
    by_half: float
    by_nine_of_ten: float

    @property
    def half_text(self) -> str:
        """The first share in per cent."""
        return f"{self.by_half:.0%}".replace("%", " %")

    @property
    def nine_text(self) -> str:
        """The second share in per cent."""
        return f"{self.by_nine_of_ten:.0%}".replace("%", " %")


def read_forecast_record() -> ForecastRecord | None:
    """The record of the last forecasts of all clusters; None while fewer than `FEWEST` are scored. One query."""
    [(scored, by_half, by_nine)] = read_rows(_SQL, [RECENT])
    return ForecastRecord(scored, float(by_half), float(by_nine)) if scored >= FEWEST else None
