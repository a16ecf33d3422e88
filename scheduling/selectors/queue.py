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
from pools.domain.roles import Action, Actor
from pools.models import Backend
from scheduling.domain.engine.explain import Reason
from scheduling.models import Workflow
from scheduling.selectors.pending_queue import WAITING, InLine, Line, Owned, latecomers
from scheduling.selectors.pending_queue_cache import is_large, line_at_hand, line_now


@dataclass(frozen=True, slots=True)
class Why:
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
class Told:
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
    reason: Why
    unblock: tuple[str, ...]


def waiting(
    actor: Actor,
    *,
    pools: Collection[str] = (),
    users: Collection[str] = (),
    workflows: Collection[str] = (),
    limit: int,
    offset: int = 0,
) -> tuple[list[Told], bool]:
    """One page of the waiting gangs that `actor` may see, and whether more follow: backend by backend, each in the
    order in which its next pass would try them. `pools` are canonical names of leaves (a shared leaf goes by its
    pool's name; :func:`scheduling.pages.leaves_meant` makes them of what people write), `workflows` ids; none means
    all."""
    found: list[Told] = []
    passed = 0
    for backend in Backend.objects.order_by("name"):
        reader = _Reader(actor, line_now(backend))
        for entry in reader.entries(pools, users, workflows):
            passed += 1
            if passed > offset + limit:
                return found, True
            if passed > offset:
                found.append(reader.told(entry))
    return found, False


def waiting_of(actor: Actor, workflow: Workflow) -> dict[str, Told]:
    """The groups of one workflow that wait, by name. The caller has loaded them (`load_groups`), and has seen to it
    that `actor` may see the workflow."""
    backend = workflow.root_pool.backend
    groups = [group for group in workflow.groups.all() if group.status in WAITING]
    if backend is None or not groups:
        return {}
    asked = {group.pk for group in groups}
    line = line_at_hand(backend, asked)
    found = {group: line.by_group[group] for group in asked & line.by_group.keys()}
    if is_large(line):
        found |= latecomers(backend, line, asked - found.keys())
    reader = _Reader(actor, line)
    return {group.name: reader.told(found[group.pk]) for group in groups if group.pk in found}


class _Reader:
    """Somebody in front of a line."""

    def __init__(self, actor: Actor, line: Line) -> None:
        self._actor, self._line = actor, line
        self._roots = actor.pools_for(Action.POOL_READ)
        self._sentences: dict[int, tuple[str, ...]] = {}

    def entries(self, pools: Collection[str], users: Collection[str], workflows: Collection[str]) -> Iterator[InLine]:
        """What he may see of it, as far as he asked for it."""
        for entry in self._line.entries:
            asked = (not pools or entry.pool in pools) and (not users or entry.owner in users)
            if asked and (not workflows or entry.owned.workflow in workflows) and self._sees(entry.owned):
                yield entry

    def told(self, entry: InLine) -> Told:
        """The entry in words he may read."""
        return Told(
            workflow=entry.owned.workflow,
            group=entry.group,
            user=entry.owner,
            backend=self._line.backend,
            pool=entry.pool,
            queue=entry.queue,
            priority=entry.priority,
            submit_time=entry.submit_time,
            gpus=entry.gpus,
            position=entry.position,
            position_in_queue=entry.position_in_queue,
            ahead=entry.position - 1,
            reason=_why(entry.reason),
            unblock=self._unblock(entry.reason),
        )

    def _unblock(self, reason: Reason) -> tuple[str, ...]:
        # Gangs that are blocked alike share their reason, and its lists of names may be long.
        if id(reason) not in self._sentences:
            self._sentences[id(reason)] = tuple(remedy.told(self._known_as) for remedy in reason.remedies)
        return self._sentences[id(reason)]

    def _known_as(self, gang: str) -> str | None:
        owned = self._line.owned.get(gang)
        return owned.workflow if owned is not None and self._sees(owned) else None

    def _sees(self, owned: Owned) -> bool:
        return self._actor.reads_all or owned.root in self._roots or owned.owner_id == self._actor.user_id


def _why(reason: Reason) -> Why:
    return Why(
        reason.code,
        reason.message,
        reason.queue,
        reason.limit,
        *(_gpus(amounts) for amounts in (reason.requested, reason.free, reason.missing)),
    )


def _gpus(amounts: Mapping[str, Amount] | None) -> int | float | str | None:
    """The GPUs of whatever flavor."""
    return None if amounts is None else as_json(sum(amount for key, amount in amounts.items() if is_gpu(key)))
