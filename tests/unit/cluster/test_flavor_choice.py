"""Which flavor a gang is sent in, from what it finds in each."""

from __future__ import annotations

import pytest

from scheduling.domain.engine.facts import WhenCanBorrow, WhenCanPreempt
from scheduling.domain.judgement.flavor_room import FlavorChance, choose_flavor

ROOM = FlavorChance(is_inside_quota=True, has_room=True, could_have_room=False)
BORROWS = FlavorChance(is_inside_quota=False, has_room=True, could_have_room=False)
PREEMPTS = FlavorChance(is_inside_quota=True, has_room=False, could_have_room=True)
FULL = FlavorChance(is_inside_quota=True, has_room=False, could_have_room=False)
FULL_BORROWS = FlavorChance(is_inside_quota=False, has_room=False, could_have_room=False)
BORROW, NEXT = WhenCanBorrow.BORROW, WhenCanBorrow.NEXT
PREEMPT, NEXT_FREE = WhenCanPreempt.PREEMPT, WhenCanPreempt.NEXT


@pytest.mark.parametrize(
    ("chances", "borrow", "preempt", "place"),
    [
        ([ROOM, ROOM], BORROW, NEXT_FREE, 0),
        ([BORROWS, ROOM], BORROW, NEXT_FREE, 0),
        ([BORROWS, ROOM], NEXT, NEXT_FREE, 1),
        ([BORROWS, BORROWS], NEXT, NEXT_FREE, 0),
        ([PREEMPTS, ROOM], BORROW, NEXT_FREE, 1),
        ([PREEMPTS, ROOM], BORROW, PREEMPT, 0),
        ([PREEMPTS, BORROWS], BORROW, NEXT_FREE, 1),
        ([PREEMPTS, BORROWS], NEXT, NEXT_FREE, 1),
        ([PREEMPTS, BORROWS], NEXT, PREEMPT, 0),
        ([FULL, PREEMPTS], BORROW, NEXT_FREE, 1),
        ([FULL, PREEMPTS, ROOM], BORROW, PREEMPT, 1),
        ([BORROWS, PREEMPTS], NEXT, PREEMPT, 1),
        ([BORROWS, PREEMPTS], BORROW, PREEMPT, 0),
        ([FULL, FULL], BORROW, NEXT_FREE, 0),
        ([FULL_BORROWS, FULL], NEXT, NEXT_FREE, 1),
        ([FULL_BORROWS, BORROWS], NEXT, PREEMPT, 1),
    ],
)
def test_the_switches_of_the_pool(
    chances: list[FlavorChance], borrow: WhenCanBorrow, preempt: WhenCanPreempt, place: int
) -> None:
    assert choose_flavor(chances, borrow, preempt) == place


def test_each_chance_says_why_it_was_passed() -> None:
    assert [each.why_passed for each in (FULL, PREEMPTS, BORROWS)] == [
        "no node had room for it", "other work would have had to leave", "it would have borrowed there"
    ]  # fmt: skip
