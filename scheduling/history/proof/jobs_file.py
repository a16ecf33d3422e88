"""The file of all jobs: one line each, in the order of their submission (docs/moving-in.md)."""

from __future__ import annotations

import csv
from datetime import datetime, timedelta
from typing import TextIO

from pools.domain.values.spreadsheet_cells import plain_cell
from scheduling.history.proof.outcomes import JobOutcome
from scheduling.history.traces.runs_file import seconds_text

COLUMNS = (
    "job", "line", "name", "user", "team", "priority", "gpus", "submitted", "duration_s", "wait_before_s",
    "wait_after_s", "stops_before", "stops_after", "ended_before", "ended_after", "later_s", "verdict",
)  # fmt: skip
_EPOCH = datetime(1970, 1, 1)


class JobsWriter:
    """Writes one line for each job. `start`: the time of instant 0 on the clock of the history."""

    def __init__(self, file: TextIO, *, start: int, is_dated: bool) -> None:
        self._writer = csv.writer(file, lineterminator="\n")
        self._start, self._is_dated = start, is_dated
        self._writer.writerow(COLUMNS)

    def write(self, outcome: JobOutcome) -> None:
        """Write a job; what it does not have is empty."""
        job, record = outcome.job, outcome.record
        self._writer.writerow(
            (
                job.id, record.line, plain_cell(job.name), plain_cell(job.user), plain_cell(job.team),
                job.priority.value, job.gpus, self.moment(job.submit), _span(job.duration), _span(outcome.wait_before),
                _span(outcome.wait_after), record.stops, "" if outcome.end_after is None else outcome.stops_after,
                self.moment(outcome.end_before), self.moment(outcome.end_after), _span(outcome.later), outcome.verdict,
            )
        )  # fmt: skip

    def moment(self, at: int | None) -> str:
        """An instant as the history writes times."""
        return "" if at is None else moment_text(self._start + at, is_dated=self._is_dated)


def moment_text(at: int, *, is_dated: bool) -> str:
    """A time on the clock of a history: a date to the second, or seconds."""
    if not is_dated:
        return seconds_text(at)
    return (_EPOCH + timedelta(microseconds=at)).isoformat(timespec="seconds")


def _span(microseconds: int | None) -> str:
    if microseconds is None:
        return ""
    return f"-{seconds_text(-microseconds)}" if microseconds < 0 else seconds_text(microseconds)
