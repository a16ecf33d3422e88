"""The jobs of a trace. Times are whole microseconds, so that equal times are equal and instants have an exact order."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from pools.domain.values.amounts import Number
from scheduling.domain.priorities import Priority

BETWEEN_FLAVORS = "|"
SECOND = 1_000_000
"""Microseconds of a second."""


def seconds(microseconds: int) -> Number:
    """The exact number of seconds."""
    whole, rest = divmod(microseconds, SECOND)
    return whole if not rest else Fraction(microseconds, SECOND)


@dataclass(frozen=True, slots=True)
class Job:
    """One job. `id`: the number of its data row, from 1. `submit`: microseconds since the first submission of the
    trace. `duration`: how long it runs when nothing stops it. `limit`: the longest time of one attempt; None: no
    limit. `checkpoint`: microseconds of work between two checkpoints; None: those of the replay. `flavors`: the GPU
    flavors that it may use, the preferred one first; none: `default`."""

    id: int
    submit: int
    duration: int
    gpus: int
    team: str
    priority: Priority
    limit: int | None = None
    name: str = ""
    user: str = ""
    checkpoint: int | None = None
    flavors: tuple[str, ...] = ()


@dataclass(slots=True)
class JobTable:
    """Many jobs in little memory, in the order of their rows. Texts are kept once; `start` is the time that instant 0
    means, in microseconds on the clock of the trace."""

    default_priority: Priority = Priority.LOW
    start: int = 0
    _ids: array[int] = field(default_factory=lambda: array("q"))
    _submits: array[int] = field(default_factory=lambda: array("q"))
    _durations: array[int] = field(default_factory=lambda: array("q"))
    _gpus: array[int] = field(default_factory=lambda: array("q"))
    _limits: array[int] = field(default_factory=lambda: array("q"))
    _texts: tuple[array[int], array[int], array[int], array[int]] = field(
        default_factory=lambda: (array("l"), array("l"), array("l"), array("l"))
    )
    """Team, priority, name and user of each job, as indexes of `_words`."""
    _checkpoints: dict[int, int] = field(default_factory=dict)
    """Of the jobs that have their own, which in most traces is none."""
    _flavors: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Of the jobs that name some. Equal ones are one object."""
    _lists: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)
    _words: list[str] = field(default_factory=list)
    _index: dict[str, int] = field(default_factory=dict)
    _order: array[int] | None = None

    def __len__(self) -> int:
        return len(self._ids)

    def add(
        self,
        row: int,
        submit: int,
        duration: int,
        gpus: int,
        team: str,
        *,
        priority: Priority | None = None,
        limit: int | None = None,
        name: str = "",
        user: str = "",
        checkpoint: int | None = None,
        flavors: tuple[str, ...] = (),
    ) -> None:
        """Add the job of a row; `submit` is on the clock of the trace."""
        if checkpoint is not None:
            self._checkpoints[len(self)] = checkpoint
        if flavors:
            self._flavors[len(self)] = self._lists.setdefault(flavors, flavors)
        self._ids.append(row)
        self._submits.append(submit)
        self._durations.append(duration)
        self._gpus.append(gpus)
        self._limits.append(-1 if limit is None else limit)
        words = (team, (priority or self.default_priority).value, name, user)
        for column, word in zip(self._texts, words, strict=True):
            index = self._index.setdefault(word, len(self._words))
            if index == len(self._words):
                self._words.append(word)
            column.append(index)
        self._order = None

    def add_again(self, job: Job, submit: int) -> None:
        """Add a job of another table; `submit` is on the clock of the trace."""
        self.add(
            job.id, submit, job.duration, job.gpus, job.team, priority=job.priority, limit=job.limit, name=job.name,
            user=job.user, checkpoint=job.checkpoint, flavors=job.flavors,
        )  # fmt: skip

    def sort(self) -> None:
        """Sort by time of submission, then by row, and set the clock to 0 at the first one."""
        self._order = array("l", sorted(range(len(self)), key=lambda i: (self._submits[i], self._ids[i])))
        self.start = self._submits[self._order[0]] if self._order else 0

    def between(self, since: int | None, until: int | None) -> JobTable:
        """The jobs that were submitted from `since` on and before `until`, with their rows' numbers."""
        chosen = JobTable(self.default_priority)
        for i, submit in enumerate(self._submits):
            if (since is None or submit >= since) and (until is None or submit < until):
                chosen.add_again(self._job(i), submit)
        return chosen

    def __iter__(self) -> Iterator[Job]:
        """The jobs in the order of their submission."""
        if self._order is None:
            self.sort()
        for i in self._order or ():
            yield self._job(i)

    def _job(self, i: int) -> Job:
        team, priority, name, user = (self._words[column[i]] for column in self._texts)
        limit = self._limits[i]
        return Job(
            self._ids[i], self._submits[i] - self.start, self._durations[i], self._gpus[i], team, Priority(priority),
            None if limit < 0 else limit, name, user, self._checkpoints.get(i), self._flavors.get(i, ()),
        )  # fmt: skip
