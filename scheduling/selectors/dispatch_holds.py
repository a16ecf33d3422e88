"""The gangs of a cluster that come first in their pools, and the work that is not dispatched because of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db.models import Exists, OuterRef, Sum

from pools.domain.amounts import GPU
from pools.domain.pool_config import HOLD_AFTER
from pools.models import Backend, Pool
from pools.transactions import database_time
from scheduling.domain.dispatch_holds import DispatchHold, RunningPoolWork, WaitingPoolGang, find_held_back, find_holds
from scheduling.domain.engine.facts import ClusterFacts
from scheduling.domain.engine.kept_state import KeptState
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import ACTIVE_WORKFLOW_STATUSES, TaskStatus
from scheduling.models import Group, Task
from scheduling.selectors.live_facts import LiveFacts, read_live_facts

_RUNNING = (TaskStatus.INITIALIZING, TaskStatus.RUNNING)


@dataclass(frozen=True, slots=True)
class DispatchHolds:
    """`holders`: the gangs that come first; `held`: the gangs that are not dispatched, with the gang before them."""

    holders: Mapping[UUID, DispatchHold] = field(default_factory=dict)
    held: Mapping[UUID, DispatchHold] = field(default_factory=dict)


def read_dispatch_holds(backend: Backend, live: LiveFacts | None = None) -> DispatchHolds:
    """The holds of a Kubernetes backend. One query where no pool of it says `hold_after`; the live facts are read only
    where a gang has waited so long, unless the caller has them."""
    if backend.kind != Backend.Kind.KUBERNETES:
        return DispatchHolds()
    roots = {
        pk: int(config[HOLD_AFTER])
        for pk, config in Pool.objects.roots()
        .not_archived()
        .filter(backend=backend, config__has_key=HOLD_AFTER)
        .values_list("pk", "config")
        if config[HOLD_AFTER] is not None
    }
    if not roots:
        return DispatchHolds()
    now = database_time().timestamp()
    waiting, running = _read_waiting(roots), _read_running(roots)
    found = {root: find_holds(waiting[root], running[root], after, now) for root, after in roots.items()}
    if not any(found.values()):
        return DispatchHolds()
    live = live or read_live_facts(backend)
    possible = _find_possible(live, {hold.holder.group for holds in found.values() for hold in holds})
    quotas = {
        live.leaves[queue.name]: (queue.quota or {}).get(GPU, 0)
        for queue in live.facts.queues
        if queue.name in live.leaves
    }
    holders: dict[UUID, DispatchHold] = {}
    held: dict[UUID, DispatchHold] = {}
    for root, holds in found.items():
        real = [hold for hold in holds if hold.holder.group in possible]
        holders |= {hold.holder.group: hold for hold in real}
        held |= find_held_back(waiting[root], running[root], real, quotas, now)
    return DispatchHolds(holders, held)


def _find_possible(live: LiveFacts, groups: Collection[UUID]) -> set[UUID]:
    """The gangs that would start if all other work ended. A gang that never can must not stop its pool."""
    names = {ref.group: name for name, ref in live.gangs.items() if ref.group in groups}
    facts = {gang.name: gang for gang in live.facts.gangs}
    found = set()
    for group, name in names.items():
        whole = live.facts
        state = KeptState(ClusterFacts(whole.queues, whole.cohorts, (facts[name],), whole.nodes, units=whole.units))
        state.run()
        if state.is_running(name):
            found.add(group)
    return found


def _read_waiting(roots: Collection[int]) -> dict[int, list[WaitingPoolGang]]:
    sent = Exists(Task.objects.filter(group=OuterRef("pk"), dispatched_at__isnull=False, end_time=None))
    rows = (
        Group.objects.filter(
            status=TaskStatus.SCHEDULING,
            workflow__status__in=ACTIVE_WORKFLOW_STATUSES,
            workflow__root_pool__in=roots,
            gpus__gt=0,
        )
        .order_by()
        .values_list(
            "workflow__root_pool_id", "pk", "workflow__pool_id", "workflow__priority", "workflow__submit_time",
            "workflow__name", "position", "gpus", "ready_at", "workflow__exec_timeout", sent,
        )
    )  # fmt: skip
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
            )
        )
    return found


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
            "group__workflow__start_time", "group__workflow__exec_timeout",
        )
        .annotate(Sum("gpu_count"))
    )  # fmt: skip
    found: dict[int, list[RunningPoolWork]] = defaultdict(list)
    for root, leaf, priority, started, limit, gpus in rows:
        found[root].append(RunningPoolWork(leaf, Priority(priority), gpus, _end(started, limit)))
    return found


def _end(started: datetime | None, limit: object) -> float | None:
    return None if started is None or limit is None else (started + limit).timestamp()  # type: ignore[operator]
