"""The ratios of dominant shares: exact, and quick to compare."""

from __future__ import annotations

import math
from fractions import Fraction

from scheduling.domain.engine.rules.queue_order import dominant_share


def test_the_dominant_share_is_the_largest_of_all_resources():
    assert dominant_share([1, 3], [4, 8])[1] == Fraction(3, 8)
    assert dominant_share([1, 3], [4, math.inf])[1] == Fraction(1, 4)
    assert dominant_share([0, 0], [4, 0])[1] == 0
    assert dominant_share([2], [0])[1] == 2000


def test_equal_numbers_give_the_same_object():
    assert dominant_share([1], [3]) is dominant_share([Fraction(1)], [3])


def test_shares_that_floats_cannot_tell_apart_are_compared_exactly():
    large = 2**60
    assert dominant_share([large], [large + 1]) < dominant_share([large + 1], [large + 2])
    assert float(Fraction(large, large + 1)) == float(Fraction(large + 1, large + 2))
