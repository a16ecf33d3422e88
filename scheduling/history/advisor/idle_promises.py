"""Idle promises: GPU-hours of a team's quota that nobody used while work of other teams waited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pools.domain.values.amounts import UNLIMITED, gpus_in
from scheduling.domain.engine.facts import ClusterFacts
from scheduling.history.replay.clock import EndReason, LiveJob, ReplayObserver
from scheduling.history.replay.history_clock import all_gpus
from scheduling.history.replay.measures import HOUR


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


class IdleSums:
    """Adds them up between changes of quotas, use and waiting work. Idle quota is that of
    :mod:`scheduling.history.replay.measures`; of a team's at most as many GPUs count as waiting work of the others
    requests. Times in microseconds."""

    def __init__(self) -> None:
        self._teams: dict[str, _Team] = {}
        self._capacity = self._unclaimed = 0.0
        self._use = self._waiting = self._last = 0

    def configure(self, quotas: Mapping[str, float], capacity: float) -> None:
        """The quotas of the teams and the GPUs of all nodes, from now on; a team that is not named has none."""
        for name, team in self._teams.items():
            team.quota = quotas.get(name, 0.0)
        for name, quota in quotas.items():
            self._teams.setdefault(name, _Team(quota))
        self._capacity = capacity
        self._unclaimed = max(0.0, capacity - sum(quotas.values()))

    def change(self, name: str, use: int, waiting: int) -> None:
        """A team uses some GPUs more, and its waiting work requests some more."""
        team = self._teams.setdefault(name, _Team(0.0))
        team.use += use
        team.waiting += waiting
        self._use += use
        self._waiting += waiting

    def advance(self, now: int) -> None:
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

    def gpu_hours(self) -> dict[str, float]:
        """By team."""
        return {name: team.idle / HOUR for name, team in self._teams.items()}


def promises(facts: ClusterFacts) -> tuple[dict[str, float], float]:
    """The quotas of the leaves and the GPUs of all nodes, of all flavors together."""
    parents = {queue.parent for queue in facts.queues}
    quotas = {queue.name: float(all_gpus(queue)) for queue in facts.queues if queue.name not in parents}
    return quotas, float(sum(gpus_in(node.resources) for node in facts.nodes or ()))


class IdlePromises(ReplayObserver):
    """Those of a replay of a trace."""

    def __init__(self, facts: ClusterFacts) -> None:
        self._sums = IdleSums()
        self._sums.configure(*promises(facts))

    def arrived(self, live: LiveJob) -> None:
        self._tell(live.job.submit, live, 0, 1)

    def started(self, live: LiveJob) -> None:
        self._tell(live.start or 0, live, 1, -1)

    def ended(self, live: LiveJob, now: int, reason: EndReason, lost: int) -> None:
        self._tell(now, live, -1, 1 if reason is EndReason.PREEMPTED else 0)

    def _tell(self, now: int, live: LiveJob, use: int, waiting: int) -> None:
        self._sums.advance(now)
        self._sums.change(live.job.team, use * live.job.gpus, waiting * live.job.gpus)

    def gpu_hours(self) -> dict[str, float]:
        """By team."""
        return self._sums.gpu_hours()
