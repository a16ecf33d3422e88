"""The most that each top queue would lose to a request, kept until something below that queue changes.

Top queues lose work independently of each other: the victims of one depend on its own usage, gangs and shares only. So
most findings of one search for victims hold for the next one, and a change costs as much as the few queues that it
touches. :mod:`outlook` fills the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pools.domain.values.amounts import Number
from scheduling.domain.engine.state.evicted import EvictionUnit
from scheduling.domain.engine.state.nodes import NOWHERE
from scheduling.domain.engine.state.records import RELEASING, RUNNING, GangState, QueueState, Rank
from scheduling.domain.engine.state.world_state import TaskChange, Watcher, WorldState

MAX_TABLES, MAX_FINDINGS = 64, 4096
"""Beyond these numbers, the tables and the findings about single queues are dropped."""

FREE_CHANGES = 8
"""Up to this number of changed queues the tables are always brought up to date."""

Gains = dict[int, list[Number]]
"""The amounts that leave each node: one number for each number of its free amounts."""


class Loss(NamedTuple):
    """One eviction; `rank`: that of the top queue just before it."""

    rank: Rank
    unit: EvictionUnit


def add_gains(gains: Gains, units: Iterable[EvictionUnit], width: int, sign: int = 1) -> None:
    """Add what these evictions free on their nodes."""
    for unit in units:
        for i, node in zip(unit.tasks, unit.nodes, strict=True):
            if node == NOWHERE:
                continue
            gain = gains.get(node)
            if gain is None:
                gain = gains[node] = [0] * width
            for r, amount in unit.gang.requests[i]:
                gain[r] += sign * amount


class LossTable:
    """The losses of all top queues to one kind of request, with their sums on each node."""

    __slots__ = ("_width", "by_top", "gains", "stale")

    def __init__(self, tops: Iterable[QueueState], width: int) -> None:
        self._width = width
        self.by_top: dict[int, list[Loss]] = {}
        """The queues that lose something, by index."""
        self.gains: Gains = {}
        self.stale = {top.index: top for top in tops}

    def update(self, find: Callable[[QueueState], list[Loss]]) -> None:
        """Find the losses of the queues that changed."""
        for top in self.stale.values():
            self._replace(top.index, find(top))
        self.stale.clear()

    def losses_of(self, top: QueueState, find: Callable[[QueueState], list[Loss]]) -> Sequence[Loss]:
        """The losses of one queue, found again if it changed."""
        if top.index in self.stale:
            self._replace(top.index, find(top))
            del self.stale[top.index]
        return self.by_top.get(top.index, ())

    def _replace(self, index: int, found: list[Loss]) -> None:
        old = self.by_top.pop(index, None)
        if old is not None:
            add_gains(self.gains, (loss.unit for loss in old), self._width, -1)
            for node in {node for loss in old for node in loss.unit.nodes}:
                if not any(self.gains.get(node, ())):
                    self.gains.pop(node, None)
        if found:
            self.by_top[index] = found
            add_gains(self.gains, (loss.unit for loss in found), self._width)


class RefreshPolicy:
    """Whether the tables for one need are worth their cost: they are brought up to date for as many queues as searches
    without them evicted in vain since the last success, and for a few more."""

    __slots__ = ("_changed", "_vain")

    def __init__(self, tops: Iterable[QueueState]) -> None:
        self._changed = {top.index for top in tops}
        self._vain = 0

    def note_change(self, top: QueueState) -> None:
        """The queue changed."""
        self._changed.add(top.index)

    @property
    def is_worthwhile(self) -> bool:
        """Whether the tables must be brought up to date."""
        return len(self._changed) <= self._vain + FREE_CHANGES

    def mark_refreshed(self) -> None:
        """The tables are up to date."""
        self._changed.clear()
        self._vain = 0

    def record_search(self, evictions: int, *, found: bool) -> None:
        """A search without the tables, or with none of its own evictions, is over."""
        self._vain = 0 if found else self._vain + evictions


class LossTables(Watcher):
    """The tables of one world."""

    def __init__(self, world: WorldState) -> None:
        self._tables: dict[object, LossTable] = {}
        self._refreshes: dict[object, RefreshPolicy] = {}
        self._findings: dict[int, dict[object, Any]] = {}
        self._count = 0
        self._failed: set[object] = set()
        self._failed_in = world.version
        self._releasing: dict[int, set[QueueState]] = {}
        """The top queues with a releasing task on each node."""
        for gang in world.gangs:
            self._note_releasing(gang)

    # -- events ------------------------------------------------------------------------------------------------------

    def came(self, world: WorldState, gang: GangState) -> None:
        """A gang that runs or ends may be lost, and its firm tasks stay where others might leave."""
        self._note_releasing(gang)
        if gang.queue is not None and gang.ran:
            self._mark_changed(gang.queue.path[-1])
        self._mark_firm(world, gang)

    def leaves(self, world: WorldState, gang: GangState) -> None:
        """A gang that runs or ends is lost no more, and its firm tasks leave their nodes."""
        if gang.queue is not None and (any(gang.active) or any(gang.released)):
            self._mark_changed(gang.queue.path[-1])
        self._mark_firm(world, gang)

    def tasks_changed(self, world: WorldState, changes: Sequence[TaskChange]) -> None:
        """The top queues of these gangs may lose something else, and firm tasks came or left."""
        for top in {change.gang.queue.path[-1] for change in changes if change.gang.queue is not None}:
            self._mark_changed(top)
        for change in changes:
            if not change.gang.is_evictable:
                self._mark_node(world, change.node)
                self._mark_node(world, change.gang.node[change.task])

    def share_changed(self, world: WorldState, queue: QueueState) -> None:
        """The queue may lose more or less."""
        self._mark_changed(queue.path[-1])

    def _mark_changed(self, top: QueueState) -> None:
        """This top queue may lose something else now."""
        self._count -= len(self._findings.pop(top.index, ()))
        for table in self._tables.values():
            table.stale[top.index] = top
        for refresh in self._refreshes.values():
            refresh.note_change(top)

    def _mark_firm(self, world: WorldState, gang: GangState) -> None:
        for node, status in zip(gang.node, gang.status, strict=True):
            if not (status == RUNNING and gang.is_evictable):
                self._mark_node(world, node)

    def _mark_node(self, world: WorldState, node: int) -> None:
        """Work that no eviction can stop came to the node or left it: evictions there help other requests now."""
        if node == NOWHERE or world.nodes is None:
            return
        tops = {gang.queue.path[-1] for gang, _task in world.on_node[node] if gang.queue is not None}
        for top in tops | self._releasing.get(node, set()):
            self._mark_changed(top)

    def _note_releasing(self, gang: GangState) -> None:
        for node, status in zip(gang.node, gang.status, strict=True):
            if status == RELEASING and node != NOWHERE and gang.queue is not None:
                self._releasing.setdefault(node, set()).add(gang.queue.path[-1])

    # -- questions ---------------------------------------------------------------------------------------------------

    def failed_in(self, version: int) -> set[object]:
        """The keys of the searches that failed in this version of the world."""
        if self._failed_in != version:
            self._failed.clear()
            self._failed_in = version
        return self._failed

    def refresh_policy(self, key: object, tops: Iterable[QueueState]) -> RefreshPolicy:
        """Whether the tables for this need are worth their cost."""
        refresh = self._refreshes.get(key)
        if refresh is None:
            if len(self._refreshes) >= MAX_TABLES:
                self._refreshes.clear()
            refresh = self._refreshes[key] = RefreshPolicy(tops)
        return refresh

    def table(self, key: object, tops: Iterable[QueueState], width: int) -> LossTable:
        """The table of this key. Its reader updates it."""
        table = self._tables.get(key)
        if table is None:
            if len(self._tables) >= MAX_TABLES:
                self._tables.clear()
            table = self._tables[key] = LossTable(tops, width)
        return table

    def known(self, top: QueueState, key: object) -> Any:
        """A finding that still holds, or None."""
        return self._findings.get(top.index, {}).get(key)

    def keep(self, top: QueueState, key: object, found: Any) -> None:
        """Keep a finding until something below the top queue changes."""
        if self._count >= MAX_FINDINGS:
            self._findings.clear()
            self._count = 0
        self._count += 1
        self._findings.setdefault(top.index, {})[key] = found


def gains_of(units: Iterable[EvictionUnit], width: int) -> Mapping[int, list[Number]]:
    """The amounts that these evictions free on each node."""
    gains: Gains = {}
    add_gains(gains, units, width)
    return gains


def units_of(losses: Iterable[Loss]) -> Iterator[EvictionUnit]:
    """The evictions of these losses, in order."""
    return (loss.unit for loss in losses)
