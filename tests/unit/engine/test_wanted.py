"""Verdicts on the waiting groups of a leaf are kept until the leaf changes, or the amounts that others leave it."""

from __future__ import annotations

import pytest

from scheduling.domain.engine.kept_state import KeptState
from scheduling.domain.engine.rules import starting
from tests.unit.engine.sample_clusters import facts, gang, queue


def judged_in(monkeypatch, state):
    """The gangs that a run judges for its start phases."""
    judged = []
    original = starting._shapes_to_start

    def watched(world, leaf):
        bounds, judge = original(world, leaf)
        return bounds, lambda first: (judged.append(first.fact.name), judge(first))[1]

    monkeypatch.setattr(starting, "_shapes_to_start", watched)
    state.run()
    monkeypatch.undo()
    return judged


@pytest.mark.parametrize(("room_of_pool", "expected"), [(6, ["new"]), (5, ["new", "waits"])])
def test_a_sibling_is_judged_again_only_when_it_has_more_or_less_room(monkeypatch, room_of_pool, expected):
    """`b` may hold 5 GPUs. The new gang of `a` leaves the pool with 5, or with 4 and so `b` too."""
    pool = queue("pool", None, limit=room_of_pool)
    queues = [pool, queue("a", 0, "pool"), queue("b", 0, "pool", limit=5)]
    kept = KeptState(facts(queues, [gang("waits", "b", gpus=5)], {"n": 4, "m": 4}))
    kept.run()
    kept.arrived(gang("new", "a", gpus=1))
    assert sorted(set(judged_in(monkeypatch, kept))) == expected
