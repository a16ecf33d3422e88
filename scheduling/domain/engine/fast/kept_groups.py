"""The waiting groups of each phase, kept from pass to pass and from run to run: only leaves that changed are judged
again, and a queue whose turn is far away keeps its place in the order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappush
from typing import Any

from scheduling.domain.engine.rules.groups import Judge, Shape, WaitingGroups
from scheduling.domain.engine.rules.queue_order import TOP, QueueOrder, service_key
from scheduling.domain.engine.state.nodes import Request
from scheduling.domain.engine.state.records import GangState, OrderKey, QueueState, Rank, Signature
from scheduling.domain.engine.state.world_state import TaskChange, Watcher, WorldState
from scheduling.domain.engine.steps import StepAction

MAX_HEADS = 64
"""Beyond this number of sets of shapes the findings about the heads of a leaf are dropped."""


class KeptGroups(WaitingGroups):
    """The groups of one phase. A leaf that changed is stale; so is one below a queue that changed, but it is judged
    again only if the bounds by which its groups are judged are others."""

    def __init__(self, leaves: Sequence[QueueState]) -> None:
        super().__init__()
        self._stale = {leaf.index: leaf for leaf in leaves}
        """The leaves whose groups may have other verdicts."""
        self._changed = set(self._stale)
        """The stale leaves that changed themselves."""
        self._bounds: dict[int, Any] = {}
        """The bounds by which the groups of each leaf were judged."""
        self.orders: dict[int, dict[Any, Any]] = {}
        """Findings about the groups below each top queue, forgotten when one of its leaves changes."""
        self._heads: dict[int, dict[frozenset[Shape], tuple[Any, Request]]] = {}
        """For each leaf and set of shapes, a finding about its first gang, and the next request of this gang."""

    def mark_changed(self, leaf: QueueState) -> None:
        """The leaf holds other gangs or amounts, or has another share."""
        self._stale[leaf.index] = leaf
        self._changed.add(leaf.index)

    def mark_bounds(self, leaf: QueueState) -> None:
        """A queue above the leaf may leave it more or less."""
        self._stale[leaf.index] = leaf

    def update(self, judge: Judge) -> None:
        """Judge the groups of all leaves that changed, or whose bounds did."""
        for index, leaf in self._stale.items():
            verdict = judge(leaf) if leaf.waiting else None
            bounds = None if verdict is None else verdict[0]
            if index not in self._changed and self._bounds.get(index) == bounds:
                continue
            self._bounds[index] = bounds
            if leaf.path:
                self.orders.pop(leaf.path[-1].index, None)
            self._heads.pop(index, None)
            self.judge(leaf, verdict)
        self._stale.clear()
        self._changed.clear()

    def head(
        self, leaf: QueueState, shapes: frozenset[Shape], find: Callable[[QueueState, Request], Any]
    ) -> tuple[Any, Request]:
        """The finding of `find` for the leaf and the next request of the first gang of these shapes, and this request;
        kept until the leaf changes. The leaf has such a gang."""
        known = self._heads.setdefault(index := leaf.index, {})
        found = known.get(shapes)
        if found is None:
            if len(known) >= MAX_HEADS:
                known.clear()
            waiting, wanted = leaf.waiting, self._shapes[index].items()
            firsts = [(waiting[signature].first, signature) for signature, shape in wanted if shape in shapes]
            first, _signature = min(firsts, key=_by_order)
            request = first.next_request
            found = known[shapes] = find(leaf, request), request
        return found


def _by_order(entry: tuple[GangState, Signature]) -> tuple[OrderKey, Signature]:
    return entry[0].order_key, entry[1]


class PhaseGroups(Watcher):
    """The groups of every phase."""

    def __init__(self, world: WorldState) -> None:
        phases = (StepAction.START, StepAction.MOVE, StepAction.RECLAIM, StepAction.PREEMPT)
        self.of = {phase: KeptGroups(world.leaves) for phase in phases}

    def came(self, world: WorldState, gang: GangState) -> None:
        """Its leaf changed; if it runs, others may have less room."""
        self._mark(world, gang, holds=gang.ran)

    def leaves(self, world: WorldState, gang: GangState) -> None:
        """Its leaf changes; if it runs, others may have more room."""
        self._mark(world, gang, holds=any(gang.active) or any(gang.released))

    def tasks_changed(self, world: WorldState, changes: Sequence[TaskChange]) -> None:
        """The leaves of these gangs changed, and the room of others."""
        for gang in dict.fromkeys(change.gang for change in changes):
            self._mark(world, gang, holds=True)

    def share_changed(self, world: WorldState, queue: QueueState) -> None:
        """A leaf with another share may reclaim more or less."""
        if not (queue.children or queue.is_cyclic):
            for groups in self.of.values():
                groups.mark_changed(queue)

    def _mark(self, world: WorldState, gang: GangState, *, holds: bool) -> None:
        """Mark the leaf of this gang, and with `holds` other leaves whose quotas and limits are the same ones."""
        queue = gang.queue
        if queue is None:
            return
        self.share_changed(world, queue)
        if not holds:
            return
        top = queue.path[-1]
        for leaf in top.leaves():
            for groups in self.of.values():
                groups.mark_bounds(leaf)
        if queue.has_cohort_above:
            for neighbour in world.cohort_neighbours(top):
                for leaf in neighbour.leaves():
                    self.of[StepAction.START].mark_bounds(leaf)


class KeptQueueOrder(QueueOrder):
    """The same order over groups that are kept from one phase to the next. A top queue whose turn is far away is ranked
    by the key that it had the last time, and looked into only when its turn comes."""

    def __init__(self, groups: KeptGroups, shapes: frozenset[Shape]) -> None:
        super().__init__({})
        self._groups, self._shapes = groups, shapes
        self._closed: dict[int, list[QueueState]] = {}
        """Leaves with gangs of each top queue that it has not looked into."""
        for leaf in groups.leaves(shapes).values():
            self._closed.setdefault(leaf.path[-1].index, []).append(leaf)
        for index, leaves in list(self._closed.items()):
            top, known = leaves[0].path[-1], groups.orders.setdefault(index, {})
            key = known.get(shapes)
            if key is None and not all(leaf.parent is top for leaf in leaves):
                known[shapes] = self._open(top)
                continue
            if key is None:
                key = known[shapes] = self._key_of(top, leaves)
            heappush(self._heaps[TOP], (key, index, 0, top))
            self._stamps[index] = 0

    def next_leaf(self) -> QueueState | None:
        """The leaf whose first gang is tried next."""
        while (top := self._best_child(TOP)) is not None and top.index in self._closed:
            self._open(top)
        return super().next_leaf()

    def _key_of(self, top: QueueState, leaves: Sequence[QueueState]) -> Rank:
        """The key of a top queue with leaves directly below it, without a look at all their groups."""
        heads = [(*self._groups.head(leaf, self._shapes, service_key), leaf.index) for leaf in leaves]
        _key, request, _index = min(heads, key=_by_key)
        return service_key(top, request)

    def _open(self, top: QueueState) -> Rank:
        """Rank the leaves below a top queue. Returns its key."""
        leaves = self._closed.pop(top.index)
        for leaf in leaves:
            self.pending[leaf.index] = self._groups.pending_queue(leaf, self._shapes)
        self.refresh_all(leaves)
        return self._keys[top.index]


def _by_key(head: tuple[Rank, Request, int]) -> tuple[Rank, int]:
    return head[0], head[2]
