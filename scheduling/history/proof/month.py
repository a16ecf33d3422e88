"""The jobs of a proof: those of the month, and those that ran or waited when it began, which are its warm-up.

The warm-up takes part in the replay and is left out of the sums. What ran at the begin arrives when its last run began,
and what waited arrives at the begin; so both are there at the begin as they were.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from pools.domain.errors import Fault
from pools.domain.values.counting import counted
from scheduling.history.proof.jobs_file import moment_text
from scheduling.history.replay.jobs import SECOND, Job, JobTable
from scheduling.history.traces.faults import FileFaults
from scheduling.history.traces.run import time_bound
from scheduling.history.traces.trace import Trace


@dataclass(frozen=True, slots=True)
class ProvedMonth:
    """`jobs`: all that take part; `warm_up`: the numbers of those that are left out of the sums; `begin`: when the
    month begins, on the clock of the replay; `since`: the same on the clock of the history, if it was given."""

    jobs: JobTable
    warm_up: Collection[int]
    begin: int
    since: int | None

    def __iter__(self) -> Iterator[Job]:
        """The jobs of the month, in the order of their submission."""
        return (job for job in self.jobs if job.id not in self.warm_up)


def choose_month(trace: Trace, since: str | None, until: str | None, faults: FileFaults) -> ProvedMonth | None:
    """The jobs between `--since` and `--until`, with their warm-up; None with a fault."""
    begin, end = time_bound(trace, "since", since, faults), time_bound(trace, "until", until, faults)
    if faults.count:
        return None
    if begin is None and end is None:
        return ProvedMonth(trace.jobs, (), 0, None)
    chosen, warm_up = JobTable(trace.jobs.default_priority), set[int]()
    for job in trace.jobs:
        submit = job.submit + trace.jobs.start
        if end is not None and submit >= end:
            continue
        if begin is not None and submit < begin:
            ended = trace.records.of(job.id).ended
            if ended <= begin:
                continue
            warm_up.add(job.id)
            submit = min(begin, ended - job.duration)
        chosen.add_again(job, submit)
    if len(chosen) == len(warm_up):
        faults.add(None, "--since", Fault.BAD_VALUE, "No job of the trace was submitted in the given time.")
        return None
    chosen.sort()
    return ProvedMonth(chosen, warm_up, 0 if begin is None else max(0, begin - chosen.start), begin)


def begin_sentence(month: ProvedMonth, trace: Trace) -> str:
    """What was on the nodes when the month began."""
    jobs, records = month.jobs, trace.records
    if month.since is not None:
        at = month.since
        at_text = moment_text(at, is_dated=trace.is_dated)
        if not month.warm_up:
            return f"No job of the history ran or waited at {at_text}, so the replay begins on empty nodes."
        warm = [(job, records.of(job.id)) for job in jobs if job.id in month.warm_up]
        left = sum(job.gpus * min(job.duration, record.ended - at) for job, record in warm)
        running = sum(job.gpus for job, record in warm if record.ended - job.duration < at)
        return (
            f"{counted(len(warm), 'job')} ran (on {counted(running, 'GPU')}) or waited at "
            f"{at_text}: so "
            f"they do in the replay. They are left out of the sums, with the {_hours(left)} that they still ran."
        )
    first = min(records.of(job.id).ended for job in jobs)
    early = [job for job in jobs if job.submit + jobs.start < first]
    work = sum(job.gpus * job.duration for job in early)
    at_text = moment_text(first, is_dated=trace.is_dated)
    return (
        f"The replay begins on empty nodes. The history has nothing that ended before {at_text}, so "
        f"{counted(len(early), 'job')} ({_hours(work)}) submitted until then may find more room than there was. "
        f"--since {at_text} leaves them out of the sums, but not out of the replay."
    )


def _hours(gpu_microseconds: int) -> str:
    return f"{gpu_microseconds / SECOND / 3600:,.0f} GPU-hours"
