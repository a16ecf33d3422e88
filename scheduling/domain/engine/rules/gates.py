"""The conditions of a start, on the leaf and on every node above it (design, K2, Q2, D6).

* limit: all usage of the queue plus the request is at most its limit;
* quota, for non-preemptible work: the usage of such work plus the request is at most the quota;
* under a cohort: the request is at most the amount that the tree has available for the leaf.

Equality passes. Only resources of the request count.
"""

from __future__ import annotations

from collections.abc import Sequence

from pools.domain.values.amounts import Amount
from scheduling.domain.engine.state.nodes import Request
from scheduling.domain.engine.state.records import QueueState
from scheduling.domain.engine.state.world_state import WorldState


def may_start(world: WorldState, queue: QueueState, request: Request, *, preemptible: bool) -> bool:
    """Whether quotas and limits let this request start now."""
    for above in queue.path:
        for r, amount in request:
            if above.alloc[r] + amount > above.limit[r]:
                return False
            if not preemptible and above.non_preemptible[r] + amount > above.quota[r]:
                return False
    if not queue.is_open:
        return False
    if queue.has_cohort_above:
        return all(amount <= world.columns[r].available(queue.column) for r, amount in request)
    return True


def start_room(world: WorldState, queue: QueueState) -> list[Amount]:
    """The most of each resource that preemptible work may start with now; other work is bound by `firm_room` too."""
    room = [limit - have for limit, have in zip(queue.limit, queue.alloc, strict=True)]
    for above in queue.path[1:]:
        room = [min(most, limit - have) for most, limit, have in zip(room, above.limit, above.alloc, strict=True)]
    if queue.has_cohort_above:
        room = [min(most, world.columns[r].available(queue.column)) for r, most in enumerate(room)]
    return room


def firm_room(queue: QueueState) -> list[Amount]:
    """The amounts that the quotas leave to more non-preemptible work, of each resource."""
    return [min([above.quota[r] - above.non_preemptible[r] for above in queue.path]) for r in range(len(queue.quota))]


def most_at_once(queue: QueueState) -> list[Amount]:
    """The most of each resource that one request may have, if no other work existed."""
    return [min([above.limit[r] for above in queue.path]) for r in range(len(queue.limit))]


def fits_in(room: Sequence[Amount], request: Request) -> bool:
    """Whether the request is within these amounts."""
    for r, amount in request:  # noqa: SIM110  a plain loop is quick, and this call is frequent
        if amount > room[r]:
            return False
    return True


def is_within_limits(queue: QueueState, request: Request) -> bool:
    """Whether the request is within all limits if no other work existed."""
    for above in queue.path:
        for r, amount in request:
            if amount > above.limit[r]:
                return False
    return True


def is_within_quota(queue: QueueState, request: Request) -> bool:
    """Whether non-preemptible work could start if no preemptible work existed; if not, no eviction helps."""
    for above in queue.path:
        for r, amount in request:
            if above.non_preemptible[r] + amount > above.quota[r]:
                return False
    return True
