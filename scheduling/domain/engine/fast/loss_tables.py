"""What each top queue would lose to a request at most, kept until something below that queue changes.

Top queues lose work independently of each other: the victims of one depend on its own usage, gangs and shares only. So
most of what a search for victims finds out is still true for the next search, and a change costs as much as the few
queues that it touches. :mod:`outlook` fills the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from scheduling.domain.engine.state.nodes import NOWHERE

if TYPE_CHECKING:
    from pools.domain.amounts import Number
    from scheduling.domain.engine.rules.victims import EvictionUnit
    from scheduling.domain.engine.state.nodes import FreeAmounts, NodeIndex
    from scheduling.domain.engine.state.records import GangState, QueueState, Rank

MAX_TABLES, MAX_FINDINGS = 64, 4096
"""Beyond so many tables, and findings about single queues, they start anew."""

FREE_CHANGES = 8
"""For so many changed queues the tables are always brought up to date."""

Gains = dict[int, list["Number"]]
"""What leaves each node: one number for each number of its free amounts."""


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


class Pace:
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
    def may_look(self) -> bool:
        """Whether the tables shall be brought up to date."""
        return len(self._changed) <= self._vain + FREE_CHANGES

    def looked(self) -> None:
        """The tables are up to date."""
        self._changed.clear()
        self._vain = 0

    def learn(self, evictions: int, *, found: bool) -> None:
        """A search without the tables, or with none of its own evictions, is over."""
        self._vain = 0 if found else self._vain + evictions


class LossTables:
    """The tables of one world. Who changes something below a top queue for good calls `mark_changed`."""

    def __init__(self) -> None:
        self._tables: dict[object, LossTable] = {}
        self._paces: dict[object, Pace] = {}
        self._findings: dict[int, dict[object, Any]] = {}
        self._count = 0
        self._firm: dict[int, FreeAmounts] = {}
        """The amounts beside firm work of the nodes where some came or left, before that."""
        self._releasing: dict[int, set[QueueState]] = {}

    def mark_changed(self, top: QueueState) -> None:
        """What this top queue may lose is perhaps something else now."""
        self._count -= len(self._findings.pop(top.index, ()))
        for table in self._tables.values():
            table.stale[top.index] = top
        for pace in self._paces.values():
            pace.note_change(top)

    def note_firm(self, node: int, free: FreeAmounts) -> None:
        """Work that no eviction can stop comes to the node or leaves it, so that evictions there help other requests.
        `free`: what the node has beside such work before that."""
        self._firm.setdefault(node, free)

    def note_releasing(self, node: int, top: QueueState) -> None:
        """A gang below this top queue has a releasing task on the node."""
        self._releasing.setdefault(node, set()).add(top)

    def forget_changed(self, firm: NodeIndex, on_node: list[dict[tuple[GangState, int], None]]) -> None:
        """Before a reader asks: forget what depends on the nodes that changed."""
        for node, before in self._firm.items():
            if firm.free[node] == before:
                continue
            tops = {gang.queue.path[-1] for gang, _task in on_node[node] if gang.queue is not None}
            for top in tops | self._releasing.get(node, set()):
                self.mark_changed(top)
        self._firm.clear()

    def pace(self, key: object, tops: Iterable[QueueState]) -> Pace:
        """The pace for this need."""
        pace = self._paces.get(key)
        if pace is None:
            if len(self._paces) >= MAX_TABLES:
                self._paces.clear()
            pace = self._paces[key] = Pace(tops)
        return pace

    def table(self, key: object, tops: Iterable[QueueState], width: int) -> LossTable:
        """The table of this key. Its reader updates it."""
        table = self._tables.get(key)
        if table is None:
            if len(self._tables) >= MAX_TABLES:
                self._tables.clear()
            table = self._tables[key] = LossTable(tops, width)
        return table

    def finding(self, top: QueueState, key: object, find: Callable[[], Any]) -> Any:
        """Another finding that holds until something below the top queue changes."""
        found = self.known(top, key)
        if found is None:
            found = find()
            self.keep(top, key, found)
        return found

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
    """What these evictions free on each node."""
    gains: Gains = {}
    add_gains(gains, units, width)
    return gains


def units_of(losses: Iterable[Loss]) -> Iterator[EvictionUnit]:
    """The evictions of these losses, in order."""
    return (loss.unit for loss in losses)
