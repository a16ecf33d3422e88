"""Trials on the recorded history of one cluster: the quotas that held at its end, and others, for the whole window.

A window ends while work waits, so nothing is known of what starts later: a wait counts up to the end, and work that
starts today and not with other quotas is *never again* only if it does not start on the empty cluster either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from pools.domain.values.amounts import UNLIMITED, Amount
from scheduling.domain.engine.facts import ClusterFacts
from scheduling.domain.engine.pool_quotas import all_gpus
from scheduling.history.advisor.allotment import AdvicePool, Allotment, find_pools
from scheduling.history.advisor.idle_promises import FlavorIdleSums
from scheduling.history.advisor.trials import IsWorse, Trial
from scheduling.history.replay.gang_facts import starts_alone
from scheduling.history.replay.history import Configuration, RecordedHistory
from scheduling.history.replay.history_clock import Change, HistoryClock, Past, PastJob, TooLong, shares_follow
from scheduling.history.replay.measures import HOUR
from scheduling.history.replay.past_measures import summarize, summarize_queues

OTHERS = "others"
"""The name of all queues that the reader does not know."""

Share = Callable[[int, float], bool]
"""Called at each instant with the number of the replay and its share that is done: whether it has to stop."""


def find_past_pools(history: RecordedHistory, names: Mapping[str, str], *, with_lending: bool) -> list[AdvicePool]:
    """The pools at the end of the window in which something can change, by the names that people write: those that the
    reader knows, without subpools that drain. `with_lending`: their lending limits can change too."""
    last = history.configurations[-1]
    queues = tuple(queue for queue in last.queues if queue.name not in last.draining)
    found = []
    for pool in find_pools(ClusterFacts(queues=queues)):
        name = names.get(pool.name or "")
        if name is None:
            continue
        today = pool.today if with_lending else replace(pool.today, lending=())
        if len(today.quotas) > 1 or today.lending:
            most = {names[leaf]: amount for leaf, amount in pool.most.items()}
            found.append(AdvicePool(name, today.renamed(names), most))
    return found


class PastTrials:
    """Trials on a recorded history."""

    def __init__(
        self,
        history: RecordedHistory,
        names: Mapping[str, str],
        must_stop: Share,
        ends_early: Callable[[], bool] = bool,
    ) -> None:
        """`names` are the queues that the reader knows, with the names that people write. Work of its leaves makes the
        cost; HIGH and NORMAL work of all others is guarded all the same.

        Raises TooLong where `must_stop` ends the replay of today's quotas. Where it ends a later one and `ends_early`
        is true, the trials are over: what was tried so far counts."""
        self._history, self._names, self._must_stop, self._ends_early = history, names, must_stop, ends_early
        self._queues = {name: queue for queue, name in names.items()}
        self._last = history.configurations[-1]
        self._jobs = [job.name for job in history.jobs if job.queue in names]
        self.count, self.is_over = 0, False
        self.past = self._replay(self._todays, None)
        self._waits = {name: job.wait_of(history.until) for name, job in self.past.jobs.items()}
        self.today = self._trial(self.past, None)

    @property
    def quotas_changed(self) -> bool:
        """Whether the quotas of today did not hold for the whole window."""
        return any(self._todays(each) != each for each in self._history.configurations)

    def guaranteed_jobs(self) -> Counter[str]:
        """The HIGH and NORMAL jobs of the window, of the leaves that the reader knows."""
        return Counter(
            self._names[job.job.queue]
            for job in self.past.jobs.values()
            if not job.job.priority.is_preemptible and job.job.queue in self._names
        )

    def idle_promises(self) -> dict[tuple[str, str], float]:
        """GPU-hours of quota that nobody used while work of others waited, by leaf and flavor, of the leaves that the
        reader knows."""
        changes: list[tuple[int, str, str, int, int]] = []
        for past in self.past.jobs.values():
            queue = past.job.queue
            for since, until, used in past.runs:
                for key, gpus in used.items():
                    changes += [(since, queue, key, gpus, 0), (until, queue, key, -gpus, 0)]
            for since, until in past.waits:
                for key, gpus in past.wants.items():
                    changes += [(since, queue, key, 0, gpus), (until, queue, key, 0, -gpus)]
        sums, left = FlavorIdleSums(), sorted(changes)
        configurations = [*self.past.configurations, (self._history.until + 1, self._last)]
        at = 0
        for (since, held), (until, _) in pairwise(configurations):
            sums.advance(since)
            sums.configure(held.queues, () if held.is_offline else held.nodes)
            while at < len(left) and left[at][0] < until:
                time, queue, key, use, waiting = left[at]
                sums.advance(max(time, since))
                sums.change(queue, {key: use}, {key: waiting})
                at += 1
        found = sums.gpu_hours().items()
        return {(self._names[queue], key): hours for (queue, key), hours in found if queue in self._names}

    def run(self, allotment: Allotment, most: int | None = None) -> Trial | None:
        """See `Trials.run`."""
        watch = None if most is None else _Watch(self._waits, self._names, most, self._history.until)
        divided = allotment.renamed(self._queues)
        quotas = divided.changed_names()

        def change(recorded: Configuration) -> Configuration:
            today = self._todays(recorded)
            return shares_follow(today, divided.changed_queues(today.queues), quotas - set(recorded.shared.values()))

        try:
            past = self._replay(change, watch)
        except IsWorse:
            return None
        except TooLong:
            if not self._ends_early():
                raise
            self.is_over = True
            return None
        return self._trial(past, change)

    def _todays(self, recorded: Configuration) -> Configuration:
        """The quotas and limits of the end, wherever the recorded configuration had their queues."""
        if recorded is self._last:
            return recorded
        now = {queue.name: queue for queue in self._last.queues if queue.name not in self._last.draining}
        queues = tuple(
            queue if (last := now.get(queue.name)) is None else replace(last, parent=queue.parent, hold=queue.hold)
            for queue in recorded.queues
        )
        if queues == recorded.queues:
            return recorded
        return shares_follow(recorded, queues, now.keys() - set(recorded.shared.values()))

    def _replay(self, change: Change, watch: _Watch | None) -> Past:
        self.count += 1
        number, since = self.count, self._history.since
        length = max(1, self._history.until - since)

        def is_over(now: int) -> bool:
            return self._must_stop(number, min(1.0, (now - since) / length))

        clock = HistoryClock(self._history, change, is_over, *([] if watch is None else [watch]))
        return clock.run()

    def _trial(self, past: Past, change: Change | None) -> Trial:
        later, never_again = (Counter[str](), 0) if change is None else self._compared(past, change(self._last))
        counted = [past.jobs[name] for name in self._jobs]
        hours = (self._history.until - self._history.since) / HOUR
        leaves = {
            queue.name: all_gpus(queue)
            for queue in past.configurations[-1][1].queues
            if queue.name in self._names and queue.name not in self._last.shared
        }
        rows = summarize_queues(past, leaves | dict.fromkeys((job.job.queue for job in counted), 0))
        return Trial(
            sum(job.waited * job.job.gpus for job in counted),
            sum(job.lost * job.job.gpus for job in counted),
            sum(job.arrived is not None and not job.starts and not job.job.running for job in counted),
            never_again,
            dict(sorted(later.items())),
            summarize(past, counted),
            {self._names[queue]: row for queue, row in rows.items()},
            {
                self._names[queue]: _unused(quota, hours, rows[queue]["used_gpu_h"] or 0)
                for queue, quota in leaves.items()
            },
        )

    def _compared(self, past: Past, last: Configuration) -> tuple[Counter[str], int]:
        """By name, the HIGH and NORMAL jobs that wait longer than today, and the number of jobs that never start
        again."""
        later: Counter[str] = Counter()
        never_again = 0
        for name, job in past.jobs.items():
            if _is_later(job, self._waits, self._history.until):
                later[self._names.get(job.job.queue, OTHERS)] += 1
            has_lost_its_start = self.past.jobs[name].starts and not job.starts and job.arrived is not None
            if has_lost_its_start and job.ended is None and not starts_alone(last, job.job):
                never_again += 1
        return later, never_again


def _unused(quota: Amount, hours: float, used: float) -> float:
    return 0.0 if quota == UNLIMITED else max(0.0, float(quota) * hours - used)


def _is_later(job: PastJob, todays: Mapping[str, int | None], until: int) -> bool:
    wait, today = job.wait_of(until), todays[job.job.name]
    return not job.job.priority.is_preemptible and wait is not None and today is not None and wait > today


@dataclass(slots=True)
class _Watch:
    """Ends a replay that cannot be the best any more."""

    todays: Mapping[str, int | None]
    counted: Collection[str]
    most: int
    until: int
    _cost: int = 0
    _by_job: dict[str, int] = field(default_factory=dict)

    def __call__(self, job: PastJob) -> None:
        if job.start is not None and _is_later(job, self.todays, self.until):
            raise IsWorse
        if job.job.queue not in self.counted:
            return
        cost = (job.waited + job.lost) * job.job.gpus
        self._cost += cost - self._by_job.get(job.job.name, 0)
        self._by_job[job.job.name] = cost
        if self._cost > self.most:
            raise IsWorse
