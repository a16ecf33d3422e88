"""The gangs of a cluster that come first in their pools, and the work that is not dispatched because of them.

The engine places held work as if it was on the cluster; forecasts, what-ifs and dry runs take part of it out by its
names here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from django.db.models import Exists, OuterRef, QuerySet, Sum
from django.db.models.functions import Coalesce, Now

from pools.database.transactions import database_time
from pools.domain.configuration.pool_fields import HOLD_AFTER
from pools.domain.values.amounts import DEFAULT_FLAVOR, Amount, flavor_of, gpu_key, gpus_in, is_gpu
from pools.models import Backend, Pool
from scheduling.domain.engine.facts import ClusterFacts, GangFacts, StartHold, TaskFacts, TaskState
from scheduling.domain.engine.kept_state import KeptState
from scheduling.domain.flavor_choices import FlavorHolders, GangNeeds
from scheduling.domain.judgement.dispatch_holds import (
    DispatchHold,
    HeldInFlavors,
    RunningPoolWork,
    WaitingPoolGang,
    by_flavor,
    find_held_back,
    find_holds,
    held_in_all,
)
from scheduling.domain.priorities import Priority
from scheduling.domain.reason_codes import ReasonCode
from scheduling.domain.statuses import ACTIVE_WORKFLOW_STATUSES, TaskStatus
from scheduling.models import Group, Task
from scheduling.selectors.queue.live_facts import LiveFacts, read_live_facts

_RUNNING = (TaskStatus.INITIALIZING, TaskStatus.RUNNING)


@dataclass(frozen=True, slots=True)
class _FlavorHolds:
    holds: Sequence[DispatchHold]
    following: Sequence[DispatchHold]
    quotas: Mapping[int, Amount]


@dataclass(frozen=True, slots=True)
class _PoolHolds:
    """What decides about the work of one pool, at one time; the holds by flavor."""

    waiting: Sequence[WaitingPoolGang]
    running: Sequence[RunningPoolWork]
    holds: Mapping[str, _FlavorHolds]
    now: float

    def held_back(
        self, new: Iterable[WaitingPoolGang] = ()
    ) -> tuple[dict[UUID, HeldInFlavors], dict[UUID, HeldInFlavors]]:
        """The gangs that are not dispatched, if this new work waited too, and those that are in other flavors only than
        these."""
        waiting = [*self.waiting, *new]
        work = by_flavor(waiting, self.running)
        return held_in_all(
            waiting,
            {
                flavor: find_held_back(
                    work[flavor].waiting, work[flavor].running, each.holds, each.quotas, self.now, each.following
                )
                for flavor, each in self.holds.items()
            },
        )


@dataclass(frozen=True, slots=True)
class DispatchHolds:
    """`holders`: the gangs that come first; `held`: the gangs that are not dispatched, with the gangs before them;
    `barred`: those that are not in some of their flavors; `names`: of the gangs that come first, as the live facts call
    them."""

    holders: Mapping[UUID, DispatchHold] = field(default_factory=dict)
    held: Mapping[UUID, HeldInFlavors] = field(default_factory=dict)
    barred: Mapping[UUID, HeldInFlavors] = field(default_factory=dict)
    names: Mapping[UUID, str] = field(default_factory=dict)
    _pools: Mapping[int, _PoolHolds] = field(default_factory=dict)

    def held_names(self, live: LiveFacts, new: Iterable[GangFacts] = ()) -> dict[str, FlavorHolders]:
        """The gangs of the facts that are not dispatched in some or all of their flavors, by name. `new`: gangs that
        would be submitted now, in this order."""
        found = {
            name: self._names(held)
            for name, ref in live.gangs.items()
            if (held := self.held.get(ref.group) or self.barred.get(ref.group))
        }
        if not self._pools:
            return found
        parents = {queue.name: queue.parent for queue in live.facts.queues}
        by_root: dict[int, dict[UUID, GangFacts]] = {}
        for gang in new:
            root = live.roots.get(parents.get(gang.queue) or "")
            if root is not None and root in self._pools and gang.queue in live.leaves:
                by_root.setdefault(root, {})[uuid4()] = gang
        for root, gangs in by_root.items():
            pool = self._pools[root]
            rows = [_waiting_gang(group, gang, live.leaves[gang.queue], pool.now) for group, gang in gangs.items()]
            whole, partly = pool.held_back(rows)
            kept = {**whole, **partly}
            found |= {gangs[row.group].name: self._names(kept[row.group]) for row in rows if row.group in kept}
        return found

    def _names(self, held: HeldInFlavors) -> FlavorHolders:
        return {flavor: tuple(self.names[hold.holder.group] for hold in each.holds) for flavor, each in held.items()}

    def all_before(self, held: HeldInFlavors) -> list[str]:
        """The names of the gangs that keep a gang here, in whichever flavor."""
        return list(dict.fromkeys(name for first in self._names(held).values() for name in first))


def held_by(held: Mapping[str, FlavorHolders], is_left: Callable[[str], bool]) -> dict[str, FlavorHolders]:
    """What is still held if only these gangs, by name, are left to come first."""
    found = {
        name: {flavor: first for flavor, first in flavors.items() if any(map(is_left, first))}
        for name, flavors in held.items()
    }
    return {name: flavors for name, flavors in found.items() if flavors}


def with_holds(facts: ClusterFacts, held: Mapping[str, FlavorHolders]) -> ClusterFacts:
    """The facts in which these gangs do not start in these flavors: they are sent there when the gangs before them have
    started."""
    if not held:
        return facts

    def with_hold(gang: GangFacts) -> GangFacts:
        return gang if gang.name not in held else gang.without(held[gang.name]) or replace(gang, hold=_HOLD)

    return replace(facts, gangs=tuple(map(with_hold, facts.gangs)))


_HOLD = StartHold(
    ReasonCode.HELD_BACK,
    "It is not sent to the cluster yet: earlier work of its pool has waited long and comes first.",
    "The work that comes first starts, or is cancelled",
)


def _waiting_gang(group: UUID, gang: GangFacts, leaf: int, now: float) -> WaitingPoolGang:
    """Work that would be submitted now, as the last of its priority."""
    gpus = sum(int(gpus_in(task.request)) for task in gang.tasks)
    limit = None if gang.time_limit is None else float(gang.time_limit)
    order = (now, gang.name, 0)
    return WaitingPoolGang(
        group, leaf, _priority_of(gang), order, gpus, now, is_dispatched=False, limit=limit,
        choices=_choices(gang, gpus),
    )  # fmt: skip


def _needs_of(tasks: Iterable[TaskFacts]) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for task in tasks:
        for key, amount in task.request.items():
            if is_gpu(key):
                found[flavor_of(key)] += int(amount)
    return found


def _priority_of(gang: GangFacts) -> Priority:
    return next(
        (each for each in Priority if each.priority_class_value == gang.priority),
        Priority.LOW if gang.preemptible else Priority.NORMAL,
    )


def read_dispatch_holds(backend: Backend, live: LiveFacts | None = None) -> DispatchHolds:
    """The holds of a Kubernetes backend. Where no pool of it says `hold_after`: one query, or none if the caller has
    the live facts; one more where no gang has waited so long. Only then the rest is read."""
    if backend.kind != Backend.Kind.KUBERNETES:
        return DispatchHolds()
    roots = _read_hold_after(backend) if live is None else live.hold_after
    if not roots or not _has_waited(roots):
        return DispatchHolds()
    now = database_time().timestamp()
    waiting, running = _read_waiting(roots), _read_running(roots)
    found = {
        root: {
            flavor: find_holds(work.waiting, work.running, after, now)
            for flavor, work in by_flavor(waiting[root], running[root]).items()
        }
        for root, after in roots.items()
    }
    heads = [hold for flavors in found.values() for first, _following in flavors.values() for hold in first]
    if not heads:
        return DispatchHolds()
    live = live or read_live_facts(backend)
    possible = _find_possible(live, heads, now)
    holders: dict[UUID, DispatchHold] = {}
    held: dict[UUID, HeldInFlavors] = {}
    barred: dict[UUID, HeldInFlavors] = {}
    pools: dict[int, _PoolHolds] = {}
    for root, flavors in found.items():
        real = {
            flavor: _FlavorHolds(mine, following, _quotas(live, flavor))
            for flavor, (first, following) in flavors.items()
            if (mine := [hold for hold in first if hold.holder.group in possible])
        }
        if real:
            pools[root] = _PoolHolds(_with_choices(waiting[root], live), running[root], real, now)
            holders |= {hold.holder.group: hold for each in real.values() for hold in each.holds}
            whole, partly = pools[root].held_back()
            held |= whole
            barred |= partly
    names = {ref.group: name for name, ref in live.gangs.items() if ref.group in holders}
    return DispatchHolds(holders, held, barred, names, pools)


def _quotas(live: LiveFacts, flavor: str) -> dict[int, Amount]:
    """The quotas of the leaves in this flavor."""
    key = gpu_key(flavor)
    return {
        live.leaves[queue.name]: (queue.quota or {}).get(key, 0)
        for queue in live.facts.queues
        if queue.name in live.leaves
    }


def _read_hold_after(backend: Backend) -> dict[int, int]:
    pools = Pool.objects.roots().not_archived().filter(backend=backend, config__has_key=HOLD_AFTER)
    return {
        pk: int(config[HOLD_AFTER])
        for pk, config in pools.values_list("pk", "config")
        if config[HOLD_AFTER] is not None
    }


def _find_possible(live: LiveFacts, holds: Iterable[DispatchHold], now: float) -> set[UUID]:
    """The gangs that would start if all other work ended. A gang that never can must not stop its pool; nor one that
    could start in addition to all that runs and has not, after a long hold."""
    by_group = {hold.holder.group: hold for hold in holds}
    whole, found = live.facts, set()
    facts = {gang.name: gang for gang in whole.gangs}
    running = tuple(gang for gang in whole.gangs if any(task.state is TaskState.RUNNING for task in gang.tasks))
    for name, ref in live.gangs.items():
        if ref.group not in by_group:
            continue
        alone = ClusterFacts(whole.queues, whole.cohorts, (facts[name],), whole.nodes, units=whole.units)
        together = replace(whole, gangs=(*running, facts[name]), demand={}, policy=None)
        if _starts(alone, name) and not (by_group[ref.group].may_be_in_vain(now) and _starts(together, name)):
            found.add(ref.group)
    return found


def _starts(facts: ClusterFacts, name: str) -> bool:
    state = KeptState(facts)
    state.run()
    return state.is_running(name)


def _has_waited(hold_after: Mapping[int, int]) -> bool:
    """Whether a gang on the cluster has waited as long as the shortest of these."""
    since = Coalesce("ready_at", "workflow__submit_time")
    least = Now() - timedelta(seconds=min(hold_after.values()))
    return _waiting_groups(hold_after).filter(_SENT).annotate(since=since).filter(since__lte=least).exists()


def _waiting_groups(roots: Collection[int]) -> QuerySet[Group]:
    return Group.objects.filter(
        status=TaskStatus.SCHEDULING,
        workflow__status__in=ACTIVE_WORKFLOW_STATUSES,
        workflow__root_pool__in=roots,
        gpus__gt=0,
    ).order_by()


_SENT = Exists(Task.objects.filter(group=OuterRef("pk"), dispatched_at__isnull=False, end_time=None))


def _read_waiting(roots: Collection[int]) -> dict[int, list[WaitingPoolGang]]:
    rows = _waiting_groups(roots).values_list(
        "workflow__root_pool_id", "pk", "workflow__pool_id", "workflow__priority", "workflow__submit_time",
        "workflow__name", "position", "gpus", "ready_at", "workflow__exec_timeout", _SENT,
    )  # fmt: skip
    sent = _read_sent_flavors(roots)
    found: dict[int, list[WaitingPoolGang]] = defaultdict(list)
    for root, group, leaf, priority, submitted, name, position, gpus, ready, limit, is_sent in rows:
        found[root].append(
            WaitingPoolGang(
                group,
                leaf,
                Priority(priority),
                (submitted.timestamp(), name, position),
                gpus,
                (ready or submitted).timestamp(),
                is_sent,
                None if limit is None else limit.total_seconds(),
                sent.get(group, ()),
            )
        )
    return found


def _read_sent_flavors(roots: Collection[int]) -> dict[UUID, GangNeeds]:
    """The GPUs by flavor of the waiting gangs of these pools that have one on their cluster. One query."""
    sent = Task.objects.filter(group__in=_waiting_groups(roots), dispatched_at__isnull=False, end_time=None)
    found: dict[UUID, dict[str, int]] = defaultdict(dict)
    rows = sent.exclude(flavor="").order_by().values_list("group_id", "flavor").annotate(Sum("gpu_count"))
    for group, flavor, gpus in rows:
        found[group][flavor] = gpus
    return {group: (need,) for group, need in found.items()}


def _with_choices(waiting: Iterable[WaitingPoolGang], live: LiveFacts) -> list[WaitingPoolGang]:
    """The same with the flavors that the others may get, as the live facts have them."""
    facts = {gang.name: gang for gang in live.facts.gangs}
    found = {ref.group: facts[name] for name, ref in live.gangs.items() if name in facts}

    def with_choices(work: WaitingPoolGang) -> WaitingPoolGang:
        gang = found.get(work.group)
        return work if work.choices or gang is None else replace(work, choices=_choices(gang, work.gpus))

    return [with_choices(work) for work in waiting]


def _choices(gang: GangFacts, gpus: int) -> GangNeeds:
    """The GPUs by flavor of each choice; `gpus`: the least with which it starts."""
    found = [_needs_of(tasks) for tasks in gang.choices]
    return tuple(dict.fromkeys(need, gpus) if len(need) == 1 else need for need in found)


def _read_running(roots: Collection[int]) -> dict[int, list[RunningPoolWork]]:
    """By workflow: its time limit counts from its first start."""
    rows = (
        Task.objects.filter(
            status__in=_RUNNING, gpu_count__gt=0, group__workflow__root_pool__in=roots,
            group__workflow__status__in=ACTIVE_WORKFLOW_STATUSES,
        )
        .order_by()
        .values_list(
            "group__workflow__root_pool_id", "group__workflow__pool_id", "group__workflow__priority",
            "group__workflow__start_time", "group__workflow__exec_timeout", "flavor",
        )
        .annotate(Sum("gpu_count"))
    )  # fmt: skip
    found: dict[int, list[RunningPoolWork]] = defaultdict(list)
    for root, leaf, priority, started, limit, flavor, gpus in rows:
        work = RunningPoolWork(leaf, Priority(priority), gpus, _end(started, limit), flavor or DEFAULT_FLAVOR)
        found[root].append(work)
    return found


def _end(started: datetime | None, limit: object) -> float | None:
    return None if started is None or limit is None else (started + limit).timestamp()  # type: ignore[operator]
