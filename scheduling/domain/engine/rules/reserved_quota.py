"""The quota that a start reservation needs: what quotas and limits leave its gang, beside others.

Non-preemptible work is always inside the quotas of its own path, and takes back there what preemptible work borrows. So
two such gangs share nothing but the quotas and limits of the queues above both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pools.domain.amounts import Amount, Number
from scheduling.domain.engine.rules.gates import is_within_quota
from scheduling.domain.engine.state.records import GangState, QueueState

if TYPE_CHECKING:
    from scheduling.domain.engine.state.world import World


def quota_rooms(world: World, gang: GangState, beside: GangState | None = None) -> list[Amount]:
    """What each quota and limit above a gang, and the cohort tree, leave when it starts; below 0 it lacks some.
    `beside`: a gang that would start before.

    Where a queue below has more than it may have with the gang, so much of its work has to end before: the queues
    above it have so much more room then."""
    queue = gang.queue
    assert queue is not None, "a reserved gang has a queue"
    rooms: list[Amount] = []
    added = {} if beside is None else dict(beside.next_request)
    for r, needed in gang.next_request:
        extra = added.get(r, 0)
        firm_change: Amount = 0 if gang.preemptible else needed
        other_change: Amount = needed if gang.preemptible else 0
        for above in queue.path:
            more = extra if _is_below(beside, above) else 0
            more_firm = 0 if beside is None or beside.preemptible else more
            firm = above.non_preemptible[r] + more_firm + firm_change
            used = above.alloc[r] + more + firm_change + other_change
            if not gang.preemptible:
                rooms.append(above.quota[r] - firm)
                excess = max(0, firm - above.quota[r])
                firm_change, used = firm_change - excess, used - excess
            rooms.append(above.limit[r] - used)
            other_change -= max(0, used - above.limit[r])
        if queue.has_cohort_above:
            column = world.columns[r]
            is_under = beside is not None and beside.queue is not None and beside.queue.has_cohort_above
            changes = [(beside.queue.column, extra)] if is_under and extra else []  # type: ignore[union-attr]
            with column.changed(changes):
                rooms.append(column.available(queue.column) - firm_change - other_change)
    return rooms


def firm_rooms(gang: GangState, beside: GangState | None = None) -> list[Amount]:
    """The same for a non-preemptible gang beside other non-preemptible work, as if no preemptible work were there."""
    queue = gang.queue
    assert queue is not None, "a reserved gang has a queue"
    rooms: list[Amount] = []
    added = {} if beside is None else dict(beside.next_request)
    for r, needed in gang.next_request:
        change: Amount = needed
        for above in queue.path:
            most = min(above.quota[r], above.limit[r])
            used = above.non_preemptible[r] + change + (added.get(r, 0) if _is_below(beside, above) else 0)
            rooms.append(most - used)
            change -= max(0, used - most)
    return rooms


def could_take_quota(world: World, gang: GangState, queue: QueueState) -> bool:
    """Whether quotas and limits let this non-preemptible gang start now, once it has taken back what preemptible work
    borrows, and what such work of its own leaf holds."""
    if not (queue.is_open and is_within_quota(queue, gang.next_request)):
        return False
    for r, amount in gang.next_request:
        for above, taken in _taken_back_on(queue, r):
            if above.alloc[r] - taken + amount > above.limit[r]:
                return False
    return not lacks_cohort_quota(world, gang, queue)


def lacks_cohort_quota(world: World, gang: GangState, queue: QueueState) -> bool:
    """Whether the cohort tree has too little for the gang; for a non-preemptible one, once it has taken back what
    preemptible work borrows."""
    if not queue.has_cohort_above:
        return False
    for r, amount in gang.next_request:
        column = world.columns[r]
        if amount <= column.available(queue.column):
            continue
        if gang.preemptible:
            return True
        top = queue.path[-1]
        changes = [(other.column, -_borrowed(other, r)) for other in world.cohort_neighbours(top) if other is not top]
        *_below, (_top, taken) = _taken_back_on(queue, r)
        with column.changed([*changes, (queue.column, -taken)]):
            if amount > column.available(queue.column):
                return True
    return False


def _taken_back_on(queue: QueueState, r: int) -> Iterator[tuple[QueueState, Number]]:
    """The queues above a leaf, with what a non-preemptible gang of the leaf could take back below each of them."""
    taken = _preemptible(queue, r)
    yield queue, taken
    for below, above in zip(queue.path, queue.path[1:], strict=False):
        taken += sum(_borrowed(other, r) for other in above.children if other is not below)
        yield above, taken


def _borrowed(queue: QueueState, r: int) -> Number:
    """What preemptible work below a queue uses above the quotas there, on this cluster."""
    quota = queue.quota[r]
    over = queue.alloc[r] - quota
    if over <= 0 or queue.fact.is_external:
        return 0
    below = sum(_borrowed(each, r) for each in queue.children) if queue.children else _preemptible(queue, r)
    return min(over, below)  # type: ignore[return-value]


def _preemptible(queue: QueueState, r: int) -> Number:
    """What preemptible work of a leaf that this run lists uses."""
    return sum(dict(gang.running_request).get(r, 0) for gang in queue.running or () if gang.is_evictable)


def _is_below(gang: GangState | None, queue: QueueState) -> bool:
    return gang is not None and gang.queue is not None and queue in gang.queue.path
