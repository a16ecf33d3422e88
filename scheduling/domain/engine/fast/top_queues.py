"""The top queues sorted by their rank as victims, kept from one search for victims to the next.

A search needs only the first few queues of this order. Sorting all of them for each search costs as much as there are
queues, for as many searches as there are gangs.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from scheduling.domain.engine.rules.queue_order import victim_rank
from scheduling.domain.engine.state.records import QueueState, Rank


class TopQueues:
    """Top queues in the order of `victim_rank`. Who changes the usage of a queue calls `mark_changed`."""

    def __init__(self, queues: Iterable[QueueState]) -> None:
        self._queues = {queue.index: queue for queue in queues}
        self._ranks: dict[int, Rank] = {}
        self._order: list[tuple[Rank, int]] = []
        self._changed = dict.fromkeys(self._queues)

    def mark_changed(self, queue: QueueState) -> None:
        """The rank of this top queue may have changed."""
        self._changed[queue.index] = None

    def by_rank(self) -> Iterator[QueueState]:
        """The queues that may be above their quota in some resource, first victims first, as they stand now. Changes
        during the iteration do not reorder it."""
        for rank, index in tuple(self._sorted()):
            is_within_share, is_inside_quota = rank[0], rank[1]
            if is_within_share and is_inside_quota:
                return
            yield self._queues[index]

    def _sorted(self) -> list[tuple[Rank, int]]:
        order, ranks = self._order, self._ranks
        for index in self._changed:
            rank, old = victim_rank(self._queues[index]), ranks.get(index)
            if rank == old:
                continue
            if old is not None:
                del order[bisect_left(order, (old, index))]
            insort(order, (rank, index))
            ranks[index] = rank
        self._changed.clear()
        return order
