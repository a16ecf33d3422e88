"""What a history knows of each job besides its work: when it started and ended, how often it was stopped, and where."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

from scheduling.history.traces.forms.found_job import FoundJob

_NAMES = ("started", "ended", "stops", "held", "line")


@dataclass(frozen=True, slots=True)
class JobRecord:
    """Of one job: its first start and last end (microseconds on the clock of the trace), how often the cluster took its
    place away, the time of all its runs, the line of its last record, its QOS or priority class, its nodes as written,
    and the begin and the end of each run before the last."""

    started: int
    ended: int
    stops: int
    held: int
    line: int
    kind: str
    nodes: str
    earlier: tuple[tuple[int, int], ...] = ()

    def runs(self) -> Iterator[tuple[int, int]]:
        """The begin and the end of each run."""
        yield from self.earlier
        last = self.held - sum(end - begin for begin, end in self.earlier)
        yield self.ended - last, self.ended

    def held_since(self, begin: int) -> int:
        """The time of all its runs after an instant."""
        return sum(max(0, end - max(start, begin)) for start, end in self.runs())


def record_of(job: FoundJob) -> JobRecord:
    """What a reader found out about a job besides its work."""
    return JobRecord(job.started, job.ended, job.stops, job.held, job.line, job.kind, job.nodes, job.earlier)


@dataclass(slots=True)
class RecordTable:
    """Records by the number of the job, in little memory. All are added before the first is asked for."""

    _rows: array[int] = field(default_factory=lambda: array("q"))
    _numbers: dict[str, array[int]] = field(default_factory=lambda: {name: array("q") for name in _NAMES})
    _texts: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))
    _words: dict[str, str] = field(default_factory=dict)
    _earlier: dict[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """Of the few jobs that ran several times."""
    _order: array[int] | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: int, record: JobRecord) -> None:
        """Keep what the history knows of this job."""
        self._rows.append(row)
        for name, numbers in self._numbers.items():
            numbers.append(getattr(record, name))
        for kept, text in zip(self._texts, (record.kind, record.nodes), strict=True):
            kept.append(self._words.setdefault(text, text))
        if record.earlier:
            self._earlier[row] = record.earlier
        self._order = None

    def of(self, row: int) -> JobRecord:
        """The record of a job. Raises KeyError."""
        rows = self._rows
        if self._order is None:
            self._order = array("l", sorted(range(len(rows)), key=rows.__getitem__))
        at = bisect_left(self._order, row, key=rows.__getitem__)
        if at == len(self._order) or rows[self._order[at]] != row:
            raise KeyError(row)
        place = self._order[at]
        started, ended, stops, held, line = (self._numbers[name][place] for name in _NAMES)
        kind, nodes = (texts[place] for texts in self._texts)
        return JobRecord(started, ended, stops, held, line, kind, nodes, self._earlier.get(row, ()))
