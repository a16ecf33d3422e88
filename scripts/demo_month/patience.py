"""Who looks at the queue and sees that work would wait for long does not submit it. So the queue of the demo is as long
as people put up with, and its GPUs are in use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pools.domain.names import SEPARATOR
from scheduling.demo.installation import CLUSTERS, DEMO_POOLS
from scheduling.demo.month_file import DAY, HOUR, LENGTH, MonthJob
from scheduling.domain.priorities import Priority

MOST_HOURS: Final = 14
"""As long as people let HIGH and NORMAL work wait."""
MOST_HOURS_LOW: Final = (13, 12, 10, 8, 10, 15, 15)
"""As long as they let LOW work wait, by the day of the week: it has time until Monday."""
BORROWED: Final = 8
"""The GPUs above its quota that a pool counts on."""


def worth_waiting_for(jobs: Iterable[MonthJob], cluster: str, quotas: Mapping[str, int]) -> list[MonthJob]:
    """The jobs that people submit, in the order of time. `quotas` are those of the leaves."""
    leaves = {leaf: _Plan(quota) for leaf, quota in quotas.items()}
    trees = {pool.name: _Plan(pool.guarantee + BORROWED) for pool in DEMO_POOLS if pool.backend == cluster}
    everything = _Plan(CLUSTERS[cluster] * 8)
    kept = []
    for job in sorted(jobs, key=lambda job: (job.priority == Priority.LOW, *_in_order(job))):
        leaf, tree = leaves[job.leaf], trees[job.leaf.partition(SEPARATOR)[0]]
        if job.priority == Priority.LOW:
            plans = [tree, everything]
            begin = _first_fit(job, plans, MOST_HOURS_LOW[job.submit // DAY % 7])
        else:
            plans = [leaf, tree, everything]
            begin = _first_fit(job, [leaf], MOST_HOURS)
        if begin is not None:
            kept.append(job)
            for plan in plans:
                plan.add(job, begin)
    return sorted(kept, key=_in_order)


def _in_order(job: MonthJob) -> tuple[int, str, str, int]:
    """Jobs are in the order of these."""
    return job.submit, job.leaf, job.name, job.runtime


class _Plan:
    """The GPUs that work needs in each hour of the month, as somebody reckons who sees the queue."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._used = [0] * (24 * 2 * LENGTH)

    def has_room(self, job: MonthJob, hour: int) -> bool:
        """Whether the job could begin in this hour."""
        return self._used[hour] + job.all_gpus <= self._room

    def add(self, job: MonthJob, begin: int) -> None:
        """It runs from this hour on."""
        hours = -(-(job.fails_after or job.runtime) // HOUR)
        for hour in range(begin, min(begin + hours, len(self._used))):
            self._used[hour] += job.all_gpus


def _first_fit(job: MonthJob, plans: Sequence[_Plan], most: int) -> int | None:
    """The first hour in which every plan has room for the job, None if that is more than `most` hours ahead."""
    first = job.submit // HOUR
    return next((at for at in range(first, first + most) if all(plan.has_room(job, at) for plan in plans)), None)
