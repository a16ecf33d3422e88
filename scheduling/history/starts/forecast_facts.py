"""The facts that a forecast of one backend knows: the state, how long work ran, what arrived; nothing that is still to
come.

The simulated end of running work (`Group.ends_at`) is never read here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property, partial
from uuid import UUID

from django.db.models import Count, Q
from django.utils import timezone

from pools.database.transactions import one_snapshot
from pools.domain.values.amounts import DEFAULT_FLAVOR, Number, gpu_amounts, gpu_key, sum_amounts
from pools.models import Backend, Pool
from scheduling.domain.engine.facts import GangFacts, QueueFacts, TaskFacts
from scheduling.domain.flavor_choices import PoolFlavors, TaskGpus
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import TaskStatus
from scheduling.history.forecast.arrivals import REMEMBERED, Arrival, RecentArrivals
from scheduling.history.forecast.calibration import Place, hour_of
from scheduling.history.forecast.futures import GangInfo, Present
from scheduling.history.forecast.lines import gang_gpus
from scheduling.history.forecast.runtimes import RunTimes, WorkKind
from scheduling.history.starts.facts_key import facts_key
from scheduling.models import Group, Task
from scheduling.selectors.cluster.pool_flavors import read_pool_flavors
from scheduling.selectors.queue.dispatch_holds import DispatchHolds, read_dispatch_holds
from scheduling.selectors.queue.live_facts import LiveFacts, read_live_facts

ATTEMPTS = 3000
"""The last attempts of a backend from which run times are drawn."""
ARRIVALS_SINCE = timedelta(days=1)
_TAKEN = frozenset({TaskStatus.RESCHEDULED, TaskStatus.FAILED_PREEMPTED, TaskStatus.FAILED_EVICTED})
"""An attempt with this status would have run longer."""
_KIND = (
    "workflow__pool__name", "gpus", "workflow__submitted_by__username", "workflow__spec_name", "workflow__exec_timeout",
)  # fmt: skip


@dataclass(frozen=True)
class ForecastFacts:
    """The present, the group of each waiting gang by its name in the facts, and the time of the snapshot. `live`: the
    facts with the rows that their names refer to; `holds`: the work that is not sent to the cluster yet."""

    present: Present
    waiting: Mapping[str, UUID]
    now: datetime
    live: LiveFacts
    holds: DispatchHolds

    @cached_property
    def key(self) -> str:
        """The same while nothing happens, however late it is: forecasts follow from these facts alone."""
        return facts_key(self.present)

    def places(self) -> dict[str, Place]:
        """Where each waiting gang stands in its queue, by name."""
        waiting = [fact for fact in self.present.facts.gangs if fact.name in self.waiting]
        total: Counter[str] = Counter()
        found = {}
        for fact in sorted(waiting, key=lambda fact: (-fact.priority, fact.submitted, fact.name)):
            gpus = gang_gpus(fact)
            before, leaf = total[fact.queue], self.live.leaves.get(fact.queue)
            found[fact.name] = Place(leaf, self.hour, gpus, before, self._has_later_room([fact]))
            total[fact.queue] += gpus
        return found

    def place_of_new(self, gangs: Sequence[GangFacts]) -> Place:
        """Where new gangs of one queue would stand, behind all work of it that does not come after them."""
        first, gpus = gangs[0], sum(map(gang_gpus, gangs))
        before = [
            fact for fact in self.present.facts.gangs
            if fact.queue == first.queue and fact.name in self.waiting and fact.priority >= first.priority
        ]  # fmt: skip
        leaf, grows = self.live.leaves.get(first.queue), self._has_later_room(gangs)
        return Place(leaf, self.hour, gpus, sum(map(gang_gpus, before)), grows)

    @cached_property
    def _growing(self) -> dict[str, QueueFacts]:
        """The queues whose quotas grow by themselves."""
        return {each.name: each for each in self.present.facts.queues if each.later_quota}

    def _has_later_room(self, gangs: Sequence[GangFacts]) -> bool:
        """Whether the quota of their queue grows by itself so far that these gangs have room in it together."""
        queue = self._growing.get(gangs[0].queue)
        if queue is None:
            return False
        left, grown = {**(queue.quota or {}), **queue.later_quota}, False
        for gang in gangs:
            choices = (gpu_amounts(sum_amounts(task.request for task in tasks)) for tasks in gang.choices)
            fitting = (needs for needs in choices if all(n <= left.get(key, 0) for key, n in needs.items()))
            needs = next(fitting, None)
            if needs is None:
                return False
            left |= {key: left.get(key, 0) - n for key, n in needs.items()}
            grown |= not queue.later_quota.keys().isdisjoint(needs)
        return grown

    @property
    def hour(self) -> int:
        """The hour of the snapshot."""
        return hour_of(self.present.now)


def read_forecast_facts(backend: Backend, *, even_if_nothing_waits: bool = False) -> ForecastFacts | None:
    """The facts in one snapshot; None if nothing waits for GPUs, unless they are wanted then too. A fixed number of
    queries."""
    with one_snapshot():
        now = timezone.now()
        live = read_live_facts(backend)
        holds = read_dispatch_holds(backend, live)
        groups = _read_groups(backend)
        begun = _read_running(backend)
        gangs: dict[str, GangInfo] = {}
        waiting: dict[str, UUID] = {}
        for name, ref in live.gangs.items():
            kind = groups.get(ref.group)
            if kind is None:
                continue
            started = begun.get(ref.group)
            since = None if started is None else started.timestamp()
            gangs[name] = GangInfo(kind, since, workflow=str(ref.workflow))
            if started is None:
                waiting[name] = ref.group
        if not waiting and not even_if_nothing_waits:
            return None
        present = Present(
            now.timestamp(), live.facts, gangs, _read_run_times(backend), _read_arrivals(backend, live, now),
            holds.held_names(live), live.quota_returns,
        )  # fmt: skip
    return ForecastFacts(present, waiting, now, live, holds)


def _kind(pool: str, gpus: int, user: str, name: str, limit: timedelta | None) -> WorkKind:
    return WorkKind(pool, gpus, user, name, None if limit is None else limit.total_seconds())


def _read_groups(backend: Backend) -> dict[UUID, WorkKind]:
    rows = Group.objects.filter(workflow__root_pool__backend=backend, end_time__isnull=True).order_by()
    return {row[0]: _kind(*row[1:]) for row in rows.values_list("pk", *_KIND)}


def _read_running(backend: Backend) -> dict[UUID, datetime]:
    """When the running attempt of each running gang started."""
    rows = Task.objects.filter(
        group__workflow__root_pool__backend=backend, start_time__isnull=False, end_time__isnull=True
    )
    starts = rows.order_by("-start_time").values_list("group", "start_time")
    return {group: start for group, start in starts if start is not None}


def _read_run_times(backend: Backend) -> RunTimes:
    rows = (
        Task.objects.filter(group__workflow__root_pool__backend=backend, lead=True, start_time__isnull=False)
        .order_by("-start_time")
        .values_list("start_time", "end_time", "status", "pk", *(f"group__{column}" for column in _KIND))
    )
    known = RunTimes()
    for start, end, status, attempt_id, *kind in reversed(rows[:ATTEMPTS]):
        attempt = known.started(_kind(*kind), start.timestamp(), str(attempt_id))
        if end is not None:
            RunTimes.ended(attempt, end.timestamp(), is_whole=TaskStatus(status) not in _TAKEN)
    return known


def _read_arrivals(backend: Backend, live: LiveFacts, now: datetime) -> RecentArrivals:
    """The groups that began to wait in the last day, as gangs of equal tasks that need GPUs only."""
    queue_of = {leaf: queue for queue, leaf in live.leaves.items()}
    rows = (
        Group.objects.filter(workflow__root_pool__backend=backend, ready_at__gte=now - ARRIVALS_SINCE, gpus__gt=0)
        .annotate(size=Count("tasks", filter=Q(tasks__retry_id=0)))
        .order_by("-ready_at")
        .values_list("pk", "ready_at", "size", "workflow__priority", "workflow__pool", *_KIND)
    )
    newest = list(rows[:REMEMBERED])
    flavors = _flavors_of(backend, {group: pool for group, _ready, _size, _priority, pool, *_kind in newest})
    found = RecentArrivals()
    latest = max((gang.submitted for gang in live.facts.gangs), default=0)
    for group, ready, size, priority, pool, *kind in reversed(newest):
        queue = queue_of.get(pool)
        if queue is None:
            continue
        make = partial(later_gang, queue, kind[1], max(1, size), Priority(priority), latest + 1, flavors.get(group))
        found.add(Arrival(ready.timestamp(), _kind(*kind), queue, make))
    return found


def _flavors_of(backend: Backend, leaves: Mapping[UUID, int]) -> dict[UUID, tuple[str, ...]]:
    """The flavors that groups of pools with flavors may use, by their first task; `leaves`: the pool of each."""
    roots = (
        Pool.objects.roots().filter(backend=backend, archived=False).exclude(flavors=[]).prefetch_related("subpools")
    )
    of_leaf: dict[int, PoolFlavors] = {}
    for root in roots:
        of_leaf |= dict.fromkeys((root.pk, *(part.pk for part in root.subpools.all())), read_pool_flavors(root))
    groups = [group for group, leaf in leaves.items() if leaf in of_leaf]
    if not groups:
        return {}
    tasks = Task.objects.filter(group__in=groups, gpu_count__gt=0).order_by("group_id", "position", "retry_id")
    columns = ("group_id", "gpu_count", "gpu_flavors", "platform")
    return {
        group: of_leaf[leaves[group]].permitted(TaskGpus(gpus, tuple(named), platform))
        for group, gpus, named, platform in tasks.distinct("group_id").values_list(*columns)
    }


def later_gang(
    queue: str, gpus: int, size: int, priority: Priority, submitted: Number, flavors: Sequence[str] | None = None
) -> GangFacts:
    """A gang that may arrive later: equal tasks that need GPUs alone, of one of these flavors."""
    size = min(size, gpus)
    each, more = divmod(gpus, size)
    first, *others = (
        tuple(TaskFacts(f"~{i}", {gpu_key(flavor): each + (i < more)}) for i in range(size))
        for flavor in flavors or [DEFAULT_FLAVOR]
    )
    return GangFacts(
        "~", queue, first, priority.priority_class_value, priority.is_preemptible, submitted,
        alternatives=tuple(others),
    )  # fmt: skip
