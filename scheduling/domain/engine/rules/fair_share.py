"""Fair share as KAI divides it (design, K1), level by level from the top, one resource at a time, exact.

1. Quota: min(quota, requestable), even beyond the total; an unlimited quota counts as the level's total.
2. Surplus: by priority, high first; inside one priority in rounds, by weight: the whole unmet amount if the offer
   covers it, else the integer part of the offer, and the fraction is remembered. Another round follows only if a queue
   took less than its offer.
3. Remainder: by priority again, largest remembered fraction first, then oldest, then name, at most 1 each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from pools.domain.values.amounts import UNLIMITED, Amount, Number, simplify, sum_amounts
from scheduling.domain.engine.facts import ClusterFacts
from scheduling.domain.engine.state.records import QueueState


@dataclass(frozen=True, slots=True)
class FairShareInput:
    """The numbers of one queue of the level. `request`: allocated + pending of all below it; `limit` may be
    `UNLIMITED`."""

    name: str
    quota: Amount
    limit: Amount
    request: Number
    weight: Number = 1
    priority: Number = 100
    created: Number = 0

    @property
    def requestable(self) -> Amount:
        """The most that the queue may get."""
        return min(self.limit, self.request)


def divide_fair_shares(total: Amount | None, inputs: Sequence[FairShareInput]) -> list[Amount]:
    """The fair share of each queue, in the order given. `total` None: the capacity of the nodes is unknown, so every
    queue gets its quota and there is no surplus."""
    if total is None:
        return [min(each.quota, each.requestable) for each in inputs]
    shares: list[Amount] = [min(total if each.quota == UNLIMITED else each.quota, each.requestable) for each in inputs]
    surplus = total - sum(shares)
    if surplus <= 0:
        return shares
    fractions: dict[int, Number] = {}
    by_priority: dict[Number, list[int]] = {}
    for i, each in enumerate(inputs):
        by_priority.setdefault(each.priority, []).append(i)
    high_first = sorted(by_priority, reverse=True)
    for priority in high_first:
        surplus = _divide_surplus(surplus, by_priority[priority], inputs, shares, fractions)
    for priority in high_first:
        remembered = [i for i in by_priority[priority] if i in fractions]
        for i in sorted(remembered, key=lambda i: (-fractions[i], inputs[i].created, inputs[i].name)):
            if surplus <= 0:
                return shares
            given = min(1, surplus)
            shares[i] += given
            surplus -= given
    return shares


def _divide_surplus(
    surplus: Amount,
    level: Sequence[int],
    inputs: Sequence[FairShareInput],
    shares: list[Amount],
    fractions: dict[int, Number],
) -> Amount:
    """Divide the surplus inside one priority. Changes `shares` and `fractions`, returns the rest of the surplus."""
    again = True
    while again and surplus > 0:
        again = False
        unmet = [i for i in level if inputs[i].weight > 0 and inputs[i].requestable > shares[i]]
        weights = sum(inputs[i].weight for i in unmet)
        offered = surplus
        for i in unmet:
            missing = inputs[i].requestable - shares[i]
            if offered == UNLIMITED:
                given = missing
            else:
                offer = simplify(Fraction(offered) * Fraction(inputs[i].weight) / Fraction(weights))
                if missing <= offer:
                    given = missing
                    again = again or missing < offer
                    fractions.pop(i, None)
                else:
                    given = math.floor(offer)
                    fractions[i] = offer - given
            shares[i] += given
            surplus -= given
    return surplus


ChangedRequests = Mapping[int, Mapping[int, Number]]
"""For each resource the requests before the change of the queues that request something else now, by their index; all
queues above them included."""


class ShareLevels:
    """Divides the capacity of the facts among the queues. Queues of other clusters share nothing of it."""

    def __init__(self, facts: ClusterFacts, keys: Sequence[str], tops: Iterable[QueueState]) -> None:
        on_nodes = None if facts.nodes is None else sum_amounts(node.resources for node in facts.nodes)
        self._totals: list[Amount | None] = []
        for key in keys:
            whole: Amount | None = None if on_nodes is None else on_nodes.get(key, 0)
            if facts.capacity is not None:
                whole = facts.capacity.get(key, whole or 0)
            self._totals.append(whole)
        tops = list(tops)
        self._own = [queue for queue in tops if not queue.fact.is_external]
        self._external = [queue for queue in tops if queue.fact.is_external]

    def divide_all(self, queues: Iterable[QueueState]) -> None:
        """Set the fair share of every queue."""
        for r in range(len(self._totals)):
            self._divide(r, None)
        for queue in queues:
            set_allocatable(queue)

    def divide_again(self, changed: ChangedRequests) -> list[QueueState]:
        """Set the fair shares again after requests changed. Returns the queues with another share."""
        others: dict[int, QueueState] = {}
        for r, before in changed.items():
            for queue in self._divide(r, before):
                others[queue.index] = queue
        for queue in others.values():
            set_allocatable(queue)
        return list(others.values())

    def _divide(self, r: int, changed: Mapping[int, Number] | None) -> list[QueueState]:
        """Divide the levels of one resource, all of them without `changed`. Returns the queues with another share."""
        levels = [(self._totals[r], self._own, False), (None, self._external, False)]
        others = []
        for above, queues, is_other in levels:
            if (
                changed is not None
                and not is_other
                and not any(
                    queue.index in changed and _may_change_shares(queue, r, changed[queue.index]) for queue in queues
                )
            ):
                levels.extend(
                    (None if above is None else queue.fair[r], queue.children, False)
                    for queue in queues
                    if queue.children and queue.index in changed
                )
                continue
            inputs = [
                FairShareInput(
                    queue.fact.name, queue.quota[r], queue.limit[r], queue.request[r],
                    queue.fact.weight, queue.fact.priority, queue.fact.created,
                )
                for queue in queues
            ]  # fmt: skip
            for queue, share in zip(queues, divide_fair_shares(above, inputs), strict=True):
                differs = queue.fair[r] != share
                if differs:
                    queue.fair[r] = share
                    others.append(queue)
                if queue.children and (changed is None or differs or queue.index in changed):
                    below = None if above is None else share
                    levels.append((below, queue.children, changed is None or differs))
        return others


def _may_change_shares(queue: QueueState, r: int, before: Number) -> bool:
    """Whether another request of the queue may change a share of its level. It changes none while the queue requests
    more than its share: every offer was then smaller than the unmet amount, and still is."""
    share, limit = queue.fair[r], queue.limit[r]
    was, now = min(limit, before), min(limit, queue.request[r])
    if was == now:
        return False
    return not (isinstance(was, int) and isinstance(now, int) and isinstance(share, int) and was > share < now)


def set_allocatable(queue: QueueState) -> None:
    """Set the amounts that follow from the fair share."""
    queue.allocatable = [
        limit if quota == UNLIMITED else min(limit, max(quota, fair))
        for limit, quota, fair in zip(queue.limit, queue.quota, queue.fair, strict=True)
    ]
    queue.rank = None
