"""The table of ratios: exact, bounded, and of one world."""

from __future__ import annotations

import math
from fractions import Fraction

from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.rules import share_ratios
from scheduling.domain.engine.rules.share_ratios import ShareRatios
from tests.unit.engine.sample_clusters import facts, gang, queue


def test_the_dominant_share_is_the_largest_of_all_resources():
    ratios = ShareRatios()
    assert ratios.dominant_share([1, 3], [4, 8])[1] == Fraction(3, 8)
    assert ratios.dominant_share([1, 3], [4, math.inf])[1] == Fraction(1, 4)
    assert ratios.dominant_share([0, 0], [4, 0])[1] == 0
    assert ratios.dominant_share([2], [0])[1] == 2000


def test_equal_numbers_give_the_same_object():
    ratios = ShareRatios()
    assert ratios.dominant_share([1], [3]) is ratios.dominant_share([Fraction(1)], [3])


def test_shares_that_floats_cannot_tell_apart_are_compared_exactly():
    ratios, large = ShareRatios(), 2**60
    assert ratios.dominant_share([large], [large + 1]) < ratios.dominant_share([large + 1], [large + 2])
    assert float(Fraction(large, large + 1)) == float(Fraction(large + 1, large + 2))


def test_a_full_table_is_cleared(monkeypatch):
    monkeypatch.setattr(share_ratios, "MAX_RATIOS", 3)
    ratios = ShareRatios()
    shares = [ratios.dominant_share([n], [7])[1] for n in range(1, 6)]
    assert shares == [Fraction(n, 7) for n in range(1, 6)]
    assert len(ratios) <= 3


def test_each_world_has_a_table_of_its_own():
    given = facts([queue("p", 2), queue("q", 2)], [gang("a", "p"), gang("b", "q")], {"n": 2})
    first, second = run_cycle(given).world, run_cycle(given).world
    assert len({id(each.ratios) for each in first.queues}) == 1
    assert first.queues[0].ratios
    assert first.queues[0].ratios is not second.queues[0].ratios
