"""The Standard Workload Format as archives have it: −1 for what is not known, more columns, headers that are wrong.

https://www.cs.huji.ac.il/labs/parallel/workload/swf.html has the fields. Nothing is read from the header: comments only
serve to say where the file disagrees with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from scheduling.history.traces.forms.found_job import FormNotes, FormOptions, LeftOut, Tell

FIELDS: Final = 18
TEAM_FIELDS: Final = {"queue": 14, "group": 12, "partition": 15, "user": 11}
"""The index of each field that may be the team."""
WHERE: Final = {
    "submit_time": "field 2", "duration_s": "field 4", "gpus": "fields 8 and 5", "limit_s": "field 9",
    "user": "field 12",
}  # fmt: skip
_READ: Final = {"submit_time": 1, "wait_s": 2, "duration_s": 3, "allocated": 4, "gpus": 7, "limit_s": 8, "user": 11}
_ALWAYS: Final = ("submit_time", "duration_s", "gpus", "team")
_PRECEDING_JOB: Final = 16
_UNKNOWN: Final = re.compile(r"-1(?:\.0*)?", re.ASCII)
_NOTHING: Final = re.compile(r"0*(?:\.0*)?", re.ASCII)
_HEADER: Final = re.compile(r";\s*(?:MaxJobs|MaxRecords)\s*:\s*(\d{1,12})\s*$", re.ASCII | re.IGNORECASE)
_FOLLOWS: Final = (
    "{jobs} {follow} another job (fields 17 and 18). Each is submitted at its own time of the trace, not when the "
    "other job has ended, so the replay is not bound by these dependencies."
)
_LONGER: Final = f"{{lines}} {{have}} more than {FIELDS} fields. The others are not read."


class SwfReader:
    """Reads one file. `line` is that of the row that was read last."""

    def __init__(self, options: FormOptions, tell: Tell, notes: FormNotes, *, has_team: bool) -> None:
        """`has_team`: jobs without a team have one from the command line."""
        self._options, self._tell, self._notes, self._has_team = options, tell, notes, has_team
        self._team_field = options.team_from or "queue"
        self.line = 0
        self._announced: int | None = None

    def read(self, lines: Iterator[str]) -> Iterator[Mapping[str, str]]:
        """The values of each job by the columns of a trace; a value that is not known is empty, or missing where a
        trace may leave it out. Rows that are left out come as an empty map."""
        rows = 0
        for line in lines:
            self.line += 1
            parts = line.split()
            if not parts or parts[0].startswith((";", "#")):
                if match := _HEADER.match(line):
                    self._announced = int(match[1])
                continue
            rows += 1
            yield self._row(parts)
        if self._announced is not None and self._announced != rows:
            self._notes.remarks[f"The header announces {self._announced:,} jobs; the file has {rows:,}."] = 0

    def _row(self, parts: list[str]) -> Mapping[str, str]:
        self._notes.jobs += 1
        if len(parts) < FIELDS:
            self._tell(self.line, "", f"The line has {len(parts)} fields; a job has {FIELDS}.")
            return {}
        if len(parts) > FIELDS:
            self._notes.remark(_LONGER)
        row = {name: parts[at] for name, at in _READ.items() if not _UNKNOWN.fullmatch(parts[at])}
        allocated = row.pop("allocated", "")
        row.setdefault("gpus", allocated)
        team = parts[TEAM_FIELDS[self._team_field]]
        if not _UNKNOWN.fullmatch(team):
            row["team"] = team
        if not _UNKNOWN.fullmatch(parts[_PRECEDING_JOB]):
            self._notes.remark(_FOLLOWS)
        row = {**dict.fromkeys(_ALWAYS, ""), **row}
        if self._options.skips_unusable and not self._is_usable(row):
            self._notes.leave_out(LeftOut.UNUSABLE, self.line)
            return {}
        return row

    def _is_usable(self, row: Mapping[str, str]) -> bool:
        """Whether a job ran, had processors and has a team; archives hold jobs that were cancelled before they ran."""
        has_run = not any(_NOTHING.fullmatch(row[key]) for key in ("duration_s", "gpus"))
        return has_run and bool(row["team"] or self._has_team)
