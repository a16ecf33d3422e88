"""The work that an eviction spared: what the same rule also allowed to evict, and why it stayed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from scheduling.domain.engine.rules.victims import HelpsStart, VictimSource
from scheduling.domain.engine.state.kinds import counted_resources
from scheduling.domain.engine.state.records import GangState, QueueState
from scheduling.domain.engine.steps import EvictionRule, SparedBy, SparedGang, StepAction

MAX_READ = 200
"""The most candidates, in order, among which spared work is found."""

MAX_SPARED = 8
"""The most spared gangs that are named."""


@dataclass(frozen=True, slots=True)
class Considered:
    """The first gangs that a rule allowed to evict, in its order, before any eviction."""

    gangs: Sequence[GangState] = ()
    is_cut: bool = False
    """Whether there were more candidates than were read."""

    @classmethod
    def of(cls, source: VictimSource, helps: HelpsStart) -> Considered:
        """Those of the source that are on a node where the start could be."""
        first = list(islice(source.in_order(), MAX_READ + 1))
        allowed = [gang for gang in first[:MAX_READ] if source.may_take(gang) and helps(gang)]
        return cls(allowed, is_cut=len(first) > MAX_READ)

    def spared(
        self, lost: Collection[GangState], moved: Collection[GangState], *, least_lost: bool
    ) -> tuple[tuple[SparedGang, ...], bool]:
        """Those that neither lost tasks nor moved, and whether there were more than are named."""
        place = {gang.index: n for n, gang in enumerate(self.gangs)}
        victims = sorted(lost, key=lambda gang: place.get(gang.index, len(place)))
        touched = {gang.index for gang in (*lost, *moved)}
        stayed = [gang for gang in self.gangs if gang.index not in touched]
        named = [
            SparedGang(gang.fact.name, _why(gang, place[gang.index], victims, place, least_lost=least_lost))
            for gang in stayed[:MAX_SPARED]
        ]
        return tuple(named), self.is_cut or len(stayed) > MAX_SPARED


def _why(
    gang: GangState, at: int, victims: Sequence[GangState], place: dict[int, int], *, least_lost: bool
) -> SparedBy:
    """Why this gang stayed: by its first difference from the victim that comes last in the order."""
    last = victims[-1]
    beside = [victim for victim in victims if victim.queue is gang.queue]
    highest = max((victim.fact.priority for victim in beside), default=gang.fact.priority)
    if gang.fact.priority > highest:
        return SparedBy.PRIORITY
    if least_lost and any(victim.fact.priority == gang.fact.priority for victim in beside):
        return SparedBy.LEAST_LOST
    if at < place.get(last.index, len(place)):
        return SparedBy.ROOM
    return SparedBy.AGE if beside else SparedBy.QUEUE


def eviction_rule(action: StepAction, gang: GangState, victim: GangState) -> EvictionRule:
    """The rule of an eviction that made this gang start, in the state after its start."""
    if action is not StepAction.RECLAIM or gang.queue is None or victim.queue is None:
        return EvictionRule.PRIORITY
    ours = _branch(gang.queue, victim.queue)
    which = counted_resources(ours, gang.running_request)
    counted = range(len(ours.quota)) if which is None else which
    is_inside = all(ours.alloc[r] <= ours.quota[r] for r in counted)
    return EvictionRule.RECLAIM if is_inside else EvictionRule.FAIR_SHARE


def _branch(leaf: QueueState, other: QueueState) -> QueueState:
    """The queue on the path of the leaf below the lowest queue that is above both; its top queue if none is."""
    for ours, above in pairwise(leaf.path):
        if above in other.path:
            return ours
    return leaf.path[-1]
