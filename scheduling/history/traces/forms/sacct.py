"""`sacct -P` as it is: the header names the columns, and one job may have steps, tasks of an array and several records.

A record is one run of a job on its nodes. A job that Slurm requeued has several records with one number (`sacct -D`
shows them all): they are the attempts of one job, which runs as long as its last record. Rows of steps are left out.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from pools.domain.values.scalars import whole_number
from scheduling.domain.slurm.jobs import JobFate, SlurmJobId, is_preempted, is_step, read_job_id, read_state
from scheduling.domain.slurm.resources import AllocatedGpus, read_gpus
from scheduling.domain.slurm.times import MICROSECONDS, NO_LIMITS, BadSlurmValue, read_moment, read_span
from scheduling.history.traces.forms.found_job import FormNotes, FormOptions, FoundJob, LeftOut, Tell, columns_of

TEAM_COLUMNS: Final = ("account", "user", "partition", "qos", "group")
_COLUMNS: Final = {
    "job": "JobID", "raw": "JobIDRaw", "name": "JobName", "user": "User", "group": "Group", "account": "Account",
    "partition": "Partition", "qos": "QOS", "cluster": "Cluster", "submit": "Submit", "eligible": "Eligible",
    "start": "Start", "end": "End", "elapsed": "Elapsed", "seconds": "ElapsedRaw", "limit": "Timelimit",
    "minutes": "TimelimitRaw", "state": "State", "allocated": "AllocTRES", "requested": "ReqTRES", "nodes": "NodeList",
}  # fmt: skip
_NEEDED: Final[tuple[tuple[str, ...], ...]] = (
    ("job", "raw"), ("submit",), ("start",), ("end", "elapsed", "seconds"), ("state",), ("allocated", "requested"),
)  # fmt: skip
_FREE_TEXTS: Final = frozenset(
    {"jobname", "comment", "admincomment", "systemcomment", "workdir", "submitline", "extra"}
)  # fmt: skip
ADVICE: Final = (
    "TZ=UTC sacct -a -X -D -P -S 2026-10-01 -E 2026-11-01 -o JobID,JobName,User,Account,Partition,QOS,Submit,Eligible,"
    "Start,End,ElapsedRaw,Timelimit,State,AllocTRES,ReqTRES,NodeList"
)
MARK: Final = "|"
_MARKS: Final = (MARK, "\t", ";", "^", "~", "#", "@", "!")
"""What may stand between the columns (`--delimiter`): marks that stand in no value of theirs."""
MAX_GPUS: Final = 10**15
_MIG: Final = "{lines} {have} parts of GPUs (MIG). Each part is counted as one GPU."
_HELD: Final = "{jobs} could not start before a time or another job (Eligible). Each is submitted at that time."
_NO_TEAM: Final = "is missing, so the job has no team. Choose another column with --team-from, or give --team NAME"


def is_sacct(first_line: str) -> bool:
    """Whether the first line of a file is one of `sacct -P`, with a header or without, or a header of `sacct` with
    other marks between its columns."""
    return first_line.count(MARK) >= 3 or find_mark(first_line) != "" or _is_table(first_line)


def find_mark(header: str) -> str:
    """What stands between the columns of a header of `sacct`; empty for none that can be read."""
    return next((mark for mark in _MARKS if _is_header(header.split(mark))), "")


def _is_table(header: str) -> bool:
    """Whether this is a header whose columns are separated by spaces or by commas, which also stand in values."""
    return _is_header(header.split()) or _is_header(header.split(","))


def _is_header(names: Sequence[str]) -> bool:
    words = {name.strip().lower() for name in names}
    return "state" in words and bool(words & {"jobid", "jobidraw"})


@dataclass(slots=True)
class _Words:
    """Texts that many rows share, each kept once."""

    words: list[str] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)

    def place(self, word: str) -> int:
        found = self.places.setdefault(word, len(self.words))
        if found == len(self.words):
            self.words.append(word)
        return found


_NUMBERS: Final = (
    "row", "line", "submit", "start", "end", "duration", "limit", "gpus", "is_open", "is_preempted", "tasks",
    "is_held",
)  # fmt: skip
_TEXTS: Final = ("team", "name", "user", "kind", "nodes", "gpu_kind")
_UNKNOWN: Final = -(2**62)
_LONGEST_SECONDS: Final = 12


class SacctReader:
    """Reads one file. Memory grows with the records, not with their texts."""

    def __init__(self, options: FormOptions, tell: Tell, notes: FormNotes, *, most: int, has_team: bool) -> None:
        """`has_team`: jobs without a team have one from the command line; `most`: the largest number of records."""
        self._options, self._tell, self._notes = options, tell, notes
        self._most, self._has_team = most, has_team
        self._team_column = options.team_from or TEAM_COLUMNS[0]
        self._keys: array[int] = array("Q")
        self._numbers = {name: array("q") for name in _NUMBERS}
        self._texts = {name: array("l") for name in _TEXTS}
        self._words = _Words()
        self._clusters: set[str] = set()
        self._row = self._line = self._width = 0
        self._mark = MARK

    def read(self, lines: Iterator[str]) -> Iterator[FoundJob]:
        """The jobs, in no certain order."""
        numbered = enumerate(lines, 1)
        first, header = next(((number, text) for number, text in numbered if text.strip()), (1, ""))
        at = self._header(first, header)
        if at is None:
            return
        columns, free = at
        for number, text in numbered:
            if text.strip() and text.strip() != header.strip():  # files that were written one after the other
                self._line = number
                if self._row >= self._most:
                    self._tell(number, "", f"The file has more than {self._most:,} records; give a shorter time.")
                    return
                self._read_row(text.rstrip("\r\n"), columns, free)
        yield from self._jobs()

    def _header(self, line: int, text: str) -> tuple[Mapping[str, int], tuple[int, int] | None] | None:
        """The places of the columns, and (number of columns, place of the only free text)."""
        self._mark = find_mark(text) or MARK
        if self._mark == MARK and text.count(MARK) < 3:
            message = f"The columns are separated by spaces or commas, which also stand in values. Write: {ADVICE}"
            self._tell(line, "", message)
            return None
        names = text.rstrip("\r\n").split(self._mark)
        if names[-1] == "":
            names.pop()
        places = {name.strip().lower(): at for at, name in enumerate(names)}
        columns = columns_of(places, _COLUMNS)
        if not columns.keys() & {"job", "raw", "state"}:
            self._tell(
                line, "", f"The first line has no header of sacct (do not use -n). Write the file with: {ADVICE}"
            )
            return None
        if len(places) < len(names):
            self._tell(line, "", "The header names a column twice.")
            return None
        missing = [options for options in _NEEDED if not columns.keys() & set(options)]
        for options in missing:
            named = " or ".join(_COLUMNS[key] for key in options)
            self._tell(line, _COLUMNS[options[0]], f"The column {named} is missing. Write the file with: {ADVICE}")
        if self._team_column not in columns and not self._has_team:
            name = _COLUMNS.get(self._team_column, self._team_column)
            choices = ", ".join(key for key in TEAM_COLUMNS if key in columns) or "none"
            message = f"The column {name}, which is the team, is missing. Choose one with --team-from: {choices}."
            self._tell(line, name, message)
            missing.append(())
        free = [at for name, at in places.items() if name in _FREE_TEXTS]
        self._width = len(names)
        return None if missing else (columns, (len(names), free[0]) if len(free) == 1 else None)

    def _parts(self, text: str, free: tuple[int, int] | None) -> list[str] | None:
        """The values of a row; the name of a job may contain the separator."""
        parts = text.split(self._mark)
        if len(parts) == self._width + 1 and parts[-1] == "":
            parts.pop()
        if len(parts) > self._width and free is not None:
            more, place = len(parts) - self._width, free[1]
            parts[place : place + more + 1] = [self._mark.join(parts[place : place + more + 1])]
        return parts if len(parts) == self._width else None

    def _read_row(self, text: str, columns: Mapping[str, int], free: tuple[int, int] | None) -> None:
        parts = self._parts(text, free)
        if parts is None:
            self._row += 1
            count = text.count(self._mark) + 1
            self._unusable("", f"The line has {count} values; the header has {self._width} columns.")
            return
        values = {key: parts[at].strip() for key, at in columns.items()}
        number = values.get("job") or values.get("raw", "")
        if is_step(number):
            return
        self._row += 1
        try:
            self._read_record(number, values)
        except _BadColumn as fault:
            self._unusable(fault.column, f"The value {fault.message}.")

    def _unusable(self, column: str, message: str) -> None:
        if self._options.skips_unusable:
            self._notes.jobs += 1
            self._notes.leave_out(LeftOut.UNUSABLE, self._line)
        else:
            self._tell(self._line, column, message)

    def _read_record(self, number: str, values: Mapping[str, str]) -> None:
        with _Column("JobID"):
            job = read_job_id(number)
        with _Column("State"):
            fate = read_state(values["state"])
        if "cluster" in values:
            self._clusters.add(values["cluster"])
            if len(self._clusters) > 1:
                message = "is another cluster than before. Give the jobs of one cluster: sacct -M NAME"
                raise _BadColumn("Cluster", message)
        times = {}
        for key in ("submit", "eligible", "start", "end"):
            with _Column(_COLUMNS[key]):
                times[key] = read_moment(values.get(key, ""))
        duration = self._duration(values, times)
        if times["start"] is None or duration is None or (duration == 0 and fate is JobFate.OPEN):
            if duration:
                raise _BadColumn("Start", "is unknown, although the record has a run time")
            self._keep(job, fate, values, times, None, AllocatedGpus())
            return
        if job.tasks > 1:
            raise _BadColumn("JobID", "is a row of several tasks with one run time")
        if times["submit"] is None:
            raise _BadColumn("Submit", "is unknown")
        if times["start"] < times["submit"]:
            raise _BadColumn("Start", "is before Submit, so the wait is negative")
        self._keep(job, fate, values, times, duration, self._gpus(values))

    def _duration(self, values: Mapping[str, str], times: Mapping[str, int | None]) -> int | None:
        """Microseconds; None if it is unknown. The clock of a record may be set back in between, so the elapsed time
        counts before the difference of the times."""
        start, end = times["start"], times["end"]
        text = values.get("seconds", "")
        if text:
            found = whole_number(text) if len(text) <= _LONGEST_SECONDS else None
            if found is None:
                raise _BadColumn("ElapsedRaw", "is not a whole number of seconds")
        elif values.get("elapsed"):
            with _Column("Elapsed"):
                seconds = read_span(values["elapsed"])
            if seconds is None:
                return None
            found = seconds
        elif start is None or end is None:
            return None
        else:
            found = (end - start) // MICROSECONDS
        if found < 0:
            raise _BadColumn("ElapsedRaw" if text else "End", "is a negative time: the job ends before it starts")
        return found * MICROSECONDS

    def _gpus(self, values: Mapping[str, str]) -> AllocatedGpus:
        """The GPUs that the job had; those that it requested, where Slurm did not keep what it had."""
        for key in ("allocated", "requested"):
            with _Column(_COLUMNS[key]):
                found = read_gpus(values.get(key, ""))
            if found.are_parts:
                self._notes.remark(_MIG)
            if found.gpus > MAX_GPUS:
                raise _BadColumn(_COLUMNS[key], f"has more than {MAX_GPUS:,} GPUs")
            if found.is_counted or (key == "allocated" and values.get(key)):
                return found
        return AllocatedGpus()

    def _limit(self, values: Mapping[str, str]) -> int:
        if "limit" in values:
            with _Column("Timelimit"):
                seconds = read_span(values["limit"])
            return _UNKNOWN if seconds is None else seconds * MICROSECONDS
        minutes = values.get("minutes", "")
        if minutes.lower() in NO_LIMITS:
            return _UNKNOWN
        found = whole_number(minutes) if len(minutes) < _LONGEST_SECONDS - 1 else None
        if found is None or found < 0:
            raise _BadColumn("TimelimitRaw", "is not a whole number of minutes")
        return found * 60 * MICROSECONDS

    def _keep(
        self, job: SlurmJobId, fate: JobFate, values: Mapping[str, str], times: Mapping[str, int | None],
        duration: int | None, gpus: AllocatedGpus,
    ) -> None:  # fmt: skip
        """Keep a record; one without a run time says only that its job is open, or that it did not go on."""
        submit, eligible, start = times["submit"], times["eligible"], times["start"]
        is_known = duration is not None and submit is not None and eligible is not None and start is not None
        is_held = is_known and submit < eligible <= start  # type: ignore[operator]
        if is_held:
            submit = eligible
        numbers = {
            "row": self._row, "line": self._line, "submit": _UNKNOWN if submit is None else submit,
            "start": _UNKNOWN if start is None else start,
            "end": _UNKNOWN if start is None else start + (duration or 0),
            "duration": -1 if duration is None else duration, "limit": self._limit(values), "gpus": gpus.gpus,
            "is_open": fate is JobFate.OPEN, "is_preempted": is_preempted(values["state"]), "tasks": job.tasks,
            "is_held": is_held,
        }  # fmt: skip
        texts = {
            "team": values.get(self._team_column, ""), "name": values.get("name", ""), "user": values.get("user", ""),
            "kind": values.get("qos", ""), "nodes": values.get("nodes", "") if self._options.keeps_nodes else "",
            "gpu_kind": gpus.kind,
        }  # fmt: skip
        self._keys.append(job.key)
        for name, number in numbers.items():
            self._numbers[name].append(number)
        for name, text in texts.items():
            self._texts[name].append(self._words.place(text))

    def _jobs(self) -> Iterator[FoundJob]:
        starts = self._numbers["start"]
        order = array("l", sorted(range(len(self._keys)), key=self._keys.__getitem__))
        for _key, records in groupby(order, key=self._keys.__getitem__):
            found = self._job(sorted(records, key=starts.__getitem__))
            if found is not None:
                yield found

    def _job(self, records: Sequence[int]) -> FoundJob | None:
        """One job from its records, in the order of their starts; None if it is left out."""
        numbers = self._numbers
        ran = [at for at in records if numbers["duration"][at] >= 0]
        last = (ran or records)[-1]
        line, tasks = numbers["line"][last], numbers["tasks"][last]
        is_open = any(numbers["is_open"][at] for at in records)
        if is_open or not ran:
            self._notes.jobs += tasks
            self._notes.leave_out(LeftOut.OPEN if is_open else LeftOut.NEVER_RAN, line, tasks)
            return None
        gpus = numbers["gpus"][last]
        team = self._text("team", last)
        if gpus and not team and not self._has_team:
            self._line = line
            self._unusable(_COLUMNS.get(self._team_column, self._team_column), f"The value {_NO_TEAM}.")
            return None
        self._notes.jobs += 1
        duration = numbers["duration"][last] or max(numbers["duration"][at] for at in ran)
        if not gpus or not duration:
            self._notes.leave_out(LeftOut.ZERO_TIME if gpus else LeftOut.NO_GPUS, line)
            return None
        limit = numbers["limit"][last]
        first = min(ran, key=numbers["submit"].__getitem__)
        if numbers["is_held"][first]:
            self._notes.remark(_HELD)
        return FoundJob(
            min(numbers["row"][at] for at in records), line, numbers["submit"][first], duration, gpus,
            team, numbers["start"][ran[0]], numbers["end"][last], self._text("name", last), self._text("user", last),
            self._text("kind", last), None if limit <= 0 else max(limit, duration),
            len(ran) - 1 + numbers["is_preempted"][last],  # one that was not requeued, or did not run again
            sum(numbers["duration"][at] for at in ran), self._text("nodes", last), self._text("gpu_kind", last),
            tuple((starts, ends) for at in ran[:-1] if (starts := numbers["start"][at]) < (ends := numbers["end"][at])),
        )  # fmt: skip

    def _text(self, name: str, at: int) -> str:
        return self._words.words[self._texts[name][at]]


class _BadColumn(Exception):
    """A value of this column cannot be used."""

    def __init__(self, column: str, message: str) -> None:
        super().__init__(message)
        self.column, self.message = column, message


class _Column:
    """A value that cannot be read is a fault of this column."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, _type: object, problem: BaseException | None, _trace: object) -> None:
        if isinstance(problem, BadSlurmValue):
            raise _BadColumn(self._name, str(problem)) from None
