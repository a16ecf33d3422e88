"""Waiting gangs with positions and reasons, as one reader may see them (design, A5).

Positions are the same for all readers: they count all work on the backend. Only work that the reader may see is listed
and named (`Workflow.visible_to`; design, D10); messages only count the other work.

    entries, more = list_waiting_gangs(actor, pools=["team"], limit=50)  # a page of the queue, first position first
    gangs = waiting_gangs_of(actor, workflow)                            # {group name: WaitingGang}, {} if none waits
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from uuid import UUID

from pools.database.prepared import read_rows
from pools.domain.names import with_pool_names
from pools.domain.people.roles import Actor, Permission
from pools.domain.values.amounts import GPU, Amount, as_json, flavor_of, is_gpu
from pools.models import Backend
from pools.selectors.submission_path import column_names, columns_sql, known_row
from scheduling.domain.engine.reasons.explain import Reason
from scheduling.domain.engine.reasons.node_bars import nodes_text
from scheduling.domain.reason_codes import short_reason
from scheduling.domain.start_words import StartTimes
from scheduling.models import Group, Workflow
from scheduling.selectors.queue.kept_starts import GangStart, read_kept_starts
from scheduling.selectors.queue.pending_queue import (
    WAITING_STATUSES,
    GangOwner,
    PendingGang,
    PendingQueue,
    StartPromise,
    recent_arrivals,
)
from scheduling.selectors.queue.pending_queue_cache import pending_queues

MAX_HOLDERS = 20


@dataclass(frozen=True, slots=True)
class WaitingReason:
    """The first reason: `queue` is the blocking node of the tree (queue, pool container or cohort), `limit` the
    blocking number of this node. Amounts are GPUs, None where the reason is not an amount. `short` is the message in
    a few words."""

    code: str
    short: str
    message: str
    queue: str | None
    limit: str | None
    requested: int | float | str | None
    free: int | float | str | None
    missing: int | float | str | None
    flavor: str = ""
    """Of these GPUs, where the pool names flavors: the nearest one to a start."""


@dataclass(frozen=True, slots=True)
class WaitingReservation:
    """GPUs that are kept for a gang."""

    since: datetime
    latest_start: datetime | None
    is_certain: bool
    nodes: Mapping[str, int] | None
    passed_by: int
    message: str


@dataclass(frozen=True, slots=True)
class WaitingGang:
    """A gang that waits. `queue` is its logical queue (design, D2), `pool` the canonical name of its leaf's row; `gpus`
    is the minimum that it starts with, `waits_since` the begin of its present wait. `position_in_queue` counts the
    gangs that wait in its queue from 1, `position` all gangs of its backend: the order of the next pass as things
    stand; `ahead` is the number of gangs before it there, and of optional pods of running gangs. `unblock` are
    messages, one for each obstacle; with `unblock_needs_all`, all of them are needed together, otherwise one is enough.
    `holders` are the workflows that the messages name or count, as far as the reader may see them, the first
    MAX_HOLDERS; `nodes` are the nodes that the messages name. `start` is None until a forecast was made."""

    workflow: str
    group: str
    user: str
    backend: str
    pool: str
    queue: str
    priority: str
    submit_time: datetime
    waits_since: datetime
    gpus: int
    position: int
    position_in_queue: int
    ahead: int
    reason: WaitingReason
    unblock: tuple[str, ...]
    holders: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    unblock_needs_all: bool = True
    reservation: WaitingReservation | None = None
    start: GangStart | None = None

    @property
    def start_times(self) -> StartTimes | None:
        """What is known of its start, for :mod:`scheduling.domain.start_words`."""
        if self.start is not None:
            return self.start
        held = self.reservation
        latest = held.latest_start if held is not None and held.is_certain else None
        return None if latest is None else StartTimes(latest=latest)


def list_waiting_gangs(
    actor: Actor,
    *,
    pools: Collection[str] = (),
    users: Collection[str] = (),
    workflows: Collection[str] = (),
    limit: int,
    offset: int = 0,
    is_by_pool: bool = False,
) -> tuple[list[WaitingGang], bool]:
    """One page of the waiting gangs that `actor` may see, and whether more follow: backend by backend, each in the
    order of its next pass; with `is_by_pool`, those of a pool together, and of each of its leaves. `pools` are
    canonical names of leaves (a shared leaf has the name of its pool;
    :func:`scheduling.selectors.work.leaf_names.leaf_names_of` resolves names that users write), `workflows` are ids; an
    empty filter means all."""
    found: list[tuple[_QueueReader, PendingGang]] = []
    passed = 0
    for backend in _all_backends():
        queue = pending_queues().get_exact(backend, pools=pools)
        reader = _QueueReader(actor, queue, backend.namespace)
        gangs = reader.select(pools, users, workflows)
        for entry in _by_pool(gangs) if is_by_pool else gangs:
            passed += 1
            if passed > offset + limit:
                return _render(found), True
            if passed > offset:
                found.append((reader, entry))
    return _render(found), False


def _by_pool(gangs: Iterable[PendingGang]) -> list[PendingGang]:
    """The first pool of the next pass first, and in it the first leaf: positions, which count in a leaf, rise."""
    found = list(gangs)
    seen = {name: place for place, gang in enumerate(reversed(found)) for name in (gang.ownership.root, gang.queue)}
    return sorted(found, key=lambda gang: (-seen[gang.ownership.root], -seen[gang.queue]))


def _all_backends() -> list[Backend]:
    """All backends by name, in one prepared statement."""
    columns = column_names(Backend)
    rows = read_rows(f"SELECT {columns_sql('backend', columns)} FROM pools_backend backend ORDER BY backend.name")
    return [known_row(Backend, columns, row) for row in rows]


def _render(found: Sequence[tuple[_QueueReader, PendingGang]]) -> list[WaitingGang]:
    """The gangs as their readers may see them, with the forecasts of their starts: one query, none without gangs."""
    if not found:
        return []
    starts = read_kept_starts({gang.group_id: gang.promise for _, gang in found})
    return [reader.render(gang, starts.get(gang.group_id)) for reader, gang in found]


def waiting_gangs_of(actor: Actor, workflow: Workflow) -> dict[str, WaitingGang]:
    """The groups of one workflow that wait, by name. The caller has loaded them (`get_full_workflow`) and
    checked that `actor` may see the workflow."""
    backend = workflow.root_pool.backend
    groups = [group for group in workflow.loaded_groups if group.status in WAITING_STATUSES]
    if backend is None or not groups:
        return {}
    requested = {group.pk for group in groups}
    queue = pending_queues().get_available(backend, requested)
    found = {group: queue.by_group[group] for group in requested & queue.by_group.keys()}
    if queue.is_large:
        found |= recent_arrivals(backend, queue, requested - found.keys())
    reader = _QueueReader(actor, queue, backend.namespace)
    gangs = _render([(reader, found[group.pk]) for group in groups if group.pk in found])
    return {gang.group: gang for gang in gangs}


def waiting_gangs_of_many(actor: Actor, workflows: Iterable[Workflow]) -> dict[str, WaitingGang]:
    """By workflow, its first gang that waits. The caller has loaded the pools with their backends and checked that
    `actor` may see the workflows. Two queries, a third for the starts of such gangs, and for each backend with them
    those of its queue."""
    by_id = {workflow.pk: workflow for workflow in workflows}
    groups = Group.objects.filter(workflow__in=by_id, status__in=WAITING_STATUSES).order_by("position")
    by_backend: dict[int, list[tuple[str, UUID]]] = {}
    for group, workflow_id in groups.values_list("pk", "workflow"):
        workflow = by_id[workflow_id]
        if (backend_id := workflow.root_pool.backend_id) is not None:
            by_backend.setdefault(backend_id, []).append((workflow.name, group))
    found: dict[str, tuple[_QueueReader, PendingGang]] = {}
    for backend in Backend.objects.filter(pk__in=by_backend):  # lists load only some columns of backends
        requested = by_backend[backend.pk]
        queue = pending_queues().get_available(backend, {group for _, group in requested})
        missing = {group for _, group in requested if group not in queue.by_group}
        late = recent_arrivals(backend, queue, missing) if queue.is_large else {}
        reader = _QueueReader(actor, queue, backend.namespace)
        for name, group in requested:
            gang = queue.by_group.get(group) or late.get(group)
            if gang is not None and name not in found:
                found[name] = reader, gang
    return dict(zip(found, _render(list(found.values())), strict=True))


@dataclass(frozen=True, slots=True)
class _ReasonTexts:
    """A reason as one reader may know it, with the names of pools in place of queues."""

    message: str
    unblock: tuple[str, ...]
    holders: tuple[str, ...]
    nodes: tuple[str, ...]


class _QueueReader:
    """A pending queue as one actor may see it."""

    def __init__(self, actor: Actor, queue: PendingQueue, namespace: str) -> None:
        self._actor, self._queue, self._namespace = actor, queue, namespace
        self._roots = actor.pools_with(Permission.POOL_READ)
        self._texts: dict[int, _ReasonTexts] = {}

    def select(
        self, pools: Collection[str], users: Collection[str], workflows: Collection[str]
    ) -> Iterator[PendingGang]:
        """The gangs that the actor may see and that match the filters."""
        for entry in self._queue.gangs:
            requested = (not pools or entry.pool in pools) and (not users or entry.owner in users)
            if (
                requested
                and (not workflows or entry.ownership.workflow in workflows)
                and self._may_see(entry.ownership)
            ):
                yield entry

    def render(self, gang: PendingGang, start: GangStart | None) -> WaitingGang:
        """A gang with the names that the actor may see, and its forecast start."""
        texts = self._texts_of(gang.reason)
        return WaitingGang(
            workflow=gang.ownership.workflow,
            group=gang.group,
            user=gang.owner,
            backend=self._queue.backend,
            pool=gang.pool,
            queue=gang.queue,
            priority=gang.priority,
            submit_time=gang.submit_time,
            waits_since=gang.waits_since,
            gpus=gang.gpus,
            position=gang.position,
            position_in_queue=gang.position_in_queue,
            ahead=gang.position - 1 + gang.behind.pods,
            reason=self._reason(gang, texts),
            unblock=texts.unblock,
            holders=texts.holders,
            nodes=texts.nodes,
            unblock_needs_all=gang.reason.needs_all_remedies,
            reservation=None if gang.promise is None else _reservation(gang.promise),
            start=start,
        )

    def _reason(self, gang: PendingGang, texts: _ReasonTexts) -> WaitingReason:
        reason = gang.reason
        queue = reason.queue or gang.queue
        above = "" if queue == gang.queue else with_pool_names(queue, self._namespace)
        return WaitingReason(
            reason.code,
            short_reason(reason.code, above),
            texts.message + gang.behind.message(self._visible_name),
            reason.queue,
            reason.limit,
            _gpu_amount(reason.requested),
            _gpu_amount(reason.free),
            _gpu_amount(reason.missing),
            _flavor(reason.missing or reason.requested or {}),
        )

    def _texts_of(self, reason: Reason) -> _ReasonTexts:
        # Gangs with the same obstacle share their reason, whose lists of names may be long.
        if id(reason) not in self._texts:
            held = (self._visible_name(gang) for remedy in reason.remedies for gang in remedy.gangs)
            holders = islice(dict.fromkeys(name for name in held if name is not None), MAX_HOLDERS)
            nodes = dict.fromkeys(short.node for blocker in reason.blockers for short in blocker.node_shortages)
            self._texts[id(reason)] = _ReasonTexts(
                with_pool_names(reason.message, self._namespace),
                tuple(
                    with_pool_names(remedy.message(self._visible_name, self._visible_queue), self._namespace)
                    for remedy in reason.remedies
                ),
                tuple(holders),
                tuple(nodes),
            )
        return self._texts[id(reason)]

    def _visible_name(self, gang: str) -> str | None:
        owned = self._queue.owners.get(gang)
        return owned.workflow if owned is not None and self._may_see(owned) else None

    def _visible_queue(self, queue: str) -> str | None:
        """The name of a pool's queue; a cohort, which everybody may know, is not hidden."""
        name = with_pool_names(queue, self._namespace)
        is_pool = name != queue
        return name if self._actor.can_read_all or not is_pool or name.partition("--")[0] in self._roots else None

    def _may_see(self, owned: GangOwner) -> bool:
        return self._actor.can_read_all or owned.root in self._roots or owned.owner_id == self._actor.user_id


def _reservation(promise: StartPromise) -> WaitingReservation:
    """The names of nodes are not secret: their owners are not named. The message has no time: the start of the gang is
    said once, in the words of its forecast."""
    message = ""
    if promise.passed_by:
        one = promise.passed_by == 1
        message = f"{promise.passed_by} later gang{' has' if one else 's have'} started before it. "
    if promise.holds_dispatch:
        message += "Later work of its pool waits until it has started."
    elif promise.nodes:
        message += f"GPUs are kept for it on {nodes_text(sorted(promise.nodes))}."
    else:
        message += "Quota is kept for it."
    return WaitingReservation(
        promise.since, promise.latest_start, promise.is_certain, promise.nodes, promise.passed_by, message
    )


def _flavor(amounts: Mapping[str, Amount]) -> str:
    named = (flavor_of(key) for key in amounts if is_gpu(key) and key != GPU)
    return " and ".join(dict.fromkeys(named))


def _gpu_amount(amounts: Mapping[str, Amount] | None) -> int | float | str | None:
    """The GPUs of all flavors."""
    return None if amounts is None else as_json(sum(amount for key, amount in amounts.items() if is_gpu(key)))
