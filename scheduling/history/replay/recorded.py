"""What became of each job by the record itself, without the engine, to compare a replay with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby

from scheduling.history.replay.history import RecordedHistory, RecordedJob, RecordedStep
from scheduling.history.replay.history_clock import Past, PastJob


def follow_record(history: RecordedHistory, capacity: int) -> Past:
    """The jobs as the recorded steps and ends had them. `capacity`: that of the window in GPUs × microseconds."""
    steps: dict[str, list[RecordedStep]] = defaultdict(list)
    for step in history.steps:
        steps[step.gang].append(step)
    jobs = {job.name: _follow(job, steps[job.name], history) for job in history.jobs}
    return Past(history.until, jobs, list(history.steps), capacity=capacity)


def _follow(job: RecordedJob, steps: Sequence[RecordedStep], history: RecordedHistory) -> PastJob:
    """A gang has tasks with GPUs or none: a plan leaves no gang below its minimum."""
    past = PastJob(job, tasks=set(job.running))
    if job.started is not None:
        past.arrived = job.ready
        past.begin(job.started, history.since)
    elif job.ready <= history.until and not (job.after and job.last_ready is None):
        past.arrived, past.waits_since = job.ready, max(job.ready, history.since)
    for now, same in groupby(steps, key=lambda step: step.time):
        ends = [past.take(step) for step in same]
        if past.start is not None and any(ends):
            past.lost += now - past.start
            past.stop(now)
            if not past.tasks:
                past.waits_since = now
        if past.tasks and past.start is None:
            if past.first_wait is None and past.arrived is not None and not job.running:
                past.first_wait = now - past.arrived
            past.starts += 1
            past.begin(now)
    if job.ended is not None and job.ended <= history.until:
        past.stop(job.ended)
        past.ended = job.ended
    past.close(history.since, history.until)
    return past
