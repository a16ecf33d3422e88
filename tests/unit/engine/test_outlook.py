"""Searches that look ahead on sums find what searches that evict find, and leave the state alone when they fail."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache, partial

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


@cache
def plain(seed):
    """The steps by the rules alone."""
    return live_through(seed, fast=False)


@pytest.mark.parametrize("seeds", samples([range(4)], [range(4, 20)]))
def test_looking_ahead_changes_no_step(monkeypatch, seeds):
    """In one run every search looks ahead at all queues, in one at the first ones only, and in the last at none."""
    for looks_at_all in (True, False):
        monkeypatch.setattr(RefreshPolicy, "is_worthwhile", property(lambda self, answer=looks_at_all: answer))
        for seed in seeds:
            assert plain(seed) == live_through(seed)
    actions = {step.action for seed in seeds for steps in plain(seed) for step in steps}
    assert actions >= {StepAction.RECLAIM, StepAction.PREEMPT}


def test_a_rule_is_changed_in_the_rules_alone(monkeypatch):
    monkeypatch.setattr(victims, "keeps_quota", lambda _gang, _request, _where: True)
    after = [live_through(seed, fast=False) for seed in range(2)]
    assert after == [live_through(seed) for seed in range(2)]
    monkeypatch.undo()
    assert after != [plain(seed) for seed in range(2)]


def test_each_piece_can_be_left_out(monkeypatch):
    for piece in sorted(PIECES):
        monkeypatch.setattr(cycle, "accelerate", partial(accelerate, pieces=PIECES - {piece}))
        for seed in range(3):
            assert plain(seed) == live_through(seed), piece


@pytest.mark.parametrize("seeds", samples([range(3)], [range(3, 24)]))
def test_the_rules_alone_take_the_same_steps_under_a_policy(seeds):
    policy = PolicyFacts(reserve_after=180, ageing=600)
    for seed in seeds:
        fast = live_through(seed, policy)
        assert fast != plain(seed), "the policy decides something"
        assert fast == live_through(seed, policy, fast=False)


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
