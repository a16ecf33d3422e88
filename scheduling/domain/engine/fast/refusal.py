"""The proof that a reclaim is refused for its fair share (:func:`victims.is_fair_after`), before anything is evicted.

After a reclaim, free amounts and losses together have covered the request; victims that moved to other nodes are no
losses. So where the free amounts and the losses that a fair share allows are less than the request, a top queue loses
work that it may not lose, and the result is refused: whichever victims move, and whichever one gang replaces them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Protocol

from pools.domain.values.amounts import Number
from scheduling.domain.engine.rules.victims import Candidate, may_lose_for
from scheduling.domain.engine.state.evicted import EvictionUnit
from scheduling.domain.engine.state.nodes import Request
from scheduling.domain.engine.state.records import GangState, QueueState
from scheduling.domain.engine.state.world_state import WorldState

MAX_GANGS = 2
"""Two other gangs may replace more victims than these, which no sum here rules out."""


class Candidates(Protocol):
    """The gangs that may lose work to a reclaim."""

    def candidates_below(self, tops: Collection[QueueState]) -> Iterator[list[Candidate]]:
        """The gangs below these top queues, in parts."""

    def may_take(self, gang: GangState) -> bool:
        """Whether the gang may lose its next unit in the current state."""


def is_refused_anyway(
    world: WorldState, leaf: QueueState, request: Request, units: Sequence[EvictionUnit], source: Candidates
) -> bool:
    """Whether a reclaim for the leaf that needs these evictions is refused; False where that is not known."""
    gangs = {unit.gang.index for unit in units}
    if world.nodes is None or len(gangs) > MAX_GANGS:
        return False
    top = leaf.path[-1]
    for r, needed in request:
        missing = needed - world.nodes.total[r]
        own = _lost([top], units, r)
        have = top.alloc[r] + needed - own
        if missing <= own or have <= top.fair[r]:
            continue
        lenders = [each for each in world.tops if each is not top and may_lose_for(each, have, top.fair[r], r)]
        if missing <= own + _lost(lenders, units, r) or world.nodes.is_overfull(r):
            continue
        lenders.append(top)
        if len(gangs) == 1 or not _may_replace(source, lenders, missing, r):
            return True
    return False


def _lost(tops: Collection[QueueState], units: Iterable[EvictionUnit], r: int) -> Number:
    """The amount that these evictions take from work below these top queues."""
    lost: Number = 0
    for unit in units:
        gang = unit.gang
        if gang.queue is not None and gang.queue.path[-1] in tops:
            lost += sum([amount for i in unit.tasks for s, amount in gang.requests[i] if s == r])
    return lost


def _may_replace(source: Candidates, lenders: Collection[QueueState], missing: Number, r: int) -> bool:
    """Whether one gang below these top queues might have the missing amount."""
    for part in source.candidates_below(lenders):
        for gang, _priority, request in part:
            for s, amount in request:
                if s == r and amount >= missing and source.may_take(gang):
                    return True
    return False
