"""Who waits, at which place and why, as one reader may know it (api.md, "Waiting and what-if").

Positions are true for everybody: they count all work on the backend, seen or not. Named is only what the reader may
see (`Workflow.visible_to`, D10): what is not his stands in no list, and in a sentence it is counted.

    entries, more = waiting(actor, pools=["team"], limit=50)     # a page of the line, best first
    told = waiting_of(actor, workflow)                           # {group name: Told} of one workflow, {} if none waits
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from pools.domain.amounts import Amount, as_json, is_gpu
from pools.domain.roles import Actor, Permission
from pools.models import Backend
from scheduling.apps import scheduling_app
from scheduling.domain.engine.explain import Reason
from scheduling.models import Workflow
from scheduling.selectors.pending_queue import WAITING_STATUSES, GangOwner, PendingGang, PendingQueue, recent_arrivals


@dataclass(frozen=True, slots=True)
class WaitingReason:
    """The one reason: `queue` is the node of the tree (queue, pool container or cohort) that blocks and `limit` which
    of its numbers does; amounts are GPUs, None where no amount is the matter."""

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
    least it starts with. `position` is its place among all who wait on its backend, `position_in_queue` in its own
    queue, both from 1; `ahead` are those before it on the backend. `unblock` are sentences, one for each thing in its
    way."""

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
    order in which its next pass would try them. `pools` are canonical names of leaves (a shared leaf goes by its
    pool's name; :func:`scheduling.selectors.leaf_names.leaf_names_of` makes them of what people write), `workflows` ids; none means
    all."""
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
    """The groups of one workflow that wait, by name. The caller has loaded them (`load_groups`), and has seen to it
    that `actor` may see the workflow."""
    backend = workflow.root_pool.backend
    groups = [group for group in workflow.groups.all() if group.status in WAITING_STATUSES]
    if backend is None or not groups:
        return {}
    asked = {group.pk for group in groups}
    line = scheduling_app().pending_queues.get_available(backend, asked)
    found = {group: line.by_group[group] for group in asked & line.by_group.keys()}
    if line.is_large:
        found |= recent_arrivals(backend, line, asked - found.keys())
    reader = _QueueReader(actor, line)
    return {group.name: reader.render(found[group.pk]) for group in groups if group.pk in found}


class _QueueReader:
    """Somebody in front of a line."""

    def __init__(self, actor: Actor, line: PendingQueue) -> None:
        self._actor, self._line = actor, line
        self._roots = actor.pools_with(Permission.POOL_READ)
        self._sentences: dict[int, tuple[str, ...]] = {}

    def select(
        self, pools: Collection[str], users: Collection[str], workflows: Collection[str]
    ) -> Iterator[PendingGang]:
        """What he may see of it, as far as he asked for it."""
        for entry in self._line.gangs:
            asked = (not pools or entry.pool in pools) and (not users or entry.owner in users)
            if asked and (not workflows or entry.ownership.workflow in workflows) and self._may_see(entry.ownership):
                yield entry

    def render(self, gang: PendingGang) -> WaitingGang:
        """The entry in words he may read."""
        return WaitingGang(
            workflow=gang.ownership.workflow,
            group=gang.group,
            user=gang.owner,
            backend=self._line.backend,
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
        # Gangs that are blocked alike share their reason, and its lists of names may be long.
        if id(reason) not in self._sentences:
            self._sentences[id(reason)] = tuple(remedy.message(self._visible_name) for remedy in reason.remedies)
        return self._sentences[id(reason)]

    def _visible_name(self, gang: str) -> str | None:
        owned = self._line.owners.get(gang)
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
    """The GPUs of whatever flavor."""
    return None if amounts is None else as_json(sum(amount for key, amount in amounts.items() if is_gpu(key)))
