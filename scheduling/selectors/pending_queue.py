"""Everybody who waits on one backend, in line and with the reason.

What the engine says of a backend is the same for everybody; who may read how much of it is another question
(:mod:`scheduling.selectors.visible_queue`), and so is how long it is kept (:mod:`scheduling.selectors.pending_queue_cache`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import starmap
from typing import Any
from uuid import UUID

from django.db.models import Count, QuerySet

from pools.domain.names import SHARED_QUEUE, queue_name, split_name
from pools.models import Backend
from scheduling.domain.engine.explain import Reason, ReasonCode
from scheduling.domain.engine.outcome import queue_positions, waiting_reasons
from scheduling.domain.engine.remedies import Remedy
from scheduling.domain.engine.world import World
from scheduling.domain.statuses import ACTIVE_WORKFLOW_STATUSES, UNFINISHED_TASK_STATUSES, TaskStatus
from scheduling.garbage_collector import garbage_collector
from scheduling.models import Group
from scheduling.selectors.cluster_reasons import reason_from_cluster
from scheduling.selectors.live_facts import LiveFacts, read_live_facts

WAITS_FOR_GROUPS = "waiting_for_groups"
WAITS_FOR_CLUSTER = "waiting_for_cluster"
NOT_PLACED_YET = "not_placed_yet"
WAITING_STATUSES = UNFINISHED_TASK_STATUSES - {TaskStatus.INITIALIZING, TaskStatus.RUNNING}


@dataclass(frozen=True, slots=True)
class GangOwner:
    """Whose work a gang is: enough to know who may see it. `root` is the top-level pool's name, `workflow` its id."""

    workflow: str
    root: str
    owner_id: int


@dataclass(frozen=True, slots=True)
class PendingGang:
    """One gang that waits. `position` counts everybody on the backend, `position_in_queue` its own queue, from 1;
    `gpus` is the least it starts with."""

    ownership: GangOwner
    group: str
    pool: str
    queue: str
    owner: str
    priority: str
    submit_time: datetime
    gpus: int
    position: int
    position_in_queue: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class PendingQueue:
    """One backend at one moment: how many waited in each queue; who waits, by position; the same by the group's row;
    whose every gang is, by the names that remedies use."""

    backend: str
    lengths: Mapping[str, int]
    gangs: tuple[PendingGang, ...]
    by_group: Mapping[UUID, PendingGang]
    owners: Mapping[str, GangOwner]

    @property
    def length(self) -> int:
        """How many waited in all."""
        return sum(self.lengths.values())


@dataclass(frozen=True, slots=True)
class _OpenGroup:
    """An open group of a live workflow, from its rows."""

    group: UUID
    name: str
    status: str
    gpus: int
    upstream: list[str]
    position: int
    workflow: str
    owner_id: int
    owner: str
    pool: str
    root: str
    priority: str
    submit_time: datetime
    waiting_reason: Mapping[str, Any] | None

    @property
    def ownership(self) -> GangOwner:
        return GangOwner(self.workflow, self.root, self.owner_id)


def build_pending_queue(backend: Backend) -> PendingQueue:
    """The line as the transaction sees it."""
    live, rows = read_live_facts(backend), _read_open_groups(backend)
    found = [*_engine_entries(backend, live, rows), *_blocked_entries(backend, rows.values())]
    found.sort(key=lambda entry: entry[1].position)
    placed, in_queue = [], dict[str, int]()
    for position, (group, entry) in enumerate(found, 1):
        in_queue[entry.queue] = in_queue.get(entry.queue, 0) + 1
        placed.append((group, replace(entry, position=position, position_in_queue=in_queue[entry.queue])))
    owned = {name: rows[gang.group].ownership for name, gang in live.gangs.items() if gang.group in rows}
    return PendingQueue(backend.name, in_queue, tuple(entry for _, entry in placed), dict(placed), owned)


def build_unplaced_queue(backend: Backend, groups: Collection[UUID]) -> PendingQueue:
    """A line that says how many wait besides these groups, and of nobody where. One query."""
    others = _waiting_groups(backend).exclude(pk__in=groups).values_list("workflow__pool__name").annotate(Count("pk"))
    return PendingQueue(backend.name, {_queue_name(backend, pool): waiting for pool, waiting in others}, (), {}, {})


def add_recent_arrivals(backend: Backend, queue: PendingQueue) -> PendingQueue:
    """An older line with those alone who wait now. Who came since then stands last, until his place is found."""
    now = set(_waiting_groups(backend).values_list("pk", flat=True))
    late = recent_arrivals(backend, queue, now - queue.by_group.keys())
    by_group = {group: entry for group, entry in queue.by_group.items() if group in now} | late
    return PendingQueue(queue.backend, queue.lengths, tuple(by_group.values()), by_group, queue.owners)


def recent_arrivals(backend: Backend, queue: PendingQueue, groups: Collection[UUID]) -> dict[UUID, PendingGang]:
    """Entries for groups that wait and have no place in a line, most often because it was made before they came."""
    if not groups:
        return {}
    found: dict[UUID, PendingGang] = {}
    in_queue = Counter(queue.lengths)
    for group, row in _read_open_groups(backend, groups).items():
        entry = _entry(backend, row, queue.length + len(found) + 1, _NOT_PLACED_REASON)
        in_queue[entry.queue] += 1
        found[group] = replace(entry, position_in_queue=in_queue[entry.queue])
    return found


_NOT_PLACED_REASON = Reason(
    NOT_PLACED_YET,
    "So many wait here that places are found every few seconds. This one is not found yet; until then it stands last.",
    None,
    remedies=(Remedy("Ask again in a moment"),),
)


def _waiting_groups(backend: Backend) -> QuerySet[Group]:
    return _open_group_rows(backend).filter(status__in=WAITING_STATUSES).order_by()


def _open_group_rows(backend: Backend) -> QuerySet[Group]:
    return Group.objects.filter(
        workflow__root_pool__backend=backend,
        workflow__status__in=ACTIVE_WORKFLOW_STATUSES,
        status__in=UNFINISHED_TASK_STATUSES,
    )


def _read_open_groups(backend: Backend, groups: Collection[UUID] | None = None) -> dict[UUID, _OpenGroup]:
    work = _open_group_rows(backend) if groups is None else _open_group_rows(backend).filter(pk__in=groups)
    columns = work.order_by("workflow__submit_time", "workflow__name", "position").values_list(
        "pk", "name", "status", "gpus", "upstream", "position", "workflow__name", "workflow__submitted_by_id",
        "workflow__submitted_by__username", "workflow__pool__name", "workflow__root_pool__name", "workflow__priority",
        "workflow__submit_time", "waiting_reason",
    )  # fmt: skip
    return {row.group: row for row in starmap(_OpenGroup, columns)}


def _engine_entries(
    backend: Backend, live: LiveFacts, rows: Mapping[UUID, _OpenGroup]
) -> Iterable[tuple[UUID, PendingGang]]:
    """Those who are in line for GPUs, in the order of the next pass."""
    with garbage_collector.paused():
        world = World(live.facts)
        where, reasons = queue_positions(world), waiting_reasons(world)
    for name, reason in reasons.items():
        row = rows.get(live.gangs[name].group)
        if row is not None:
            said = reason
            if backend.kind == Backend.Kind.KUBERNETES:
                said = reason_from_cluster(row.waiting_reason, _cluster_reason(reason))
            yield row.group, _entry(backend, row, where[name].overall, said)


def _blocked_entries(backend: Backend, rows: Iterable[_OpenGroup]) -> Iterable[tuple[UUID, PendingGang]]:
    """Those whose turn has not come, behind everybody who is in line, by age."""
    statuses: dict[tuple[str, str], str] = {}
    waiting = []
    for row in rows:
        statuses[row.workflow, row.name] = row.status
        if row.status == TaskStatus.WAITING:
            waiting.append(row)
    for place, row in enumerate(waiting):
        before = [(name, statuses[row.workflow, name]) for name in row.upstream if (row.workflow, name) in statuses]
        yield (
            row.group,
            _entry(backend, row, 10**9 + place, _upstream_reason(before, queue=_queue_name(backend, row.pool))),
        )


def _upstream_reason(before: list[tuple[str, str]], *, queue: str) -> Reason:
    told = " and ".join(f"{name} ({status})" for name, status in before)
    message = f"It starts when the groups before it have completed: {told or 'they just did'}."
    remedies = tuple(Remedy(f"Group {name}, which is {status}, completes") for name, status in before)
    return Reason(WAITS_FOR_GROUPS, message, queue, remedies=remedies)


def _cluster_reason(reason: Reason) -> Reason:
    """Where a cluster places the work, nothing in our way does not mean that it starts in our next pass."""
    if reason.code != ReasonCode.NEXT_PASS:
        return reason
    message = "Every quota lets it start; it waits until the scheduler of the cluster has placed it."
    return Reason(WAITS_FOR_CLUSTER, message, reason.queue, remedies=(Remedy("The cluster has room for it"),))


def _entry(backend: Backend, row: _OpenGroup, position: int, reason: Reason) -> PendingGang:
    return PendingGang(
        ownership=row.ownership,
        group=row.name,
        pool=row.pool,
        queue=_queue_name(backend, row.pool),
        owner=row.owner,
        priority=row.priority,
        submit_time=row.submit_time,
        gpus=row.gpus,
        position=position,
        position_in_queue=0,
        reason=reason,
    )


def _queue_name(backend: Backend, pool: str) -> str:
    path = split_name(pool)
    return queue_name(backend.namespace, path.parent, path.subpool or SHARED_QUEUE)
