"""What must hold before anything starts, on the leaf and on everything above it (kai.md 6.2, kueue.md 1.2, D6).

* limit: what the queue holds altogether, with the request, is at most its limit;
* quota, for work that cannot be preempted: what such work holds, with the request, is at most the quota;
* under a cohort: the request is at most what the tree has available for the leaf.

Equality passes. Only resources that are asked for are looked at.
"""

from __future__ import annotations

from scheduling.domain.engine.nodes import Request
from scheduling.domain.engine.state import QueueState
from scheduling.domain.engine.world import World


def may_start(world: World, queue: QueueState, request: Request, *, preemptible: bool) -> bool:
    """Whether quotas and limits let this request start now."""
    for above in queue.path:
        for r, amount in request:
            if above.alloc[r] + amount > above.limit[r]:
                return False
            if not preemptible and above.np[r] + amount > above.quota[r]:
                return False
    if not queue.open:
        return False
    if queue.governed:
        return all(amount <= world.columns[r].available(queue.column) for r, amount in request)
    return True


def is_within_limits(queue: QueueState, request: Request) -> bool:
    """Whether the request is within the limits at all, were everything else gone."""
    for above in queue.path:
        for r, amount in request:
            if amount > above.limit[r]:
                return False
    return True


def is_within_quota(queue: QueueState, request: Request) -> bool:
    """Whether non-preemptible work could start if all preemptible work were gone; nobody's leaving helps otherwise."""
    for above in queue.path:
        for r, amount in request:
            if above.np[r] + amount > above.quota[r]:
                return False
    return True
