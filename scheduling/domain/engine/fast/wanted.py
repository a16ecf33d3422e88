"""The waiting groups that a phase tries, kept from pass to pass and from run to run: only leaves that changed are
judged again. A group is all interchangeable gangs of one leaf; its first gang is judged for all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from scheduling.domain.engine.state.nodes import Request
from scheduling.domain.engine.state.records import GangState, QueueState, Signature
from scheduling.domain.engine.state.sorted_gangs import LeafPendingQueue, OrderKey

Shape = tuple[Any, ...]
"""The part of the verdict on a group that the nodes decide: equal shapes fit on them or not together."""

ANY_SHAPE: Shape = ()
"""The shape of a group that the nodes never rule out."""

GroupJudge = Callable[[GangState], Shape | None]
"""The shape of a group, by its first gang, that the leaf and the queues above it let a phase try, or None."""

Judge = Callable[[QueueState], tuple[Any, GroupJudge] | None]
"""The bounds of one leaf, and the judge of its groups, whose verdicts follow from a group and these bounds; None if the
phase tries no group."""


MAX_HEADS = 64
"""Beyond so many sets of shapes the heads of a leaf start anew."""


class WantedGroups:
    """The groups of one phase. Who changes a leaf calls `mark_changed`; who changes only a queue above it calls
    `mark_bounds`."""

    def __init__(self, queues: Iterable[QueueState]) -> None:
        leaves = [queue for queue in queues if not (queue.children or queue.is_cyclic)]
        self.futile_in: int | None = None
        """The version of the world in which the phase found nothing to do."""
        self._stale = {leaf.index: leaf for leaf in leaves}
        """The leaves whose groups may have other verdicts."""
        self._changed = set(self._stale)
        """Those of them that changed themselves."""
        self._bounds: dict[int, Any] = {}
        """The bounds by which the groups of each leaf were judged."""
        self._shapes: dict[int, dict[Signature, Shape]] = {}
        """The wanted groups of each leaf."""
        self._leaves: dict[Shape, dict[int, QueueState]] = {}
        """The leaves with a group of a shape."""
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
            bounds, judge_group = (judge(leaf) if leaf.waiting else None) or (None, None)
            if index not in self._changed and self._bounds.get(index) == bounds:
                continue
            self._bounds[index] = bounds
            if leaf.path:
                self.orders.pop(leaf.path[-1].index, None)
            self._heads.pop(index, None)
            for old in self._shapes.pop(index, {}).values():
                holders = self._leaves.get(old)
                if holders is not None:
                    holders.pop(index, None)
                    if not holders:
                        del self._leaves[old]
            found: dict[Signature, Shape] = {}
            for signature, group in leaf.waiting.items() if judge_group is not None else ():
                shape = judge_group(group.first)  # type: ignore[misc]
                if shape is not None:
                    found[signature] = shape
                    self._leaves.setdefault(shape, {})[index] = leaf
            if found:
                self._shapes[index] = found
        self._stale.clear()
        self._changed.clear()

    def shapes(self) -> Iterator[Shape]:
        """Every shape of a wanted group."""
        return iter(self._leaves)

    def leaves(self, shapes: Iterable[Shape]) -> dict[int, QueueState]:
        """The leaves with a group of one of these shapes, by index."""
        found: dict[int, QueueState] = {}
        for shape in shapes:
            found.update(self._leaves.get(shape, {}))
        return found

    def groups(self, shapes: Iterable[Shape]) -> Iterator[tuple[GangState, QueueState]]:
        """The first gang of each group of these shapes, with its leaf."""
        these = frozenset(shapes)
        for index, leaf in self.leaves(these).items():
            for signature, shape in self._shapes[index].items():
                if shape in these:
                    yield leaf.waiting[signature].first, leaf

    def head(
        self, leaf: QueueState, shapes: frozenset[Shape], find: Callable[[QueueState, Request], Any]
    ) -> tuple[Any, Request]:
        """What `find` found for the leaf and the next request of the first gang of these shapes, and this request; kept
        until the leaf changes. The leaf has such a gang."""
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

    def pending_queue(self, leaf: QueueState, shapes: frozenset[Shape]) -> LeafPendingQueue:
        """The wanted groups of these shapes in one leaf that has some."""
        wanted = self._shapes[leaf.index].items()
        groups = {signature: leaf.waiting[signature].snapshot() for signature, shape in wanted if shape in shapes}
        return LeafPendingQueue(leaf, groups)

    def pending(self, shapes: Iterable[Shape]) -> dict[int, LeafPendingQueue]:
        """The wanted groups of these shapes in every leaf."""
        these = frozenset(shapes)
        return {index: self.pending_queue(leaf, these) for index, leaf in sorted(self.leaves(these).items())}


def _by_order(entry: tuple[GangState, Signature]) -> tuple[OrderKey, Signature]:
    return entry[0].order_key, entry[1]


class PhaseGroups:
    """The wanted groups of each phase."""

    def __init__(self, queues: Sequence[QueueState]) -> None:
        self.to_start, self.to_move = WantedGroups(queues), WantedGroups(queues)
        self.to_reclaim, self.to_preempt = WantedGroups(queues), WantedGroups(queues)

    def mark_changed(self, queue: QueueState) -> None:
        """The numbers or the gangs of this queue changed."""
        if not (queue.children or queue.is_cyclic):
            for groups in (self.to_start, self.to_move, self.to_reclaim, self.to_preempt):
                groups.mark_changed(queue)

    def mark_bounds(self, leaf: QueueState) -> None:
        """A queue above this leaf may leave it more or less."""
        for groups in (self.to_start, self.to_move, self.to_reclaim, self.to_preempt):
            groups.mark_bounds(leaf)
