"""Idle promises: GPU-hours of a team's quota that nobody used while work of other teams waited."""

from __future__ import annotations

from dataclasses import dataclass

from pools.domain.amounts import GPU, UNLIMITED
from scheduling.domain.advisor.allotment import quota_of
from scheduling.domain.engine.facts import ClusterFacts
from scheduling.domain.replay.clock import EndReason, LiveJob, ReplayObserver
from scheduling.domain.replay.measures import HOUR


@dataclass(slots=True)
class _Team:
    quota: float
    use: int = 0
    waiting: int = 0
    idle: float = 0.0
    """GPU-microseconds."""

    @property
    def unused(self) -> float:
        return 0.0 if self.quota == UNLIMITED else max(0.0, self.quota - self.use)


class IdlePromises(ReplayObserver):
    """Adds them up between instants. Idle quota is that of :mod:`scheduling.domain.replay.measures`; of a team's at
    most as many GPUs count as waiting work of the others requests."""

    def __init__(self, facts: ClusterFacts) -> None:
        parents = {queue.parent for queue in facts.queues}
        self._teams = {q.name: _Team(float(quota_of(q))) for q in facts.queues if q.name not in parents}
        self._capacity = float(sum(node.resources.get(GPU, 0) for node in facts.nodes or ()))
        self._unclaimed = max(0.0, self._capacity - sum(team.quota for team in self._teams.values()))
        self._use = self._waiting = self._last = 0

    def arrived(self, live: LiveJob) -> None:
        self._advance(live.job.submit)
        self._wait(live, 1)

    def started(self, live: LiveJob) -> None:
        self._advance(live.start or 0)
        self._wait(live, -1)
        self._hold(live, 1)

    def ended(self, live: LiveJob, now: int, reason: EndReason, lost: int) -> None:
        self._advance(now)
        self._hold(live, -1)
        if reason is EndReason.PREEMPTED:
            self._wait(live, 1)

    def gpu_hours(self) -> dict[str, float]:
        """By team."""
        return {name: team.idle / HOUR for name, team in self._teams.items()}

    def _wait(self, live: LiveJob, sign: int) -> None:
        self._teams[live.job.team].waiting += sign * live.job.gpus
        self._waiting += sign * live.job.gpus

    def _hold(self, live: LiveJob, sign: int) -> None:
        self._teams[live.job.team].use += sign * live.job.gpus
        self._use += sign * live.job.gpus

    def _advance(self, now: int) -> None:
        """Add the time since the last change, in which nothing changed."""
        time, self._last = now - self._last, now
        if not time or not self._waiting:
            return
        teams = self._teams.values()
        unused = sum(team.unused for team in teams)
        if not unused:
            return
        over = sum(max(0.0, team.use - team.quota) for team in teams)
        borrowed = min(max(0.0, over - self._unclaimed), unused)
        idle = min(unused - borrowed, max(0.0, self._capacity - self._use))
        for team in teams:
            team.idle += time * min(idle * team.unused / unused, self._waiting - team.waiting)
