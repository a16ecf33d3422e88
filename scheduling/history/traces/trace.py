"""A trace file → its jobs, or all its faults at once, each with its line (docs/replay.md).

CSV with a header (the columns of `NEEDED`, and those of `OPTIONAL` that it has), the Standard Workload Format (`.swf`),
the output of `sacct -P`, or a log of Kueue's or KAI's workloads; all of them also compressed with gzip. `forms` has the
readers of the formats of others. Line 1 of a CSV file is the header.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeVar

from pools.domain.errors import Fault
from pools.domain.values.spreadsheet_cells import text_of_cell
from scheduling.domain.priorities import Priority
from scheduling.history.replay.jobs import BETWEEN_FLAVORS, JobTable
from scheduling.history.traces import values
from scheduling.history.traces.faults import FileFaults
from scheduling.history.traces.forms.found_job import FormNotes, FormOptions, FoundJob
from scheduling.history.traces.forms.sacct import TEAM_COLUMNS as SACCT_TEAMS
from scheduling.history.traces.forms.sacct import SacctReader, is_sacct
from scheduling.history.traces.forms.snapshots import MAX_DOCUMENT
from scheduling.history.traces.forms.swf import TEAM_FIELDS as SWF_TEAM_FIELDS
from scheduling.history.traces.forms.swf import WHERE as SWF_WHERE
from scheduling.history.traces.forms.swf import SwfReader
from scheduling.history.traces.forms.workloads import TEAMS as WORKLOAD_TEAMS
from scheduling.history.traces.forms.workloads import WorkloadReader
from scheduling.history.traces.lines import MAX_LINE_BYTES, Source, is_json, read_lines
from scheduling.history.traces.records import JobRecord, RecordTable, record_of
from scheduling.history.traces.trace_file import FLAVOR
from scheduling.history.traces.unknown_teams import QUEUES_OF_A_CLUSTER, TeamWords, UnknownTeams

NEEDED = ("submit_time", "duration_s", "gpus", "team")
OPTIONAL = ("name", "user", "priority", "limit_s", "checkpoint_s", FLAVOR)
MAX_JOBS = 3_000_000
"""A file of more jobs is refused: its replay would need more than a GiB."""

TEAMS_FROM = {
    "CSV": (), "sacct": SACCT_TEAMS, "a log of workloads": WORKLOAD_TEAMS,
    "the Standard Workload Format": tuple(SWF_TEAM_FIELDS),
}  # fmt: skip
"""What may be the team, by the form of the file."""

NO_TEAMS = frozenset({"", "-1"})
"""What a trace has in place of a team: archives write −1 for what is not known."""

MAX_WORD = 256
"""Characters of a name, a user or a team."""
FlavorsOf = Callable[[str, str, str], tuple[str, ...]]
"""The flavors that a job of a history may use, by its queue, the kind of GPU of its record, and its nodes."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """How to read what a trace leaves open. `team`: the team of each job for which the trace has none; `team_from`:
    the column or the field that is the team, None for the first choice of the form; `skips_unusable`: whether jobs
    without a run time, GPUs or a team are left out and counted; `renames`: the queue for a team of another name;
    `priorities`: the priority for a QOS or a priority class; `keeps_records`: the recorded starts and ends are needed
    too. `flavors_of`: the GPU flavors of jobs of a history. `skips_unknown_teams`: whether jobs of teams that are no
    queue are left out and counted; `team_words`: what a team has to be."""

    team: str | None = None
    team_from: str | None = None
    skips_unusable: bool = False
    renames: Mapping[str, str] = field(default_factory=dict)
    priorities: Mapping[str, Priority] = field(default_factory=dict)
    keeps_records: bool = False
    flavors_of: FlavorsOf = lambda _team, _kind, _nodes: ()
    skips_unknown_teams: bool = False
    team_words: TeamWords = QUEUES_OF_A_CLUSTER


@dataclass(frozen=True, slots=True)
class Trace:
    """The jobs of a file. `is_dated`: its times are dates; otherwise they are seconds. `notes` say what was left
    out; `records` what the history knows of each job, where it was asked for."""

    jobs: JobTable
    is_dated: bool
    notes: tuple[str, ...] = ()
    records: RecordTable = field(default_factory=RecordTable)


class TraceReader:
    """Reads one file. `teams`: the queues that may run work; `flavors`: those of the nodes; None where they are not
    known."""

    def __init__(
        self,
        source: Source,
        *,
        teams: Collection[str] | None,
        flavors: Collection[str] | None = None,
        priority: Priority,
        options: TraceOptions = TraceOptions(),  # frozen
    ) -> None:
        self.faults = FileFaults(str(source))
        self._options = options
        self._notes = FormNotes()
        self._unknown = UnknownTeams(options.team_words)
        self._is_swf = is_swf(str(source))
        self._is_json = not self._is_swf and is_json(source)
        self._records = RecordTable()
        self._source, self._teams, self._flavors = source, teams, flavors
        self._jobs = JobTable(priority)
        self._is_dated: bool | None = None
        self._line = 0
        self._row = 0

    def read(self) -> Trace | None:
        """The trace; None if there is any fault."""
        longest = MAX_DOCUMENT if self._is_json else MAX_LINE_BYTES
        lines = read_lines(self._source, self.faults, longest=longest)
        begin: list[str] = []  # with the empty lines before the first one that says what the file is
        for text in lines:
            begin.append(text)
            if text.strip():
                break
        form, read = self._form(begin[-1] if begin else "")
        lines = chain(begin, lines)
        if self._check_options(form, is_empty=not any(map(str.strip, begin))):
            read(lines)
        if not self._options.skips_unknown_teams:
            for line, message in self._unknown.faults():
                self.faults.add(line, "team", Fault.UNKNOWN_NAME, message)
        notes = [*self._notes.sentences(), *self._unknown.sentences()]
        if not self.faults.count and not len(self._jobs):
            is_empty = not (self._row or self._notes.jobs)
            message = "The trace has no jobs." if is_empty else "The trace has no usable jobs."
            if is_empty and form == "sacct":
                message += " Its options -S and -E are the time that sacct writes, and -a is everybody."
            self._tell(self._line or None, "", " ".join([message, *notes]))
        if self.faults.count:
            return None
        self._jobs.sort()
        return Trace(self._jobs, bool(self._is_dated), tuple(notes), self._records)

    def _form(self, first_line: str) -> tuple[str, Callable[[Iterator[str]], None]]:
        """What the file is, and its reader."""
        if self._is_swf:
            return "the Standard Workload Format", self._read_swf
        if self._is_json:
            return "a log of workloads", self._read_workloads
        if is_sacct(first_line):
            return "sacct", self._read_sacct
        return "CSV", self._read_csv

    def _check_options(self, form: str, *, is_empty: bool) -> bool:
        """Whether the options are for this form; otherwise there is a fault."""
        options, choices = self._options, TEAMS_FROM[form]
        if options.team_from is not None and options.team_from not in choices:
            which = f"it has {', '.join(choices)}" if choices else "its column team is the team"
            self._tell(None, "--team-from", f"The file is in the form of {form}: {which}.")
        if options.skips_unusable and not choices:
            self._tell(None, "--skip-unusable", "A file in CSV is made for a replay, so nothing of it is left out.")
        if options.skips_unknown_teams and not choices:
            self._tell(
                None, "--skip-unknown-teams", "A file in CSV is made for a replay, so nothing of it is left out."
            )
        if options.keeps_records and not choices and not self.faults.count:
            why = "The file is empty" if is_empty else "The file has no recorded starts to compare with"
            self._tell(None, "", f"{why}: give the output of sacct, .swf or a log of workloads.")
        return not self.faults.count

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

    # -- forms of others ---------------------------------------------------------------------------------------------

    def _form_options(self) -> FormOptions:
        options = self._options
        return FormOptions(options.team_from, options.skips_unusable, options.keeps_records)

    def _tell(self, line: int | None, column: str, message: str) -> None:
        self.faults.add(line, column, Fault.BAD_VALUE, message)

    def _read_swf(self, lines: Iterator[str]) -> None:
        has_team = self._options.team is not None
        reader = SwfReader(self._form_options(), self._tell, self._notes, has_team=has_team)
        for row in reader.read(lines):
            self._line = reader.line
            if not self._count_row():
                return
            if row:
                self._add(row)

    def _read_sacct(self, lines: Iterator[str]) -> None:
        has_team = self._options.team is not None
        reader = SacctReader(self._form_options(), self._tell, self._notes, most=MAX_JOBS, has_team=has_team)
        self._take(reader.read(lines))

    def _read_workloads(self, lines: Iterator[str]) -> None:
        has_team = self._options.team is not None
        reader = WorkloadReader(self._form_options(), self._tell, self._notes, has_team=has_team)
        self._take(reader.read(lines))

    def _take(self, found: Iterator[FoundJob]) -> None:
        """Add jobs that a reader has found."""
        self._is_dated = True
        for job in found:
            self._line = job.line
            words = {"team": job.team or self._options.team or "", "name": job.name, "user": job.user}
            before = self.faults.count
            texts = {column: self._word(words, column) for column in words}
            team = self._options.renames.get(texts["team"], texts["team"])
            if self.faults.count > before:
                continue
            if self._teams is not None and team not in self._teams:
                self._unknown.see(team, job.line, job.gpus * job.duration)
                continue
            self._jobs.add(
                job.row, job.submit, job.duration, job.gpus, team, priority=self._options.priorities.get(job.kind),
                limit=job.limit, name=job.name, user=job.user,
                flavors=self._options.flavors_of(team, job.gpu_kind, job.nodes),
            )  # fmt: skip
            if self._options.keeps_records:
                self._records.add(job.row, record_of(job))

    # -- one job -----------------------------------------------------------------------------------------------------

    def _count_row(self) -> bool:
        """Count one data row; False when there are too many."""
        self._row += 1
        if self._row > MAX_JOBS:
            self._fault("", Fault.BAD_VALUE, f"The trace has more than {MAX_JOBS:,} jobs; give a shorter one.")
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
        name, user, flavors = self._word(row, "name"), self._word(row, "user"), self._flavors_of(row)
        if self.faults.count > before or submit is None or duration is None or gpus is None:
            return
        if self._is_swf and self._teams is not None and team not in self._teams:
            self._unknown.see(team, self._line, gpus * duration)
            return
        if self._options.keeps_records:
            wait = values.microseconds(row.get("wait_s", ""))
            if wait is None or wait < 0:
                self._fault(
                    "wait_s", Fault.BAD_VALUE, "The wait (field 3) is not known, so there is nothing to compare."
                )
                return
            started = submit + wait
            self._records.add(self._row, JobRecord(started, started + duration, 0, duration, self._line, "", ""))
        self._jobs.add(
            self._row, submit, duration, gpus, team, priority=priority, limit=limit, name=name, user=user,
            checkpoint=checkpoint, flavors=flavors or (self._options.flavors_of(team, "", "") if self._is_swf else ()),
        )  # fmt: skip

    def _value(self, row: Mapping[str, str], column: str, read: Callable[[str], T | None], what: str) -> T | None:
        text = row.get(column)
        if text is None:
            return None  # The header lacks the column, which is a fault already.
        value = read(text)
        if value is None:
            where = f" ({SWF_WHERE[column]})" if self._is_swf and column in SWF_WHERE else ""
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
        if team in NO_TEAMS:
            team = self._options.team or ""
        team = self._options.renames.get(team, team)
        if not team:
            if "team" in row:
                self._fault("team", Fault.BAD_VALUE, self._missing_team())
        elif self._teams is not None and team not in self._teams and not self._is_swf:
            message = "The team is not a queue that may run work in the cluster file."
            self._fault("team", Fault.UNKNOWN_NAME, message)
        return team

    def _missing_team(self) -> str:
        if not self._is_swf:
            return "The value is missing; give the name of a queue, or --team NAME for jobs without one."
        name = self._options.team_from or "queue"
        return (
            f"Field {SWF_TEAM_FIELDS[name] + 1} (the {name}), which is the team, is not known. Choose another field "
            "with --team-from group, user or partition, give --team NAME for jobs without one, or leave them out with "
            "--skip-unusable."
        )

    def _flavors_of(self, row: Mapping[str, str]) -> tuple[str, ...]:
        text = self._word(row, FLAVOR)
        names = text.split(BETWEEN_FLAVORS) if text else []
        if len(set(names)) < len(names) or not all(names):
            self._fault(FLAVOR, Fault.BAD_VALUE, "The value is not a list of flavors: write h100, or h100|a100.")
        elif self._flavors is not None and set(names) - set(self._flavors):
            self._fault(FLAVOR, Fault.UNKNOWN_NAME, "A flavor is not one of the nodes in the cluster file.")
        return tuple(names)

    def _word(self, row: Mapping[str, str], column: str) -> str:
        text = text_of_cell(row.get(column, ""))
        if len(text) > MAX_WORD:
            self._fault(
                column, Fault.BAD_VALUE, f"The text has {len(text)} characters; at most {MAX_WORD} are allowed."
            )
        return text

    def _fault(self, path: str, code: Fault, message: str) -> None:
        self.faults.add(self._line, path, code, message)


def is_swf(source: str) -> bool:
    """Whether a file is in the Standard Workload Format, by its name."""
    return source.lower().removesuffix(".gz").endswith(".swf")


def _priority(text: str) -> Priority | None:
    return Priority(text) if text in Priority.__members__ else None


def _list(names: Collection[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}"
