"""Dominant shares, with the ratios of one run remembered."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from pools.domain.amounts import UNLIMITED, Amount, Number

MAX_RATIOS = 2**16
"""Beyond this number of ratios the table starts anew."""

ShareRatio = tuple[float, Number, tuple[float, Number]]
"""A ratio that compares fast and exactly: division is monotone, so floats decide wherever they differ. The last part is
the same ratio with its sign turned, for orders that begin with the greatest."""

_NO_SHARE: ShareRatio = (0.0, 0, (0.0, 0))


class ShareRatios(dict[tuple[Number, Amount], ShareRatio]):
    """Ratios by (allocated, allocatable). The queues of one world share a table, and it goes with them.

    Equal numbers give the same object, and tuples compare identical parts without looking inside.
    """

    __slots__ = ()

    def __missing__(self, key: tuple[Number, Amount]) -> ShareRatio:
        allocated, allocatable = key
        if len(self) >= MAX_RATIOS:
            self.clear()
        exact = Fraction(allocated) * 1000 if allocatable == 0 else Fraction(allocated) / Fraction(allocatable)
        ratio = self[key] = (float(exact), exact, (-float(exact), -exact))
        return ratio

    def dominant_share(self, allocated: Sequence[Number], allocatable: Sequence[Amount]) -> ShareRatio:
        """The largest allocated / allocatable of all resources; with nothing allocatable, 1000 times what is held."""
        largest = _NO_SHARE
        for have, most in zip(allocated, allocatable, strict=True):
            if have > 0 and most != UNLIMITED:
                largest = max(largest, self[have, most])
        return largest
