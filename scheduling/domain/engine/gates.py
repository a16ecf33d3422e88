"""The conditions of a start, on the leaf and on every node above it (kai.md 6.2, kueue.md 1.2, D6).

* limit: all usage of the queue plus the request is at most its limit;
* quota, for non-preemptible work: the usage of such work plus the request is at most the quota;
* under a cohort: the request is at most the amount that the tree has available for the leaf.

Equality passes. Only resources of the request count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduling.domain.engine.nodes import Request
from scheduling.domain.engine.state import QueueState

if TYPE_CHECKING:
    from scheduling.domain.engine.world import World


def may_start(world: World, queue: QueueState, request: Request, *, preemptible: bool) -> bool:
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
