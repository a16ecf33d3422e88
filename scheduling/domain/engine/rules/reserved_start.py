"""One start reservation, and the rules between it and other gangs."""

from __future__ import annotations

from dataclasses import dataclass

from pools.domain.amounts import Number
from scheduling.domain.engine.state.nodes import Request
from scheduling.domain.engine.state.records import GangState, QueueState

ReservationRank = tuple[Number, Number, str]
"""The place of a reservation in the one order of all reservations: since when it stands, since when its gang waits,
the name of the gang."""

Claim = tuple[int, tuple[tuple[int, Request], ...] | None]


@dataclass(slots=True, eq=False)
class ReservedStart:
    """A gang with a start reservation that stands `since` this time. `places`: what the gang will use on each node (by
    number), chosen at the time `placed`; None while quotas and limits do not let it start."""

    gang: GangState
    since: Number
    places: dict[int, Request] | None = None
    placed: Number | None = None

    @property
    def rank(self) -> ReservationRank:
        """Its place in the order of all reservations."""
        return self.since, waits_since(self.gang), self.gang.fact.name

    @property
    def claim(self) -> Claim:
        """Its gang and its places, as a key."""
        return self.gang.index, None if self.places is None else tuple(self.places.items())


def waits_since(gang: GangState) -> Number:
    """Since when the gang waits, in seconds."""
    since = gang.fact.waiting_since
    return gang.fact.submitted if since is None else since


def holds_back(reserved: GangState, gang: GangState, *, knows_shares: bool = True) -> bool:
    """Whether a reservation holds back the gang; the order of reservations and time limits are left aside.

    `knows_shares`: False where the facts leave waiting work out, so that fair shares look larger than they are. There
    the reservation holds back work inside its share too."""
    if gang is reserved or (reserved.preemptible and not gang.preemptible):
        return False
    queue, other = gang.queue, reserved.queue
    if queue is None or other is None:
        return False
    if queue is other:
        return gang.order_key > reserved.order_key and not can_take_back(reserved, gang)
    if not (gang.preemptible and reserved.preemptible):
        return True
    return not knows_shares or _is_inside_share(reserved, other) or not _is_inside_share(gang, queue)


def can_take_back(reserved: GangState, gang: GangState) -> bool:
    """Whether the gang may use nodes that are reserved, because the reserved gang can take them back: preemptible work,
    for a reserved gang that is not preemptible; in its own leaf, of a lower priority."""
    if reserved.preemptible or not gang.preemptible:
        return False
    return gang.queue is not reserved.queue or gang.fact.priority < reserved.fact.priority


def _is_inside_share(gang: GangState, queue: QueueState) -> bool:
    return all(queue.alloc[r] + amount <= queue.fair[r] for r, amount in gang.next_request)
