"""Searches that look ahead on sums find what searches that evict find, and leave the state alone when they fail."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

import pytest

from scheduling.domain.engine import cycle
from scheduling.domain.engine.facts import ClusterFacts, CohortFacts, NodeFacts, PolicyFacts, QueueFacts
from scheduling.domain.engine.fast.loss_tables import RefreshPolicy
from scheduling.domain.engine.fast.shortcuts import PIECES, accelerate
from scheduling.domain.engine.kept_state import KeptState
from scheduling.domain.engine.rules import victims
from scheduling.domain.engine.rules.eviction import EvictionSearch
from scheduling.domain.engine.rules.world import World
from scheduling.domain.engine.steps import StepAction
from tests.support.nightly_parts import samples
from tests.unit.engine.sample_clusters import GPU, facts, gang, queue
from tests.unit.engine.test_kept_state import random_gang


def full_cluster(pick):
    """Many pools whose work may borrow, with and without a cohort, on few nodes, one of them perhaps overfull."""
    is_nested = pick.random() < 0.3
    cohorts = [CohortFacts("all", None, {GPU: 4}), CohortFacts("some", "all", {})] if pick.random() < 0.6 else []
    queues = []
    for top in range(pick.randint(4, 8)):
        parent = None
        if cohorts and pick.random() < 0.7:
            parent = "some" if is_nested and pick.random() < 0.5 else "all"
        queues.append(QueueFacts(f"t{top}", parent, None, pick.choice([{}, {}, {GPU: 24}]), created=top))
        for leaf in range(pick.randint(2, 4)):
            quota, weight = {GPU: pick.choice([0, 2, 4, 8])}, pick.choice([0, 1, 1, 2])
            queues.append(QueueFacts(f"t{top}-{leaf}", f"t{top}", quota, weight=weight, created=leaf))
    nodes = tuple(NodeFacts(f"n{i:02}", {GPU: pick.choice([4, 8, 8])}) for i in range(pick.randint(6, 16)))
    # Firm work on a node that has become smaller: the free amounts of the nodes then do not add up to the free total.
    size = pick.choice([0, 10, 14])
    overfull = (gang("overfull", "t0-0", 100, gpus=size, on="n00"),) if size else ()
    return ClusterFacts(tuple(queues), tuple(cohorts), overfull, nodes)


def live_through(seed, policy=None, *, fast=True):
    """The steps of each instant of a random history in a kept state; an instant takes a minute."""
    pick = random.Random(seed)
    start = replace(full_cluster(pick), policy=policy)
    leaves = [q.name for q in start.queues if "-" in q.name]
    kept, there, found = KeptState(start, fast=fast), [], []
    for instant in range(25):
        while there and pick.random() < 0.6:
            kept.ended(there.pop(pick.randrange(len(there))))
        for _ in range(pick.choice([1, 2, 6]) if instant else 40):
            new = random_gang(pick, f"g{pick.randrange(1000):03}-{instant}-{len(there)}", leaves, instant)
            if len(there) < 60 and set(new.tasks[0].request) == {GPU}:
                limit = None if policy is None else pick.choice([None, 300, 1200])
                kept.arrived(replace(new, submitted=60 * instant, time_limit=limit))
                there.append(new.name)
        found.append(kept.run(60 * instant).steps)
    return found


@pytest.mark.parametrize("seeds", samples([range(6)], [range(6, 20)]))
def test_looking_ahead_changes_no_step(monkeypatch, seeds):
    """In one run every search looks ahead at all queues, in one at the first ones only, and in the last at none."""
    plain = [live_through(seed, fast=False) for seed in seeds]
    for looks_at_all in (True, False):
        monkeypatch.setattr(RefreshPolicy, "is_worthwhile", property(lambda self, answer=looks_at_all: answer))
        assert plain == [live_through(seed) for seed in seeds]
    actions = {step.action for history in plain for steps in history for step in steps}
    assert actions >= {StepAction.RECLAIM, StepAction.PREEMPT}


def test_a_rule_is_changed_in_the_rules_alone(monkeypatch):
    before = [live_through(seed, fast=False) for seed in range(4)]
    monkeypatch.setattr(victims, "keeps_quota", lambda _gang, _request, _where: True)
    after = [live_through(seed, fast=False) for seed in range(4)]
    assert after != before
    assert after == [live_through(seed) for seed in range(4)]


@pytest.mark.parametrize("piece", sorted(PIECES))
def test_each_piece_can_be_left_out(monkeypatch, piece):
    plain = [live_through(seed, fast=False) for seed in range(4)]
    monkeypatch.setattr(cycle, "accelerate", partial(accelerate, pieces=PIECES - {piece}))
    assert plain == [live_through(seed) for seed in range(4)]


@pytest.mark.parametrize("seeds", samples([range(8)], [range(8, 24)]))
def test_the_rules_alone_take_the_same_steps_under_a_policy(seeds):
    policy = PolicyFacts(reserve_after=180, ageing=600)
    fast = [live_through(seed, policy) for seed in seeds]
    assert fast != [live_through(seed) for seed in seeds], "the policy decides something"
    assert fast == [live_through(seed, policy, fast=False) for seed in seeds]


def crowded():
    """`lender` holds two nodes with four gangs of 2 GPUs and borrows 4. The two that it loses first are on different
    nodes, so `small` gets back 2 GPUs on each, and its gang of 4 fits on neither."""
    running = [
        gang("a", "lender", gpus=2, at=1, on="m"),
        gang("b", "lender", gpus=2, at=2, on="n"),
        gang("c", "lender", gpus=2, at=3, on="m"),
        gang("d", "lender", gpus=2, at=4, on="n"),
    ]
    return [queue("lender", 4), queue("small", 4)], running, {"m": 4, "n": 4}


def evictions_of(monkeypatch, state):
    """The gangs that a run evicts on trial."""
    tried = []
    for method in ("stop", "stop_later"):
        original = getattr(World, method)

        def watched(self, lost, tasks, original=original):
            tried.append(lost.fact.name)
            return original(self, lost, tasks)

        monkeypatch.setattr(World, method, watched)
    state.run()
    monkeypatch.undo()
    return tried


def test_a_search_that_cannot_succeed_evicts_nothing_the_second_time(monkeypatch):
    queues, running, nodes = crowded()
    kept = KeptState(facts(queues, [*running, gang("whole", "small", gpus=4, priority=100, at=5)], nodes))
    assert evictions_of(monkeypatch, kept)
    kept.arrived(gang("also", "small", gpus=4, priority=125, at=6))
    assert evictions_of(monkeypatch, kept) == []


def test_what_a_queue_may_lose_is_found_again_after_its_work_changed():
    """`b` ends and `e` comes: now the two that `lender` loses first are on one node."""
    queues, running, nodes = crowded()
    kept = KeptState(facts(queues, [*running, gang("whole", "small", gpus=4, priority=100, at=5)], nodes))
    assert not kept.run().steps
    kept.ended("a")
    kept.arrived(gang("e", "lender", gpus=2, at=0, on="m"))
    kept.ended("b")
    kept.arrived(gang("f", "lender", gpus=2, at=5, on="n"))
    assert [(step.action, step.gang) for step in kept.run().steps] == [
        (StepAction.RECLAIM, "f"),
        (StepAction.RECLAIM, "d"),
        (StepAction.START, "whole"),
    ]


def test_what_a_queue_may_lose_is_found_again_after_firm_work_left_its_node():
    """`firm` and `lent` share a node, so an end of `lent` makes no room for `whole` until `firm` has ended. Neither the
    work nor the share of `lender` changes. The work on node `o` is inside its quota and shall stay."""
    running = [
        gang("firm", "owner", 100, gpus=2, at=1, on="n"),
        gang("lent", "lender", gpus=2, at=2, on="n"),
        gang("kept", "second", gpus=4, at=3, on="o"),
    ]
    queues = [queue("second", 4), queue("lender", 0), queue("owner", 4), queue("small", 4)]
    waits = gang("whole", "small", 100, gpus=4, at=4)
    kept = KeptState(facts(queues, [*running, waits], {"n": 4, "o": 4}))
    assert not kept.run().steps
    kept.ended("firm")
    assert [(step.action, step.gang) for step in kept.run().steps] == [
        (StepAction.RECLAIM, "lent"),
        (StepAction.START, "whole"),
    ]


def test_no_search_for_victims_fails_twice_in_one_state(monkeypatch):
    """A phase asks whether any attempt could succeed, and then makes them in order."""
    failed = []
    original = EvictionSearch._find_victims

    def watched(self, source, *arguments):
        found = original(self, source, *arguments)
        if found is None:
            leaf = self.gang.queue.index
            failed.append((self.world, self.world.version, type(source), leaf, self.gang.signature))
        return found

    monkeypatch.setattr(EvictionSearch, "_find_victims", watched)
    live_through(3)
    assert len(failed) == len(set(failed)) > 0
