"""The events of a replay, summed up for the cluster and for each team (docs/replay.md).

GPU-time is exact: it is added up between changes, never sampled. At any time the use over a team's quota is `borrowed`
as far as it exceeds the capacity that no quota claims; other teams have `lent` as much, in proportion to their unused
quota, and the rest of that is their idle quota (docs/usage.md has the same rule).
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from pools.domain.values.amounts import GPU, Number, gpu_key, gpus_in, is_gpu, sum_amounts
from scheduling.domain.engine.facts import ClusterFacts
from scheduling.history.replay.clock import EndReason, LiveJob, ReplayObserver
from scheduling.history.replay.jobs import SECOND, Job

HOUR = 3600 * SECOND
SLOWDOWN_FLOOR = 10 * SECOND
"""A shorter run counts as this long in a slowdown."""

Summary = dict[str, float | int | None]
"""The numbers of a cluster or of a team, by their keys in the answer."""


class Course(TypedDict):
    """The numbers of the cluster (null for those who do not see all of it), and of its teams."""

    summary: Summary | None
    teams: dict[str, Summary]


class CourseDifference(Course):
    """What a second course has more; `better` and `worse`: the teams that wait less, and more, in the mean."""

    better: list[str]
    worse: list[str]


def quantile(values: Sequence[float], share: float) -> float | None:
    """The quantile of sorted values, linear between two neighbours; None without values."""
    if not values:
        return None
    at = (len(values) - 1) * share
    below = math.floor(at)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (at - below)


@dataclass(slots=True)
class _Sums:
    """Counts and sums of some jobs; times in microseconds, GPU-time in GPU-microseconds."""

    jobs: int = 0
    finished: int = 0
    never: int = 0
    preemptions: int = 0
    used: int = 0
    lost: int = 0
    waiting: int = 0
    first_submit: int | None = None
    last_end: int | None = None
    waits: array[int] = field(default_factory=lambda: array("q"))
    slowdowns: array[float] = field(default_factory=lambda: array("d"))

    def summary(self, capacity: Number) -> Summary:
        """`capacity`: GPU-microseconds."""
        waits = sorted(self.waits)
        seconds = [wait / SECOND for wait in waits]
        return {
            "jobs": self.jobs,
            "finished": self.finished,
            "never": self.never,
            "capacity_gpu_h": float(capacity / HOUR),
            "used_gpu_h": self.used / HOUR,
            "lost_gpu_h": self.lost / HOUR,
            "utilisation": float(self.used / capacity) if capacity else None,
            "wait_mean_s": sum(waits) / len(waits) / SECOND if waits else None,
            "wait_p50_s": quantile(seconds, 0.5),
            "wait_p90_s": quantile(seconds, 0.9),
            "wait_p99_s": quantile(seconds, 0.99),
            "slowdown_p50": quantile(sorted(self.slowdowns), 0.5),
            "preemptions": self.preemptions,
        }


@dataclass(slots=True)
class _TeamTime:
    """The GPU-time of one team between its changes. `lent`, `borrowed`, `idle` are GPU-seconds."""

    quota: float
    use: int = 0
    since_lending: float = 0.0
    since_borrowing: float = 0.0
    since_idle: float = 0.0
    lent: float = 0.0
    borrowed: float = 0.0
    idle: float = 0.0

    @property
    def unused(self) -> float:
        return 0.0 if self.quota == math.inf else max(0.0, self.quota - self.use)

    @property
    def over(self) -> float:
        return max(0.0, self.use - self.quota)


class _QuotaTime:
    """Lent, borrowed and idle quota of every team over time. A change costs the same however many teams there are: the
    parts of each GPU of unused quota, and of use over quota, are added up for all teams together."""

    def __init__(self, quotas: Mapping[str, float], capacity: float) -> None:
        self.teams = {name: _TeamTime(quota) for name, quota in quotas.items()}
        self._capacity = capacity
        claimed = sum(quotas.values())
        self._unclaimed = max(0.0, capacity - claimed)
        self._use = 0
        self._unused = sum(team.unused for team in self.teams.values())
        self._over = 0.0
        self._now = 0
        self._lending = self._borrowing = self._idling = 0.0
        """Seconds × the part of one GPU that is lent or idle (of unused quota) or borrowed (of use over quota)."""

    def change(self, now: int, team: str, gpus: int) -> None:
        """The team holds this number of GPUs more (less, if negative) from now on."""
        self._advance(now)
        changed = self.teams[team]
        self._close(changed)
        self._unused -= changed.unused
        self._over -= changed.over
        changed.use += gpus
        self._use += gpus
        self._unused += changed.unused
        self._over += changed.over

    def close(self, now: int) -> None:
        """Add everything up to now."""
        self._advance(now)
        for team in self.teams.values():
            self._close(team)

    def _advance(self, now: int) -> None:
        seconds = (now - self._now) / SECOND
        self._now = now
        if not seconds:
            return
        borrowed = min(max(0.0, self._over - self._unclaimed), self._unused)
        if self._unused > 0:
            self._lending += seconds * borrowed / self._unused
            # Quotas that promise more than there is cannot be idle beyond the free GPUs.
            idle = min(self._unused - borrowed, max(0.0, self._capacity - self._use))
            self._idling += seconds * idle / self._unused
        if self._over > 0:
            self._borrowing += seconds * borrowed / self._over

    def _close(self, team: _TeamTime) -> None:
        unused = team.unused
        team.lent += unused * (self._lending - team.since_lending)
        team.idle += unused * (self._idling - team.since_idle)
        team.borrowed += team.over * (self._borrowing - team.since_borrowing)
        team.since_lending, team.since_idle, team.since_borrowing = self._lending, self._idling, self._borrowing


class Measures(ReplayObserver):
    """Sums up a replay of the cluster in `facts`. Teams are its queues that may run work."""

    def __init__(self, facts: ClusterFacts) -> None:
        capacity = sum_amounts(node.resources for node in facts.nodes or ())
        self._capacity: Number = gpus_in(capacity)
        parents = {queue.parent for queue in facts.queues}
        leaves = [queue for queue in facts.queues if queue.name not in parents]
        keys = {key for queue in leaves for key in queue.quota or {} if is_gpu(key)} | capacity.keys() | {GPU}
        self._whole = _Sums()
        self._teams = {leaf.name: _Sums() for leaf in leaves}
        self._times = {
            key: _QuotaTime({q.name: float((q.quota or {}).get(key, 0)) for q in leaves}, float(capacity.get(key, 0)))
            for key in sorted(keys)
            if is_gpu(key)
        }
        """By the key of each flavor: what is lent and idle counts in its own flavor."""

    def _both(self, team: str) -> Iterable[_Sums]:
        return self._whole, self._teams[team]

    def never(self, job: Job) -> None:
        for sums in self._both(job.team):
            sums.jobs += 1
            sums.never += 1

    def arrived(self, live: LiveJob) -> None:
        submit = live.job.submit
        for sums in self._both(live.job.team):
            sums.jobs += 1
            if sums.first_submit is None:
                sums.first_submit = submit

    def started(self, live: LiveJob) -> None:
        job, start = live.job, live.start
        assert start is not None
        self._times[gpu_key(live.flavor)].change(start, job.team, job.gpus)
        for sums in self._both(job.team):
            sums.waiting += job.gpus * (start - live.waits_since)
            if live.attempt == 1:
                sums.waits.append(start - job.submit)

    def ended(self, live: LiveJob, now: int, reason: EndReason, lost: int) -> None:
        job = live.job
        assert live.start is not None
        self._times[gpu_key(live.flavor)].change(now, job.team, -job.gpus)
        for sums in self._both(job.team):
            sums.used += job.gpus * (now - live.start)
            sums.lost += job.gpus * lost
            if reason is EndReason.PREEMPTED:
                sums.preemptions += 1
                continue
            sums.finished += 1
            sums.last_end = now
            run = job.duration if job.limit is None else min(job.duration, job.limit)
            sums.slowdowns.append(max(1.0, (now - job.submit) / max(run, SLOWDOWN_FLOOR)))

    def summaries(self) -> tuple[Summary, dict[str, Summary]]:
        """The summary, and those of the teams. Capacity and idle quota count from instant 0 to the last end."""
        whole = self._whole
        end = whole.last_end or 0
        for flavor in self._times.values():
            flavor.close(end)
        capacity = self._capacity * end
        summary = whole.summary(capacity) | {"makespan_s": end / SECOND}
        teams: dict[str, Summary] = {}
        for name, sums in self._teams.items():
            times = [flavor.teams[name] for flavor in self._times.values()]
            quota = sum(time.quota for time in times)
            makespan = None if sums.last_end is None else (sums.last_end - (sums.first_submit or 0)) / SECOND
            teams[name] = sums.summary(capacity) | {
                "makespan_s": makespan,
                "quota_gpu_h": None if quota == math.inf else quota * end / HOUR,
                "lent_gpu_h": sum(time.lent for time in times) * SECOND / HOUR,
                "borrowed_gpu_h": sum(time.borrowed for time in times) * SECOND / HOUR,
                "idle_quota_gpu_h": sum(time.idle for time in times) * SECOND / HOUR,
                "waiting_gpu_h": sums.waiting / HOUR,
            }
        return summary, teams


def compare(on: Course, against: Course) -> CourseDifference:
    """Against − on, for every number that both have; null where one has none."""
    teams = {name: _difference(on["teams"][name], of) for name, of in against["teams"].items() if name in on["teams"]}
    changes = {name: difference["wait_mean_s"] for name, difference in teams.items()}
    return {
        "summary": _difference(on["summary"], against["summary"]) if on["summary"] and against["summary"] else None,
        "teams": teams,
        "better": [name for name, change in changes.items() if change is not None and change < 0],
        "worse": [name for name, change in changes.items() if change is not None and change > 0],
    }


def _difference(on: Summary, against: Summary) -> Summary:
    found: Summary = {}
    for key, before in on.items():
        after = against[key]
        found[key] = None if before is None or after is None else after - before
    return found
