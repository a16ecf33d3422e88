"""Fair share as KAI divides it (kai.md 6.1), one level at a time, one resource at a time, exact.

1. Quota: min(quota, requestable), whatever is left; an unlimited quota counts as the level's total.
2. Surplus: by priority, high first; inside one priority in rounds, by weight: the whole unmet amount where it is no
   more than offered, else the whole part of the offer, and the fraction is remembered. Another round only if somebody
   took less than was offered.
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
    """One queue of the level. `request`: allocated + pending of everything below it; `limit` may be `UNLIMITED`."""

    name: str
    quota: Amount
    limit: Amount
    request: Number
    weight: Number = 1
    priority: Number = 100
    created: Number = 0

    @property
    def requestable(self) -> Amount:
        """What it may get at most."""
        return min(self.limit, self.request)


def divide_fair_shares(total: Amount | None, inputs: Sequence[FairShareInput]) -> list[Amount]:
    """The fair share of each claim, in the order given. `total` None: nothing is known of the machines, so that
    everybody has the claim of its quota and there is no surplus."""
    if total is None:
        return [min(claim.quota, claim.requestable) for claim in inputs]
    shares: list[Amount] = [
        min(total if claim.quota == UNLIMITED else claim.quota, claim.requestable) for claim in inputs
    ]
    surplus = total - sum(shares)
    if surplus <= 0:
        return shares
    fractions: dict[int, Number] = {}
    by_priority: dict[Number, list[int]] = {}
    for i, claim in enumerate(inputs):
        by_priority.setdefault(claim.priority, []).append(i)
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
    claims: Sequence[FairShareInput],
    shares: list[Amount],
    fractions: dict[int, Number],
) -> Amount:
    """Divide the surplus inside one priority; changes `shares` and `fractions`, gives back what is left."""
    again = True
    while again and surplus > 0:
        again = False
        unmet = [i for i in level if claims[i].weight > 0 and claims[i].requestable > shares[i]]
        weights = sum(claims[i].weight for i in unmet)
        offered = surplus
        for i in unmet:
            missing = claims[i].requestable - shares[i]
            if offered == UNLIMITED:
                given = missing
            else:
                offer = simplify(Fraction(offered) * Fraction(claims[i].weight) / Fraction(weights))
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
