"""Holds of dispatch: the scheduler of a cluster lets later work pass a large gang without end, so that work stays here.

A pool can say that a gang which heads its leaf and has waited on its cluster for some time comes first. Then later work
of the pool that would compete with it is not dispatched until it has started. Dispatched work stays where it is. These
go on: work inside the quota of another leaf, LOW work of the same leaf that a HIGH or NORMAL gang can preempt, and work
that ends by its time limit before the gang starts at the latest. Each GPU flavor is judged alone: work competes for the
flavors that it may use, and is kept here if it is held in all of them. Standard library only; times in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from pools.domain.values.amounts import DEFAULT_FLAVOR, Amount
from scheduling.domain.flavor_choices import GangNeeds
from scheduling.domain.priorities import Priority

VAIN_AFTER = 2
"""A hold for a gang with room on its cluster ends after this multiple of the wait that the pool's setting names."""


@dataclass(frozen=True, slots=True)
class WaitingPoolGang:
    """One gang of a pool that waits. `leaf` is the id of its pool or subpool, `order` its place among work of equal
    priority, `ready` when it began to wait, `limit` the longest time that it may run. `choices`: its GPUs by flavor in
    each choice, in a pool that names flavors; one on its cluster has a single choice."""

    group: UUID
    leaf: int
    priority: Priority
    order: tuple[float, str, int]
    gpus: int
    ready: float
    is_dispatched: bool
    limit: float | None = None
    choices: GangNeeds = ()

    @property
    def needs(self) -> GangNeeds:
        """Its GPUs by flavor in each choice."""
        return self.choices or ({DEFAULT_FLAVOR: self.gpus},)

    @property
    def rank(self) -> tuple[int, tuple[float, str, int]]:
        """Its place in its leaf: higher priorities first, then by age."""
        return -self.priority.priority_class_value, self.order


@dataclass(frozen=True, slots=True)
class RunningPoolWork:
    """GPUs in use of a leaf. `ends`: when the time limit of the work ends it at the latest; None without a limit."""

    leaf: int
    priority: Priority
    gpus: int
    ends: float | None
    flavor: str = DEFAULT_FLAVOR


@dataclass(frozen=True, slots=True)
class DispatchHold:
    """A gang that comes first. `since`: from when on later work is held; `latest_start`: when all work of the pool that
    runs has ended by its limits; None where some has none or runs beyond it, or where nothing runs."""

    holder: WaitingPoolGang
    since: float
    latest_start: float | None

    def may_be_in_vain(self, now: float) -> bool:
        """Whether it has lasted long enough to end if there is room for its gang: then the cluster waits for
        something that the end of no work gives, and would hold the pool for ever."""
        return now - self.since >= VAIN_AFTER * (self.since - self.holder.ready)


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Why a gang is not dispatched: each of `holds` keeps it here, and each has to go. `following`: the number of
    other gangs that have waited as long, and would come first after those."""

    holds: tuple[DispatchHold, ...]
    following: int = 0


HeldInFlavors = Mapping[str, HeldBack]
"""Why a gang is not dispatched in some flavors, by flavor."""


@dataclass(frozen=True, slots=True)
class FlavorWork:
    """The work of one pool in one flavor."""

    waiting: Sequence[WaitingPoolGang]
    running: Sequence[RunningPoolWork]


def by_flavor(waiting: Iterable[WaitingPoolGang], running: Iterable[RunningPoolWork]) -> dict[str, FlavorWork]:
    """The work of a pool in each flavor: a gang that waits in each one that it may use, with its GPUs there."""
    gangs: dict[str, list[WaitingPoolGang]] = {}
    for work in waiting:
        for flavor in dict.fromkeys(name for need in work.needs for name in need):
            gpus = max(need.get(flavor, 0) for need in work.needs)
            gangs.setdefault(flavor, []).append(replace(work, gpus=gpus))
    held: dict[str, list[RunningPoolWork]] = {}
    for each in running:
        held.setdefault(each.flavor, []).append(each)
    return {flavor: FlavorWork(gangs.get(flavor, ()), held.get(flavor, ())) for flavor in {**gangs, **held}}


def held_in_all(
    waiting: Iterable[WaitingPoolGang], held: Mapping[str, Mapping[UUID, HeldBack]]
) -> tuple[dict[UUID, HeldInFlavors], dict[UUID, HeldInFlavors]]:
    """The gangs that are held in each of their choices, and others that are held in some, with these flavors. `held`:
    by flavor."""
    whole: dict[UUID, HeldInFlavors] = {}
    partly: dict[UUID, HeldInFlavors] = {}
    for work in waiting:
        mine = {flavor: found[work.group] for flavor, found in held.items() if work.group in found}
        if mine:
            found = whole if all(mine.keys() & need.keys() for need in work.needs) else partly
            found[work.group] = mine
    return whole, partly


def find_holds(
    waiting: Iterable[WaitingPoolGang], running: Sequence[RunningPoolWork], hold_after: float, now: float
) -> tuple[list[DispatchHold], list[DispatchHold]]:
    """The gangs of one pool that come first: of each leaf the first HIGH or NORMAL gang and the first LOW gang of those
    that are on the cluster and have waited for this time; and the others of those, which come first later."""
    first: dict[tuple[int, bool], WaitingPoolGang] = {}
    following = []
    for work in sorted(waiting, key=lambda each: each.rank):
        has_waited = work.gpus and work.is_dispatched and now >= work.ready + hold_after
        if has_waited and first.setdefault((work.leaf, work.priority.is_preemptible), work) is not work:
            following.append(work)
    ends = [each.ends for each in running]
    latest = None if None in ends else max((end for end in ends if end is not None), default=None)
    if latest is not None and latest < now:
        latest = None
    heads, others = (
        [DispatchHold(work, work.ready + hold_after, latest) for work in several]
        for several in (first.values(), following)
    )
    return heads, others


def find_held_back(
    waiting: Iterable[WaitingPoolGang],
    running: Iterable[RunningPoolWork],
    holds: Sequence[DispatchHold],
    quotas: Mapping[int, Amount],
    now: float,
    following: Sequence[DispatchHold] = (),
) -> dict[UUID, HeldBack]:
    """The gangs that are not dispatched because of some holds, with all of these. `quotas`: GPUs by leaf; `following`:
    the holds that come later."""
    firm: dict[int, int] = {}
    used: dict[int, int] = {}
    everything = list(waiting)
    for leaf, priority, gpus in [
        *((each.leaf, each.priority, each.gpus) for each in running),
        *((each.leaf, each.priority, each.gpus) for each in everything if each.is_dispatched),
    ]:
        used[leaf] = used.get(leaf, 0) + gpus
        if not priority.is_preemptible:
            firm[leaf] = firm.get(leaf, 0) + gpus
    found: dict[UUID, HeldBack] = {}
    holders = {hold.holder.group for hold in holds}
    for work in sorted(everything, key=lambda each: each.rank):
        if work.is_dispatched or not work.gpus or work.group in holders:
            continue
        held = firm if not work.priority.is_preemptible else used
        is_guaranteed = held.get(work.leaf, 0) + work.gpus <= quotas.get(work.leaf, 0)
        mine = tuple(hold for hold in holds if _holds(hold, work, now, is_guaranteed=is_guaranteed))
        if mine:
            more = sum(_holds(hold, work, now, is_guaranteed=is_guaranteed) for hold in following)
            found[work.group] = HeldBack(mine, more)
            continue
        used[work.leaf] = used.get(work.leaf, 0) + work.gpus
        if not work.priority.is_preemptible:
            firm[work.leaf] = firm.get(work.leaf, 0) + work.gpus
    return found


def _holds(hold: DispatchHold, work: WaitingPoolGang, now: float, *, is_guaranteed: bool) -> bool:
    first = hold.holder
    ends_before = hold.latest_start is not None and work.limit is not None and now + work.limit <= hold.latest_start
    if ends_before:
        return False
    if work.leaf != first.leaf:
        return not is_guaranteed and work.order > first.order
    if work.priority.is_preemptible != first.priority.is_preemptible:
        # HIGH and NORMAL work comes before LOW work, which it preempts.
        return False
    return work.rank > first.rank
