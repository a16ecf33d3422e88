"""Fair share as KAI divides it (design, K1), one level at a time, one resource at a time, exact.

1. Quota: min(quota, requestable), even beyond the total; an unlimited quota counts as the level's total.
2. Surplus: by priority, high first; inside one priority in rounds, by weight: the whole unmet amount if the offer
   covers it, else the integer part of the offer, and the fraction is remembered. Another round follows only if a queue
   took less than its offer.
3. Remainder: by priority again, largest remembered fraction first, then oldest, then name, at most 1 each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from pools.domain.amounts import UNLIMITED, Amount, Number, simplify


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
