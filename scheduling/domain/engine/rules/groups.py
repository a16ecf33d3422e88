"""The waiting groups that a phase tries, and the waiting gangs of each leaf while it does.

A group is all interchangeable gangs of one leaf; its first gang is judged for all.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any

from scheduling.domain.engine.state.records import GangState, QueueState, Signature

Shape = tuple[Any, ...]
"""The part of the verdict on a group that the nodes decide: equal shapes fit on them or not together."""

ANY_SHAPE: Shape = ()
"""The shape of a group that the nodes never rule out."""

GroupJudge = Callable[[GangState], Shape | None]
"""The shape of a group, by its first gang, that the leaf and the queues above it let a phase try, or None."""

Judge = Callable[[QueueState], tuple[Any, GroupJudge] | None]
"""The bounds of one leaf, and the judge of its groups, whose verdicts follow from a group and these bounds; None if the
phase tries no group."""


class WaitingGroups:
    """The groups of one phase."""

    def __init__(self) -> None:
        self._shapes: dict[int, dict[Signature, Shape]] = {}
        """The groups of each leaf that the phase tries."""
        self._leaves: dict[Shape, dict[int, QueueState]] = {}
        """The leaves with a group of a shape."""

    def judge(self, leaf: QueueState, verdict: tuple[Any, GroupJudge] | None) -> None:
        """Judge the groups of a leaf, perhaps again."""
        for old in self._shapes.pop(leaf.index, {}).values():
            holders = self._leaves.get(old)
            if holders is not None:
                holders.pop(leaf.index, None)
                if not holders:
                    del self._leaves[old]
        if verdict is None:
            return
        _bounds, judge_group = verdict
        found: dict[Signature, Shape] = {}
        for signature, group in leaf.waiting.items():
            shape = judge_group(group.first)
            if shape is not None:
                found[signature] = shape
                self._leaves.setdefault(shape, {})[leaf.index] = leaf
        if found:
            self._shapes[leaf.index] = found

    def shapes(self) -> Iterator[Shape]:
        """Every shape of a group."""
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

    def pending_queue(self, leaf: QueueState, shapes: frozenset[Shape]) -> LeafPendingQueue:
        """The groups of these shapes in one leaf that has some."""
        wanted = self._shapes[leaf.index].items()
        groups = {signature: list(leaf.waiting[signature]) for signature, shape in wanted if shape in shapes}
        return LeafPendingQueue(leaf, groups)

    def pending(self, shapes: Iterable[Shape]) -> dict[int, LeafPendingQueue]:
        """The groups of these shapes in every leaf."""
        these = frozenset(shapes)
        return {index: self.pending_queue(leaf, these) for index, leaf in sorted(self.leaves(these).items())}


class LeafPendingQueue:
    """The waiting gangs of one leaf during one phase. A gang that cannot start removes all interchangeable gangs."""

    __slots__ = ("_groups", "_heap", "_out", "_positions", "leaf")

    def __init__(self, leaf: QueueState, groups: dict[Signature, list[GangState]]) -> None:
        self.leaf = leaf
        self._groups = groups
        self._positions = dict.fromkeys(groups, 0)
        self._out: set[Signature] = set()
        self._heap = [(gangs[0].order_key, signature) for signature, gangs in groups.items()]
        heapify(self._heap)

    def head(self) -> GangState | None:
        """The gang to try next, or None when no gang of the leaf is left."""
        while self._heap:
            order, signature = self._heap[0]
            gang = self._front(signature)
            if gang is not None and gang.order_key == order:
                return gang
            heappop(self._heap)
            if gang is not None:
                heappush(self._heap, (gang.order_key, signature))
        return None

    def drop_head_group(self) -> None:
        """Remove the head, which cannot start, with all interchangeable gangs."""
        self._out.add(heappop(self._heap)[1])

    def advance(self) -> None:
        """Go on to the next gang after the head has started, or without a word about others of its kind."""
        signature = heappop(self._heap)[1]
        self._positions[signature] += 1
        self._push(signature)

    def requeue(self, gang: GangState) -> None:
        """Add a gang that may start more tasks again, with its new signature."""
        signature = gang.signature
        if signature not in self._out:
            at = self._positions.setdefault(signature, 0)
            insort(self._groups.setdefault(signature, []), gang, lo=at, key=lambda other: other.order_key)
            self._push(signature)

    def _front(self, signature: Signature) -> GangState | None:
        """The first gang of the group with an unchanged signature: a gang that became a victim waits for the next
        phase."""
        if signature in self._out:
            return None
        group, at = self._groups[signature], self._positions[signature]
        while at < len(group) and group[at].signature != signature:
            at += 1
        self._positions[signature] = at
        return group[at] if at < len(group) else None

    def _push(self, signature: Signature) -> None:
        gang = self._front(signature)
        if gang is not None:
            heappush(self._heap, (gang.order_key, signature))
