"""Reference counts free the objects of the engine after their last use, without the garbage collector."""

from __future__ import annotations

import gc

from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import LOW, NORMAL
from scheduling.domain.engine.outcome import queue_positions, waiting_reasons
from scheduling.domain.engine.state.records import GangState, QueueState
from tests.unit.engine.sample_clusters import cohort, facts, gang, queue


def alive():
    return [each for each in gc.get_objects() if isinstance(each, QueueState | GangState)]


def test_an_unused_world_is_freed_without_the_garbage_collector():
    given = facts(
        [queue("p", 4, parent="c"), queue("q", 2, parent="p"), queue("r", 2, parent="p")],
        [
            gang("low", "q", LOW, on="n", gpus=4),
            gang("new", "r", NORMAL, gpus=2),
            gang("waiting_digest", "q", LOW, gpus=2),
        ],
        {"n": 4},
        cohorts=(cohort("c"),),
    )
    gc.collect()
    before = len(alive())
    gc.disable()
    try:
        settled = run_cycle(given)
        assert settled.steps
        assert waiting_reasons(settled.world)
        assert queue_positions(settled.world)
        assert len(alive()) > before
        del settled
        assert len(alive()) == before
    finally:
        gc.enable()
