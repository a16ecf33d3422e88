"""The pending queue of one backend: all gangs that wait, in order, each with its reason.

The queue is the same for every reader. The part that one reader may see is selected in
:mod:`scheduling.selectors.queue.visible_queue`; the queue is cached in
:mod:`scheduling.selectors.queue.pending_queue_cache`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import starmap
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.db.models import Count, QuerySet

from pools.database.prepared import read_rows
from pools.database.statements import execute_sql
from pools.domain.names import SHARED_QUEUE, queue_name, split_name
from pools.domain.values.amounts import Amount, gpus_in, is_gpu
from pools.models import Backend
from pools.selectors.change_tokens import read_token, token_sql
from scheduling.domain.engine.cycle import new_world
from scheduling.domain.engine.outcome import NO_PODS, OptionalPods, queue_positions, waiting_reasons
from scheduling.domain.engine.reasons.explain import Reason
from scheduling.domain.engine.reasons.remedies import Remedy
from scheduling.domain.engine.rules.world import World
from scheduling.domain.engine.state.records import QueueState
from scheduling.domain.reason_codes import ReasonCode
from scheduling.domain.statuses import ACTIVE_WORKFLOW_STATUSES, UNFINISHED_TASK_STATUSES, TaskStatus
from scheduling.garbage_collector import garbage_collector
from scheduling.models import Group, Task
from scheduling.selectors.queue.cluster_gangs import read_ending_pods, read_gang_places
from scheduling.selectors.queue.cluster_reasons import (
    reason_from_cluster,
    with_ending_pods,
    with_sent_flavor,
)
from scheduling.selectors.queue.dispatch_holds import read_dispatch_holds
from scheduling.selectors.queue.live_facts import LiveFacts, read_live_facts
from scheduling.selectors.queue.topology_needs import with_topology

LARGE_QUEUE = 2000
"""A queue with this number of waiting gangs is large: the engine needs seconds to place and explain them."""

WAITING_STATUSES = UNFINISHED_TASK_STATUSES - {TaskStatus.INITIALIZING, TaskStatus.RUNNING}


@dataclass(frozen=True, slots=True)
class GangOwner:
    """The owner of a gang, enough to decide who may see it. `root` is the name of the top-level pool, `workflow` the id
    of the workflow."""

    workflow: str
    root: str
    owner_id: int


@dataclass(frozen=True, slots=True)
class StartPromise:
    """The start reservation of a gang. `latest_start`: None where the end of some work is not known; `is_certain`: time
    limits say so, and not expected run times. `nodes`: the reserved GPUs; None while quotas or limits stop the gang,
    and on a cluster, where later work of the pool is held back (`holds_dispatch`). `passed_by`: gangs of its queue that
    came later, are not larger, and have started before it."""

    since: datetime
    latest_start: datetime | None
    is_certain: bool
    nodes: Mapping[str, int] | None
    passed_by: int
    holds_dispatch: bool = False


@dataclass(frozen=True, slots=True)
class PendingGang:
    """One gang that waits. `position` counts all gangs of the backend, `position_in_queue` those of its queue, both
    from 1; `gpus` is the minimum that it starts with, `waits_since` the begin of its present wait."""

    ownership: GangOwner
    group_id: UUID
    group: str
    pool: str
    queue: str
    owner: str
    priority: str
    submit_time: datetime
    waits_since: datetime
    gpus: int
    position: int
    position_in_queue: int
    reason: Reason
    promise: StartPromise | None = None
    behind: OptionalPods = NO_PODS


@dataclass(frozen=True, slots=True)
class PendingQueue:
    """The pending queue of one backend at one time.

    `lengths` are the numbers of waiting gangs by queue; `gangs` are the waiting gangs by position, `by_group` the same
    by the id of the group; `owners` are the owners of all gangs by the names that remedies use. `fair_shares` are GPUs
    by queue; without a placement nothing is known of them.
    """

    backend: str
    lengths: Mapping[str, int]
    gangs: tuple[PendingGang, ...]
    by_group: Mapping[UUID, PendingGang]
    owners: Mapping[str, GangOwner]
    fair_shares: Mapping[str, Amount] = field(default_factory=dict)
    _kept: dict[str, list[PendingGang]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def by_pool(self) -> Mapping[str, list[PendingGang]]:
        """The waiting gangs by the canonical name of their leaf, in the order of their positions. Kept: readers ask for
        one pool after another of a queue that stays the same."""
        if not self._kept and self.gangs:
            found: dict[str, list[PendingGang]] = {}
            for gang in self.gangs:
                found.setdefault(gang.pool, []).append(gang)
            self._kept.update(found)
        return self._kept

    @property
    def length(self) -> int:
        """The number of waiting gangs."""
        return sum(self.lengths.values())

    @property
    def is_large(self) -> bool:
        """Whether positions and reasons may be some seconds old."""
        return self.length >= LARGE_QUEUE


@dataclass(frozen=True, slots=True)
class _OpenGroup:
    """An open group of an active workflow, from its rows."""

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
    ready_at: datetime | None

    @property
    def ownership(self) -> GangOwner:
        return GangOwner(self.workflow, self.root, self.owner_id)


def build_pending_queue(backend: Backend) -> PendingQueue:
    """The pending queue as the transaction sees it."""
    live, rows = with_topology(backend, read_live_facts(backend)), _read_open_groups(backend)
    with garbage_collector.paused():
        world = new_world(live.facts)
        found = [*_engine_entries(backend, live, rows, world), *_blocked_entries(backend, rows.values())]
        shares = {queue.fact.name: _gpu_share(world, queue) for queue in world.queues}
    found.sort(key=lambda entry: entry[1].position)
    placed, in_queue = [], dict[str, int]()
    for position, (group, entry) in enumerate(found, 1):
        in_queue[entry.queue] = in_queue.get(entry.queue, 0) + 1
        placed.append((group, replace(entry, position=position, position_in_queue=in_queue[entry.queue])))
    owned = {name: rows[gang.group].ownership for name, gang in live.gangs.items() if gang.group in rows}
    return PendingQueue(backend.name, in_queue, tuple(entry for _, entry in placed), dict(placed), owned, shares)


def _gpu_share(world: World, queue: QueueState) -> Amount:
    return sum(share for key, share in zip(world.keys, queue.fair, strict=True) if is_gpu(key))


def build_unplaced_queue(backend: Backend, groups: Collection[UUID]) -> PendingQueue:
    """The number of waiting gangs besides these groups, without positions. One query."""
    others = _waiting_groups(backend).exclude(pk__in=groups).values_list("workflow__pool__name").annotate(Count("pk"))
    return PendingQueue(backend.name, {_queue_name(backend, pool): waiting for pool, waiting in others}, (), {}, {})


def add_recent_arrivals(backend: Backend, queue: PendingQueue, *, pools: Collection[str] = ()) -> PendingQueue:
    """An older queue with exactly the gangs that wait now, of all leaves or of those with these names. Gangs that
    arrived since are last, until their positions are known."""
    known = queue.by_group
    if pools:  # so that the cost is that of the leaves, and not of a long queue
        gangs = [gang for pool in pools for gang in queue.by_pool().get(pool, ())]
        known = {gang.group_id: gang for gang in sorted(gangs, key=_position)}
    now = _waiting_now(backend, pools)
    late = recent_arrivals(backend, queue, now - known.keys())
    by_group = {group: entry for group, entry in known.items() if group in now} | late
    return PendingQueue(
        queue.backend, queue.lengths, tuple(by_group.values()), by_group, queue.owners, queue.fair_shares
    )


_position = attrgetter("position")


def _waiting_now(backend: Backend, pools: Collection[str]) -> set[UUID]:
    """The groups that wait, of all leaves or of those with these names. By hand: every page of a long queue asks."""
    rows = (
        read_rows(_WAITING_OF_LEAVES_SQL, [backend.pk, list(pools)]) if pools else read_rows(_WAITING_SQL, [backend.pk])
    )
    return {group for (group,) in rows}


def _in_sql(values: Iterable[str]) -> str:
    return ", ".join(f"'{value}'" for value in sorted(values))


_WAITING_SQL = f"""
    SELECT gang.uuid FROM scheduling_group gang
    JOIN scheduling_workflow work ON work.uuid = gang.workflow_id
    JOIN pools_pool root ON root.id = work.root_pool_id
    WHERE root.backend_id = %s AND work.status IN ({_in_sql(ACTIVE_WORKFLOW_STATUSES)})
        AND gang.status IN ({_in_sql(WAITING_STATUSES)})
"""
_WAITING_OF_LEAVES_SQL = f"{_WAITING_SQL} AND work.pool_id IN (SELECT id FROM pools_pool WHERE name = ANY(%s))"


def recent_arrivals(backend: Backend, queue: PendingQueue, groups: Collection[UUID]) -> dict[UUID, PendingGang]:
    """Entries for waiting groups without a position, mostly because the queue was built before they arrived."""
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
    ReasonCode.NOT_PLACED_YET,
    "The queue is long, so positions are updated every few seconds. This position is not known yet; until then the "
    "gang is shown last.",
    None,
    remedies=(Remedy(ReasonCode.NOT_PLACED_YET.remedy),),
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
        "workflow__submit_time", "waiting_reason", "ready_at",
    )  # fmt: skip
    return {row.group: row for row in starmap(_OpenGroup, columns)}


def _engine_entries(
    backend: Backend, live: LiveFacts, rows: Mapping[UUID, _OpenGroup], world: World
) -> Iterable[tuple[UUID, PendingGang]]:
    """The gangs that wait for GPUs, in the order of the next pass."""
    where, reasons = queue_positions(world), waiting_reasons(world)
    promises = _promises(live, world, rows) | _dispatch_promises(backend, live, rows)
    is_cluster = backend.kind == Backend.Kind.KUBERNETES
    ending = read_ending_pods(backend) if is_cluster else ()
    places = read_gang_places(rows) if ending else {}
    sent = _read_sent_flavors(rows) if is_cluster and any(ref.choices for ref in live.gangs.values()) else {}
    for name, reason in reasons.items():
        row = rows.get(live.gangs[name].group)
        if row is not None:
            visible_reason = reason
            if is_cluster:
                found = reason_from_cluster(row.waiting_reason, _cluster_reason(reason))
                found = with_sent_flavor(found, *sent.get(row.group, ("", ())))
                mine = places.get(row.group, ())
                visible_reason = with_ending_pods(found, [pod for pod in ending if pod.place in mine])
            entry = _entry(backend, row, where[name].overall, visible_reason)
            yield row.group, replace(entry, promise=promises.get(name), behind=where[name].behind)


def _read_sent_flavors(groups: Collection[UUID]) -> dict[UUID, tuple[str, Sequence[tuple[str, str]]]]:
    """Of the gangs that are on their cluster in a GPU flavor, that one, and those before it with why they did not get
    them."""
    sent = Task.objects.filter(group__in=groups, dispatched_at__isnull=False, end_time=None).exclude(flavor="")
    found: dict[UUID, tuple[str, Sequence[tuple[str, str]]]] = {}
    rows = sent.order_by("flavor").values_list("group_id", "flavor", "group__passed_flavors")
    for group, flavor, passed in rows.distinct():
        before = found[group][0] if group in found else ""
        found[group] = f"{before} and {flavor}" if before else flavor, [(name, why) for name, why in passed]
    return found


def _promises(live: LiveFacts, world: World, rows: Mapping[UUID, _OpenGroup]) -> dict[str, StartPromise]:
    """The start reservations, by the name of the gang. One query if there are any."""
    policy = world.policy
    held = () if policy is None else tuple(policy.reservations())
    held = tuple(each for each in held if live.gangs[each.gang].group in rows)
    if policy is None or not held:
        return {}
    passed = _passed_by([live.gangs[each.gang].group for each in held])
    found = {}
    for each in held:
        latest = policy.latest_start(each.gang)
        time = None if latest is None or latest.time is None else datetime.fromtimestamp(float(latest.time), tz=UTC)
        found[each.gang] = StartPromise(
            datetime.fromtimestamp(float(each.since), tz=UTC),
            time,
            latest is not None and latest.is_certain,
            None if each.nodes is None else {node: int(gpus_in(have)) for node, have in each.nodes.items()},
            passed.get(live.gangs[each.gang].group, 0),
        )
    return found


def _dispatch_promises(backend: Backend, live: LiveFacts, rows: Mapping[UUID, _OpenGroup]) -> dict[str, StartPromise]:
    """The gangs of a cluster for which later work of their pool is held back, by their name."""
    holders = read_dispatch_holds(backend, live).holders
    names = {ref.group: name for name, ref in live.gangs.items() if ref.group in holders and ref.group in rows}
    if not names:
        return {}
    passed = _passed_by(list(names))
    return {
        name: StartPromise(
            datetime.fromtimestamp(holders[group].since, tz=UTC),
            None if (latest := holders[group].latest_start) is None else datetime.fromtimestamp(latest, tz=UTC),
            is_certain=False,  # other pools may have the nodes
            nodes=None,
            passed_by=passed.get(group, 0),
            holds_dispatch=True,
        )
        for group, name in names.items()
    }


def _passed_by(groups: Collection[UUID]) -> dict[UUID, int]:
    """The number of gangs that have passed each of these."""
    return dict(execute_sql(_PASSED_BY, [list(groups)]).fetchall())


_PASSED_BY = """
    SELECT gang.uuid, count(*) FROM scheduling_group gang
    JOIN scheduling_workflow work ON work.uuid = gang.workflow_id
    JOIN scheduling_workflow later ON later.pool_id = work.pool_id AND later.submit_time > work.submit_time
    JOIN scheduling_group other ON other.workflow_id = later.uuid AND other.gpus <= gang.gpus
        AND other.start_time >= gang.ready_at
    WHERE gang.uuid = ANY(%s) GROUP BY gang.uuid
"""


def _blocked_entries(backend: Backend, rows: Iterable[_OpenGroup]) -> Iterable[tuple[UUID, PendingGang]]:
    """The gangs that wait for other groups of their workflow, behind all others, by age."""
    statuses: dict[tuple[str, str], str] = {}
    waiting = []
    for row in rows:
        statuses[row.workflow, row.name] = row.status
        if row.status == TaskStatus.WAITING:
            waiting.append(row)
    for index, row in enumerate(waiting):
        before = [(name, statuses[row.workflow, name]) for name in row.upstream if (row.workflow, name) in statuses]
        yield (
            row.group,
            _entry(backend, row, 10**9 + index, _upstream_reason(before, queue=_queue_name(backend, row.pool))),
        )


def _upstream_reason(before: list[tuple[str, str]], *, queue: str) -> Reason:
    states = " and ".join(f"{name} ({status})" for name, status in before)
    message = f"It starts when the groups before it have completed: {states or 'they just did'}."
    remedies = tuple(Remedy(f"Group {name}, which is {status}, completes") for name, status in before)
    return Reason(ReasonCode.WAITING_FOR_GROUPS, message, queue, remedies=remedies)


def _cluster_reason(reason: Reason) -> Reason:
    """The reason for a gang of a cluster that no quota blocks: the cluster, not our engine, starts it."""
    if reason.code != ReasonCode.NEXT_PASS:
        return reason
    message = "Every quota lets it start; it waits until the scheduler of the cluster has placed it."
    code = ReasonCode.WAITING_FOR_CLUSTER
    return Reason(code, message, reason.queue, remedies=(Remedy(code.remedy),))


def _entry(backend: Backend, row: _OpenGroup, position: int, reason: Reason) -> PendingGang:
    return PendingGang(
        ownership=row.ownership,
        group_id=row.group,
        group=row.name,
        pool=row.pool,
        queue=_queue_name(backend, row.pool),
        owner=row.owner,
        priority=row.priority,
        submit_time=row.submit_time,
        waits_since=row.ready_at or row.submit_time,
        gpus=row.gpus,
        position=position,
        position_in_queue=0,
        reason=reason,
    )


def _queue_name(backend: Backend, pool: str) -> str:
    path = split_name(pool)
    return queue_name(backend.namespace, path.parent, path.subpool or SHARED_QUEUE)


# In a cohort tree the work that waits here depends on all pools of the tree, on any backend.
_SUBJECTS_SQL = """
        SELECT 'backend/' || %(backend)s
        UNION SELECT 'namespace/' || (config ->> 'gpu_quota_namespace') FROM pools_pool WHERE backend_id = %(backend)s
        UNION SELECT 'backend/' || backend_id FROM pools_pool WHERE cohort_id IS NOT NULL
            AND EXISTS (SELECT FROM pools_pool WHERE backend_id = %(backend)s AND cohort_id IS NOT NULL)
"""
_TOKEN_SQL = token_sql(f"subject IN ({_SUBJECTS_SQL})")


def queue_subjects(backend: Backend) -> list[str]:
    """The subjects of that token."""
    return sorted(subject for (subject,) in read_rows(_SUBJECTS_SQL, {"backend": backend.pk}) if subject is not None)


def read_queue_token(backend: Backend) -> str:
    """The token of everything from which the pending queue is built. One query."""
    return read_token(_TOKEN_SQL, {"backend": backend.pk})
