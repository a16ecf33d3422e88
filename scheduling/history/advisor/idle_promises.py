"""Idle promises: GPU-hours of a team's quota that nobody used while work of other teams waited."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pools.domain.values.amounts import DEFAULT_FLAVOR, UNLIMITED, gpu_key, is_gpu, sum_amounts
from scheduling.domain.engine.facts import ClusterFacts, NodeFacts, QueueFacts
from scheduling.domain.engine.pool_quotas import gpu_keys, gpu_quota
from scheduling.history.replay.clock import EndReason, LiveJob, ReplayObserver
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
    """Adds up those of one flavor between changes of quotas, use and waiting work. Idle quota is that of
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


class FlavorIdleSums:
    """Adds them up in each flavor. Work that may use several ones waits in each of them."""

    def __init__(self) -> None:
        self._flavors: dict[str, IdleSums] = {}
        self._now = 0

    def configure(self, queues: Iterable[QueueFacts], nodes: Iterable[NodeFacts]) -> None:
        """The queues and nodes from now on."""
        every = list(queues)
        parents = {queue.parent for queue in every}
        leaves = [queue for queue in every if queue.name not in parents]
        there = sum_amounts(node.resources for node in nodes)
        for key in {*gpu_keys(leaves), *filter(is_gpu, there)}:
            self._of(key)
        for key, sums in self._flavors.items():
            sums.configure({leaf.name: float(gpu_quota(leaf, key)) for leaf in leaves}, float(there.get(key, 0)))

    def change(self, name: str, use: Mapping[str, int], waiting: Mapping[str, int]) -> None:
        """A team uses some GPUs more, and its waiting work requests some more; by key."""
        for key in {**use, **waiting}:
            self._of(key).change(name, use.get(key, 0), waiting.get(key, 0))

    def advance(self, now: int) -> None:
        """Add the time since the last change, in which nothing changed."""
        self._now = now
        for sums in self._flavors.values():
            sums.advance(now)

    def gpu_hours(self) -> dict[tuple[str, str], float]:
        """By team and key."""
        return {(name, key): hours for key, sums in self._flavors.items() for name, hours in sums.gpu_hours().items()}

    def _of(self, key: str) -> IdleSums:
        sums = self._flavors.get(key)
        if sums is None:
            sums = self._flavors[key] = IdleSums()
            sums.advance(self._now)
        return sums


class IdlePromises(ReplayObserver):
    """Those of a replay of a trace."""

    def __init__(self, facts: ClusterFacts) -> None:
        self._sums = FlavorIdleSums()
        self._sums.configure(facts.queues, facts.nodes or ())

    def arrived(self, live: LiveJob) -> None:
        self._tell(live.job.submit, live, waits=1)

    def started(self, live: LiveJob) -> None:
        self._tell(live.start or 0, live, uses=1, waits=-1)

    def ended(self, live: LiveJob, now: int, reason: EndReason, lost: int) -> None:
        self._tell(now, live, uses=-1, waits=1 if reason is EndReason.PREEMPTED else 0)

    def _tell(self, now: int, live: LiveJob, *, uses: int = 0, waits: int = 0) -> None:
        self._sums.advance(now)
        may_use = live.job.flavors or (DEFAULT_FLAVOR,)
        self._sums.change(
            live.job.team,
            {gpu_key(live.flavor): uses * live.job.gpus} if uses else {},
            {gpu_key(flavor): waits * live.job.gpus for flavor in may_use} if waits else {},
        )

    def gpu_hours(self) -> dict[tuple[str, str], float]:
        """By team and key."""
        return self._sums.gpu_hours()
