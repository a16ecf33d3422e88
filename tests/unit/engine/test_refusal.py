"""A reclaim that is known to be refused for its fair share ends before it evicts; no step changes."""

from __future__ import annotations

import random

from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import HIGH, LOW, NORMAL, ClusterFacts, NodeFacts, QueueFacts
from scheduling.domain.engine.fast import outlook
from scheduling.domain.engine.kept_state import KeptState
from scheduling.domain.engine.rules.eviction import EvictionSearch
from scheduling.domain.engine.rules.victims import ReclaimVictims
from scheduling.domain.engine.steps import StepAction
from tests.unit.engine.sample_clusters import CPU, GPU, facts, gang, queue

POOLS, LEAVES, QUOTA = 5, 3, 4


def borrowing_pools(pick):
    """Pools that hold more than their quotas on full nodes: every second leaf has LOW work above its quota."""
    queues = [QueueFacts(f"pool{p}", created=p) for p in range(POOLS)]
    queues += [
        QueueFacts(f"pool{p}-{c}", f"pool{p}", {GPU: QUOTA, CPU: 2 * QUOTA}, created=c)
        for p in range(POOLS)
        for c in range(LEAVES)
    ]
    nodes = [NodeFacts(f"n{i}", {GPU: 8, CPU: pick.choice([16, 20])}) for i in range(POOLS * LEAVES * QUOTA // 8 + 2)]
    leaves = [queue.name for queue in queues if queue.parent]
    gangs = []
    for node in nodes:
        free = 8
        while free:
            gpus = pick.choice([gpus for gpus in (1, 2, 2, 4) if gpus <= free])
            gangs.append(gang(f"r{len(gangs):02}", pick.choice(leaves[::2]), LOW, gpus=gpus, on=node.name))
            free -= gpus
    return ClusterFacts(tuple(queues), gangs=tuple(gangs), nodes=tuple(nodes))


def live_through(seed, *, fast=True):
    """The steps of each instant of a random history: now and then a gang ends, and gangs come."""
    pick = random.Random(seed)
    start = borrowing_pools(pick)
    leaves = [queue.name for queue in start.queues if queue.parent]
    kept, found = KeptState(start, fast=fast), []
    for instant in range(20):
        running = [gang.fact.name for gang in kept.world.gangs if gang.is_running]
        kept.ended(pick.choice(running))
        for i in range(pick.choice([1, 2, 4])):
            count, gpus = pick.choice([(1, 1), (1, 2), (1, 4), (1, 4), (1, 8), (2, 2), (4, 1)])
            priority = pick.choice([LOW, LOW, NORMAL, HIGH])
            kept.arrived(gang(f"x{instant:02}{i}", pick.choice(leaves), priority, gpus=gpus, count=count, at=instant))
        found.append(kept.run().steps)
    return found


SEEDS = (4, 19, 24, 27, 39, 43, 69, 118, 201, 210, 219, 253, 283, 285)
"""Histories in which a part of the proof decides: more than two victims, one gang that may replace them, and losses
that the fair share allows."""


def test_no_step_changes_by_the_proof(monkeypatch):
    known = []
    original = outlook.is_refused_anyway

    def watched(*arguments):
        known.append(original(*arguments))
        return known[-1]

    monkeypatch.setattr(outlook, "is_refused_anyway", watched)
    with_proof = [live_through(seed) for seed in SEEDS]
    assert known.count(True) > 10
    assert with_proof == [live_through(seed, fast=False) for seed in SEEDS]
    assert any(step.action is StepAction.RECLAIM for history in with_proof for steps in history for step in steps)


def above_its_share(priorities):
    """The fair shares of `ours` and `theirs` are 2.5 and 3.5 GPUs. A gang of `ours-a` would bring `ours` to 4, and take
    2 of the 4 from `theirs`. The LOW gang of `ours-b` shares a node with firm work, so its end makes no room for 2."""
    queues = [
        queue("ours", None),
        queue("ours-a", 0, "ours"),
        queue("ours-b", 0, "ours", weight=0),
        queue("theirs", 1),
    ]
    running = [
        gang("firm", "ours-b", NORMAL, on="m"),
        gang("low", "ours-b", LOW, on="m"),
        gang("t1", "theirs", LOW, gpus=2, on="n"),
        gang("t2", "theirs", LOW, gpus=2, on="o"),
    ]
    waiting = [gang(f"w{i}", "ours-a", priority, gpus=2, at=i) for i, priority in enumerate(priorities)]
    return facts(queues, [*running, *waiting], {"m": 2, "n": 2, "o": 2})


def test_a_reclaim_that_is_refused_evicts_nothing(monkeypatch):
    finished = []
    monkeypatch.setattr(EvictionSearch, "finish", lambda self, units, accept: finished.append(units))
    assert not run_cycle(above_its_share([LOW])).steps
    assert not finished
    assert not run_cycle(above_its_share([LOW]), fast=False).steps
    assert finished


def test_gangs_of_one_leaf_that_differ_in_their_priority_share_one_search(monkeypatch):
    searched = []
    original = EvictionSearch._find_victims

    def watched(self, source, *arguments):
        searched.append((type(source), self.gang.fact.name))
        return original(self, source, *arguments)

    monkeypatch.setattr(EvictionSearch, "_find_victims", watched)
    assert not run_cycle(above_its_share([LOW, LOW + 1, LOW + 2])).steps
    assert len([name for source, name in searched if source is ReclaimVictims]) == 1
