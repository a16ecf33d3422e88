"""Waiting gangs with positions and reasons, as one reader may see them (api.md, "Waiting and what-if").

Positions are the same for all readers: they count all work on the backend. Only work that the reader may see is listed
and named (`Workflow.visible_to`, D10); messages only count the other work.

    entries, more = list_waiting_gangs(actor, pools=["team"], limit=50)  # a page of the queue, first position first
    gangs = waiting_gangs_of(actor, workflow)                            # {group name: WaitingGang}, {} if none waits
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from pools.domain.amounts import Amount, as_json, is_gpu
from pools.domain.roles import Actor, Permission
from pools.models import Backend
from scheduling.apps import scheduling_app
from scheduling.domain.engine.explain import Reason
from scheduling.models import Group, Workflow
from scheduling.selectors.pending_queue import WAITING_STATUSES, GangOwner, PendingGang, PendingQueue, recent_arrivals


@dataclass(frozen=True, slots=True)
class WaitingReason:
    """The first reason: `queue` is the blocking node of the tree (queue, pool container or cohort), `limit` the
    blocking number of this node. Amounts are GPUs, None where the reason is not an amount."""

    code: str
    message: str
    queue: str | None
    limit: str | None
    requested: int | float | str | None
    free: int | float | str | None
    missing: int | float | str | None


@dataclass(frozen=True, slots=True)
class WaitingGang:
    """A gang that waits. `queue` is its logical queue (D2), `pool` the canonical name of its leaf's row; `gpus` is the
    minimum that it starts with. `position` counts all gangs that wait on its backend, `position_in_queue` those of its
    queue, both from 1; `ahead` is the number of gangs before it on the backend. `unblock` are messages, one for each
    obstacle."""

    workflow: str
    group: str
    user: str
    backend: str
    pool: str
    queue: str
    priority: str
    submit_time: datetime
    gpus: int
    position: int
    position_in_queue: int
    ahead: int
    reason: WaitingReason
    unblock: tuple[str, ...]


def list_waiting_gangs(
    actor: Actor,
    *,
    pools: Collection[str] = (),
    users: Collection[str] = (),
    workflows: Collection[str] = (),
    limit: int,
    offset: int = 0,
) -> tuple[list[WaitingGang], bool]:
    """One page of the waiting gangs that `actor` may see, and whether more follow: backend by backend, each in the
    order of its next pass. `pools` are canonical names of leaves (a shared leaf has the
    name of its pool; :func:`scheduling.selectors.leaf_names.leaf_names_of` resolves names that users write),
    `workflows` are ids; an empty filter means all."""
    found: list[WaitingGang] = []
    passed = 0
    for backend in Backend.objects.order_by("name"):
        reader = _QueueReader(actor, scheduling_app().pending_queues.get_exact(backend))
        for entry in reader.select(pools, users, workflows):
            passed += 1
            if passed > offset + limit:
                return found, True
            if passed > offset:
                found.append(reader.render(entry))
    return found, False


def waiting_gangs_of(actor: Actor, workflow: Workflow) -> dict[str, WaitingGang]:
    """The groups of one workflow that wait, by name. The caller has loaded them (`load_groups`) and
    checked that `actor` may see the workflow."""
    backend = workflow.root_pool.backend
    groups = [group for group in workflow.groups.all() if group.status in WAITING_STATUSES]
    if backend is None or not groups:
        return {}
    requested = {group.pk for group in groups}
    queue = scheduling_app().pending_queues.get_available(backend, requested)
    found = {group: queue.by_group[group] for group in requested & queue.by_group.keys()}
    if queue.is_large:
        found |= recent_arrivals(backend, queue, requested - found.keys())
    reader = _QueueReader(actor, queue)
    return {group.name: reader.render(found[group.pk]) for group in groups if group.pk in found}


def waiting_gangs_of_many(actor: Actor, workflows: Iterable[Workflow]) -> dict[str, WaitingGang]:
    """By workflow, its first gang that waits. The caller has loaded the pools with their backends and checked that
    `actor` may see the workflows. Two queries, and for each backend with such gangs those of its queue."""
    by_id = {workflow.pk: workflow for workflow in workflows}
    groups = Group.objects.filter(workflow__in=by_id, status__in=WAITING_STATUSES).order_by("position")
    by_backend: dict[int, list[tuple[str, UUID]]] = {}
    for group, workflow_id in groups.values_list("pk", "workflow"):
        workflow = by_id[workflow_id]
        if (backend_id := workflow.root_pool.backend_id) is not None:
            by_backend.setdefault(backend_id, []).append((workflow.name, group))
    found: dict[str, WaitingGang] = {}
    for backend in Backend.objects.filter(pk__in=by_backend):  # lists load only some columns of backends
        requested = by_backend[backend.pk]
        queue = scheduling_app().pending_queues.get_available(backend, {group for _, group in requested})
        missing = {group for _, group in requested if group not in queue.by_group}
        late = recent_arrivals(backend, queue, missing) if queue.is_large else {}
        reader = _QueueReader(actor, queue)
        for name, group in requested:
            gang = queue.by_group.get(group) or late.get(group)
            if gang is not None and name not in found:
                found[name] = reader.render(gang)
    return found


class _QueueReader:
    """A pending queue as one actor may see it."""

    def __init__(self, actor: Actor, queue: PendingQueue) -> None:
        self._actor, self._queue = actor, queue
        self._roots = actor.pools_with(Permission.POOL_READ)
        self._messages: dict[int, tuple[str, ...]] = {}

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

    def render(self, gang: PendingGang) -> WaitingGang:
        """A gang with the names that the actor may see."""
        return WaitingGang(
            workflow=gang.ownership.workflow,
            group=gang.group,
            user=gang.owner,
            backend=self._queue.backend,
            pool=gang.pool,
            queue=gang.queue,
            priority=gang.priority,
            submit_time=gang.submit_time,
            gpus=gang.gpus,
            position=gang.position,
            position_in_queue=gang.position_in_queue,
            ahead=gang.position - 1,
            reason=_waiting_reason(gang.reason),
            unblock=self._unblock(gang.reason),
        )

    def _unblock(self, reason: Reason) -> tuple[str, ...]:
        # Gangs with the same obstacle share their reason, whose lists of names may be long.
        if id(reason) not in self._messages:
            self._messages[id(reason)] = tuple(remedy.message(self._visible_name) for remedy in reason.remedies)
        return self._messages[id(reason)]

    def _visible_name(self, gang: str) -> str | None:
        owned = self._queue.owners.get(gang)
        return owned.workflow if owned is not None and self._may_see(owned) else None

    def _may_see(self, owned: GangOwner) -> bool:
        return self._actor.can_read_all or owned.root in self._roots or owned.owner_id == self._actor.user_id


def _waiting_reason(reason: Reason) -> WaitingReason:
    return WaitingReason(
        reason.code,
        reason.message,
        reason.queue,
        reason.limit,
        *(_gpu_amount(amounts) for amounts in (reason.requested, reason.free, reason.missing)),
    )


def _gpu_amount(amounts: Mapping[str, Amount] | None) -> int | float | str | None:
    """The GPUs of all flavors."""
    return None if amounts is None else as_json(sum(amount for key, amount in amounts.items() if is_gpu(key)))
