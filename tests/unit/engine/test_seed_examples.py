"""Three published examples of scheduling, by their names (design, K2, K4)."""

from __future__ import annotations

from scheduling.domain.engine.facts import HIGH, LOW, NORMAL
from scheduling.domain.engine.outcome import gang_result, queue_positions
from tests.unit.engine.sample_clusters import gang, queue, run_cycle_of, running_gangs, step_pairs


def test_priority_queueing_order():
    """WF1 and WF2 (NORMAL) run; WF3 to WF6 wait by priority, then by submission time."""
    after = run_cycle_of(
        [queue("pool", 2)],
        [
            gang("wf1", "pool", NORMAL, on="n", at=1),
            gang("wf2", "pool", NORMAL, on="n", at=2),
            gang("wf3", "pool", LOW, at=3),
            gang("wf4", "pool", NORMAL, at=4),
            gang("wf5", "pool", HIGH, at=5),
            gang("wf6", "pool", NORMAL, at=6),
        ],
        {"n": 2},
    )
    assert after.steps == ()
    order = sorted(queue_positions(after.world).items(), key=lambda entry: entry[1].overall)
    assert [name for name, _place in order] == ["wf5", "wf4", "wf6", "wf3"]


def test_preemption():
    """WF5 (NORMAL) preempts WF1 (LOW), which is re-queued in front of WF3 and WF4."""
    after = run_cycle_of(
        [queue("pool", 2)],
        [
            gang("wf1", "pool", LOW, on="n", at=1),
            gang("wf2", "pool", NORMAL, on="n", at=2),
            gang("wf3", "pool", LOW, at=3),
            gang("wf4", "pool", LOW, at=4),
            gang("wf5", "pool", NORMAL, at=5),
        ],
        {"n": 2},
    )
    assert step_pairs(after) == [("preempt", "wf1"), ("start", "wf5")]
    assert after.steps[0].beneficiary == "wf5"
    assert after.steps[0].message == "wf5 preempts wf1 in pool, which gives up 1 GPU."
    assert gang_result(after.world.gang_of["wf1"]) == "preempted"
    order = sorted(queue_positions(after.world).items(), key=lambda entry: entry[1].overall)
    assert [name for name, _place in order] == ["wf1", "wf3", "wf4"]


POOLS = [queue("pool1", 2), queue("pool2", 2)]
BEFORE = [
    gang("wf1", "pool1", NORMAL, on="n", at=1),
    gang("wf2", "pool1", LOW, on="n", at=2),
    gang("wf4", "pool2", NORMAL, on="n", at=3),
]


def test_borrowing():
    """pool2 uses 1 of its 2 GPUs, so WF3 (LOW) of pool1 borrows the other."""
    after = run_cycle_of(POOLS, [*BEFORE, gang("wf3", "pool1", LOW, at=4)], {"n": 4})
    assert step_pairs(after) == [("start", "wf3")]


def test_reclaiming():
    """WF5 (NORMAL) of pool2 reclaims the GPU that WF3 had borrowed; WF2, inside pool1's quota, keeps running."""
    after = run_cycle_of(
        POOLS, [*BEFORE, gang("wf3", "pool1", LOW, on="n", at=4), gang("wf5", "pool2", NORMAL, at=5)], {"n": 4}
    )
    assert step_pairs(after) == [("reclaim", "wf3"), ("start", "wf5")]
    assert running_gangs(after) == {"wf1", "wf2", "wf4", "wf5"}


def test_a_pool_that_has_reached_its_quota_preempts_no_gang():
    work = [
        gang("low", "pool", LOW, on="n"),
        gang("wf2", "pool", NORMAL, on="n"),
        gang("wf5", "pool", NORMAL),
    ]
    assert step_pairs(run_cycle_of([queue("pool", 1)], work, {"n": 2})) == []
