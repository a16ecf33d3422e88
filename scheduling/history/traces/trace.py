"""A trace file → its jobs, or all its faults at once, each with its line (docs/replay.md).

CSV with a header (the columns of `NEEDED`, and those of `OPTIONAL` that it has), or the Standard Workload Format
(`.swf`); both also compressed with gzip. Line 1 of a CSV file is the header.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pools.domain.errors import Fault
from pools.domain.values.spreadsheet_cells import text_of_cell
from scheduling.domain.priorities import Priority
from scheduling.history.replay.jobs import JobTable
from scheduling.history.traces import values
from scheduling.history.traces.faults import FileFaults
from scheduling.history.traces.lines import read_lines

NEEDED = ("submit_time", "duration_s", "gpus", "team")
OPTIONAL = ("name", "user", "priority", "limit_s", "checkpoint_s")
MAX_JOBS = 3_000_000
"""A file of more jobs is refused: its replay would need more than a GiB."""

MAX_WORD = 256
"""Characters of a name, a user or a team."""

T = TypeVar("T")

SWF_FIELDS = 18
_SWF = {"submit_time": 1, "duration_s": 3, "allocated": 4, "gpus": 7, "limit_s": 8, "user": 11}
"""The index of each field of the Standard Workload Format that a replay reads, besides that of the team."""
SWF_TEAM_FIELDS = {"queue": 14, "group": 12, "partition": 15}
"""The index of each field that may be the team."""
_SWF_PRECEDING_JOB, _SWF_THINK_TIME = 16, 17
_SWF_WHERE = {
    "submit_time": "field 2", "duration_s": "field 4", "gpus": "fields 8 and 5", "limit_s": "field 9",
    "user": "field 12",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """How to read what a trace leaves open. `team`: the team of each job for which the trace has none; `team_field`:
    the field of the Standard Workload Format that is the team; `skips_unusable`: whether jobs of that format without a
    run time, GPUs or a team are left out and counted."""

    team: str | None = None
    team_field: str = "queue"
    skips_unusable: bool = False


@dataclass(frozen=True, slots=True)
class Trace:
    """The jobs of a file. `is_dated`: its times are dates; otherwise they are seconds. `notes` say what was left
    out."""

    jobs: JobTable
    is_dated: bool
    notes: tuple[str, ...] = ()


class TraceReader:
    """Reads one file. `teams`: the queues that may run work; None where they are not known."""

    def __init__(
        self,
        source: str,
        *,
        teams: Collection[str] | None,
        priority: Priority,
        options: TraceOptions = TraceOptions(),  # frozen
    ) -> None:
        self.faults = FileFaults(source)
        self._options = options
        self._is_swf = source.lower().removesuffix(".gz").endswith(".swf")
        self._skipped = self._followers = 0
        self._source, self._teams = source, teams
        self._jobs = JobTable(priority)
        self._is_dated: bool | None = None
        self._line = 0
        self._row = 0

    def read(self) -> Trace | None:
        """The trace; None if there is any fault."""
        lines = read_lines(self._source, self.faults)
        if self._is_swf:
            self._read_swf(lines)
        else:
            self._read_csv(lines)
        if not self.faults.count and self._row == self._skipped:
            self._fault(
                "", Fault.BAD_VALUE, "The trace has no jobs." if not self._row else "The trace has no usable jobs."
            )
        if self.faults.count:
            return None
        self._jobs.sort()
        return Trace(self._jobs, bool(self._is_dated), tuple(self._notes()))

    def _notes(self) -> Iterator[str]:
        if self._skipped:
            yield (f"{self._skipped:,} of {self._row:,} jobs are left out: they have no run time, GPUs or team.")
        if self._followers:
            yield (
                f"{self._followers:,} jobs follow another job (fields 17 and 18). Each is submitted at its own time of "
                "the trace, not when the other job has ended, so the replay is not bound by these dependencies."
            )

    # -- CSV ---------------------------------------------------------------------------------------------------------

    def _read_csv(self, lines: Iterator[str]) -> None:
        reader = csv.reader(lines, strict=True)
        rows = self._rows(reader)
        header = next(rows, None)
        if header is None:
            if not self.faults.count:
                self._line = 1
                self._fault(
                    "", Fault.BAD_VALUE, f"The file is empty; its first line names the columns {_list(NEEDED)}."
                )
            return
        names = [name.strip() for name in header]
        if not set(names) & {*NEEDED, *OPTIONAL}:
            self._fault(
                "",
                Fault.NO_HEADER,
                "The first line has no header: it names none of the columns "
                f"{_list((*NEEDED, *OPTIONAL))}. Write their names, separated by commas, as line 1.",
            )
            return
        columns = self._columns(names)
        for row in rows:
            if not self._count_row():
                return
            if len(row) != len(header):
                self._fault(
                    "", Fault.BAD_VALUE, f"The row has {len(row)} values; the header has {len(header)} columns."
                )
                continue
            self._add({name: row[at].strip() for name, at in columns.items()})

    def _rows(self, reader: Any) -> Iterator[list[str]]:
        """The rows that are not empty. A row that breaks the rules of CSV is a fault."""
        while True:
            self._line = reader.line_num + 1
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                self._fault("", Fault.BAD_VALUE, f"This is not valid CSV: {error}.")
                continue
            if len(row) > 1 or (row and row[0].strip()):
                yield row

    def _columns(self, header: list[str]) -> dict[str, int]:
        """The index of each known column."""
        found: dict[str, int] = {}
        for at, name in enumerate(header):
            if name not in (*NEEDED, *OPTIONAL):
                message = (
                    f"Column {at + 1} is not known; columns of a trace are {_list((*NEEDED, *OPTIONAL))}."
                    if name
                    else f"Column {at + 1} has no name."
                )
                self._fault(name[:MAX_WORD], Fault.UNKNOWN_KEY, message)
            elif name in found:
                self._fault(name, Fault.DUPLICATE_NAME, f"The column '{name}' is given twice.")
            else:
                found[name] = at
        for name in NEEDED:
            if name not in found:
                self._fault(name, Fault.BAD_VALUE, f"The column '{name}' is missing.")
        return found

    # -- the Standard Workload Format --------------------------------------------------------------------------------

    def _read_swf(self, lines: Iterator[str]) -> None:
        for line in lines:
            self._line += 1
            parts = line.split()
            if not parts or parts[0].startswith(";"):
                continue
            if not self._count_row():
                return
            if len(parts) != SWF_FIELDS:
                self._fault("", Fault.BAD_VALUE, f"The line has {len(parts)} fields; a job has {SWF_FIELDS}.")
                continue
            # −1 means "not known" in this format.
            row = {name: parts[at] for name, at in _SWF.items() if parts[at] != "-1"}
            allocated = row.pop("allocated", "")
            row.setdefault("gpus", allocated)
            team = parts[SWF_TEAM_FIELDS[self._options.team_field]]
            if team != "-1":
                row["team"] = team
            if parts[_SWF_PRECEDING_JOB] != "-1":
                self._followers += 1
            row = {name: row.get(name, "") for name in NEEDED} | row
            if self._options.skips_unusable and not self._is_usable(row):
                self._skipped += 1
                continue
            self._add(row)

    def _is_usable(self, row: Mapping[str, str]) -> bool:
        """Whether a job ran, had processors and has a team; archives hold jobs that were cancelled before they ran."""
        has_run = row["duration_s"] not in {"", "0"} and row["gpus"] not in {"", "0"}
        return has_run and bool(row["team"] or self._options.team)

    # -- one job -----------------------------------------------------------------------------------------------------

    def _count_row(self) -> bool:
        """Count one data row; False when there are too many."""
        self._row += 1
        if self._row > MAX_JOBS:
            self._fault("", Fault.BAD_VALUE, f"The trace has more than {MAX_JOBS} jobs; give a shorter one.")
            return False
        return True

    def _add(self, row: Mapping[str, str]) -> None:
        """Add the job of a row, or note all its faults."""
        before = self.faults.count
        submit = self._submit_time(row)
        duration = self._value(row, "duration_s", values.span, values.A_SPAN)
        gpus = self._value(row, "gpus", values.gpus, f"a whole number of GPUs from 1 to {values.MAX_GPUS:,}")
        team = self._team(row)
        limit, checkpoint = (
            self._value(row, name, values.span, values.A_SPAN) if row.get(name) else None
            for name in ("limit_s", "checkpoint_s")
        )
        priority = self._value(row, "priority", _priority, "HIGH, NORMAL or LOW") if row.get("priority") else None
        name, user = self._word(row, "name"), self._word(row, "user")
        if self.faults.count > before or submit is None or duration is None or gpus is None:
            return
        self._jobs.add(
            self._row, submit, duration, gpus, team, priority=priority, limit=limit, name=name, user=user,
            checkpoint=checkpoint,
        )  # fmt: skip

    def _value(self, row: Mapping[str, str], column: str, read: Callable[[str], T | None], what: str) -> T | None:
        text = row.get(column)
        if text is None:
            return None  # The header lacks the column, which is a fault already.
        value = read(text)
        if value is None:
            where = f" ({_SWF_WHERE[column]})" if self._is_swf and column in _SWF_WHERE else ""
            missing = f"The value{where} is missing; give {what}"
            if where and column in {"duration_s", "gpus"}:
                missing += ", or leave such jobs out with --skip-unusable"
            message = f"The value{where} is not {what}." if text else f"{missing}."
            self._fault(column, Fault.BAD_VALUE, message)
        return value

    def _submit_time(self, row: Mapping[str, str]) -> int | None:
        text = row.get("submit_time")
        if text is None:
            return None
        seconds, dated = values.microseconds(text), values.moment(text)
        if seconds is not None and seconds < 0:
            self._fault("submit_time", Fault.BAD_VALUE, "The time is before 0; seconds begin at 0.")
            return None
        value = dated if seconds is None else seconds
        if value is None:
            what = f"a time: write 2026-11-20T15:04:05, or a number of seconds from 0 to {values.MAX_SECONDS:,}"
            message = f"The value is not {what}." if text else f"The value is missing; give {what}."
            self._fault("submit_time", Fault.BAD_VALUE, message)
            return None
        is_dated = seconds is None
        if self._is_dated is None:
            self._is_dated = is_dated
        if self._is_dated != is_dated:
            here, there = ("a date", "seconds") if is_dated else ("seconds", "dates")
            self._fault("submit_time", Fault.BAD_VALUE, f"The value is {here}; the rows before it have {there}.")
            return None
        return value

    def _team(self, row: Mapping[str, str]) -> str:
        team = self._word(row, "team")
        if not team and self._options.team is not None:
            team = self._options.team
        if not team:
            if "team" in row:
                self._fault("team", Fault.BAD_VALUE, self._missing_team())
        elif self._teams is not None and team not in self._teams:
            message = "The team is not a queue that may run work in the cluster file."
            self._fault("team", Fault.UNKNOWN_NAME, message)
        return team

    def _missing_team(self) -> str:
        if not self._is_swf:
            return "The value is missing; give the name of a queue, or --team NAME for jobs without one."
        field = SWF_TEAM_FIELDS[self._options.team_field] + 1
        return (
            f"Field {field} (the {self._options.team_field}), which is the team, is not known. Choose another field "
            "with --team-field group or partition, give --team NAME for jobs without one, or leave them out with "
            "--skip-unusable."
        )

    def _word(self, row: Mapping[str, str], column: str) -> str:
        text = text_of_cell(row.get(column, ""))
        if len(text) > MAX_WORD:
            self._fault(
                column, Fault.BAD_VALUE, f"The text has {len(text)} characters; at most {MAX_WORD} are allowed."
            )
        return text

    def _fault(self, path: str, code: Fault, message: str) -> None:
        self.faults.add(self._line, path, code, message)


def _priority(text: str) -> Priority | None:
    return Priority(text) if text in Priority.__members__ else None


def _list(names: Collection[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}"
