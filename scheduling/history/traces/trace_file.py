"""Jobs → the text of a trace file, in the forms that :mod:`scheduling.history.traces.trace` reads."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from io import StringIO

from pools.domain.values.spreadsheet_cells import plain_cell
from scheduling.domain.priorities import Priority
from scheduling.history.replay.jobs import BETWEEN_FLAVORS

FLAVOR = "flavor"
COLUMNS = ("submit_time", "duration_s", "gpus", "team", "name", "user", "priority", "limit_s", "checkpoint_s")
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class TraceJob:
    """Work that has ended. `submit` is naive UTC; times are seconds. `flavors` are those that it may use, the preferred
    one first; none in a pool without flavors."""

    submit: datetime
    duration: float
    gpus: int
    team: str
    name: str
    user: str
    priority: Priority
    limit: float | None
    checkpoint: float | None = None
    flavors: tuple[str, ...] = ()


def csv_trace(jobs: Sequence[TraceJob]) -> str:
    """The trace as CSV with a header, and with a column of flavors where a job has some.

    A name that a spreadsheet would run as a formula begins with an apostrophe."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    has_flavors = any(job.flavors for job in jobs)
    writer.writerow((*COLUMNS, FLAVOR) if has_flavors else COLUMNS)
    for job in jobs:
        limit, checkpoint = ("" if each is None else _seconds(each) for each in (job.limit, job.checkpoint))
        writer.writerow(
            (
                job.submit.isoformat(),
                _seconds(job.duration),
                job.gpus,
                plain_cell(job.team),
                plain_cell(job.name),
                plain_cell(job.user),
                job.priority,
                limit,
                checkpoint,
                *([plain_cell(BETWEEN_FLAVORS.join(job.flavors))] if has_flavors else ()),
            )
        )
    return text.getvalue()


def swf_trace(jobs: Sequence[TraceJob]) -> str:
    """The trace in the Standard Workload Format. Its numbers of queues, users and programs are explained in comments;
    times are whole seconds, rounded up."""
    first = min((job.submit for job in jobs), default=_EPOCH)
    queues, users = _numbers(job.team for job in jobs), _numbers(job.user for job in jobs)
    names = _numbers(job.name for job in jobs)
    lines = ["; Version: 2.2", f"; UnixStartTime: {int((first - _EPOCH).total_seconds())}", f"; MaxJobs: {len(jobs)}"]
    lines += [f"; Queue: {number} {name}" for name, number in queues.items()]
    lines += [f"; User: {number} {name}" for name, number in users.items()]
    for number, job in enumerate(jobs, 1):
        limit = -1 if job.limit is None else math.ceil(job.limit)
        submit = int((job.submit - first).total_seconds())
        run = max(1, math.ceil(job.duration))
        fields = (
            number, submit, -1, run, job.gpus, -1, -1, job.gpus, limit, -1, -1, users[job.user], -1, names[job.name],
            queues[job.team], -1, -1, -1,
        )  # fmt: skip
        lines.append(" ".join(str(field) for field in fields))
    return "\n".join(lines) + "\n"


def _numbers(words: Iterable[str]) -> dict[str, int]:
    return {word: number for number, word in enumerate(dict.fromkeys(words), 1)}


def _seconds(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")
