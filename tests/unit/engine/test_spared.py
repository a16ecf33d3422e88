"""The rule of each eviction, and the work that it spared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import HIGH, NORMAL
from scheduling.domain.engine.steps import StepAction
from scheduling.domain.judgement.plan_units import split_plan
from tests.support.nightly_parts import samples
from tests.unit.engine.random_installations import random_installation
from tests.unit.engine.sample_clusters import facts, gang, queue
from tests.unit.engine.test_least_lost import LEAST_LOST

EVICTIONS = {StepAction.RECLAIM, StepAction.PREEMPT}


def evictions_of(start, **how):
    """(victim, rule, [(spared, why)], more) of each eviction."""
    found = [step for step in run_cycle(start, notes_spared=True, **how).steps if step.action in EVICTIONS]
    return [
        (step.gang, step.eviction.rule.value, [(each.gang, each.by.value) for each in step.eviction.spared])
        for step in found
    ]


def test_the_youngest_goes_and_the_older_stay():
    work = [gang(f"l{n}", "q", on="n", at=n) for n in range(1, 5)]
    start = facts([queue("q", 4)], [*work, gang("new", "q", NORMAL, at=9)], {"n": 4})
    assert evictions_of(start) == [("l4", "priority", [("l3", "age"), ("l2", "age"), ("l1", "age")])]


def test_younger_work_that_is_too_small_stays_for_lack_of_room():
    work = [gang("large", "q", gpus=4, on="n1", at=1), gang("small", "q", on="n2", at=2)]
    start = facts([queue("q", 8)], [*work, gang("new", "q", NORMAL, gpus=3, at=9)], {"n1": 4, "n2": 3})
    (found,) = evictions_of(start)
    assert found[0] in {"large", "small"}
    assert found[2] in ([("small", "room")], [("large", "age")])


def test_the_smaller_goes_under_least_lost_and_the_other_loses_more():
    work = [gang("one", "q", gpus=1, on="n1", at=1), gang("two", "q", gpus=2, on="n2", at=2)]
    start = facts([queue("q", 8)], [*work, gang("new", "q", NORMAL, at=9)], {"n1": 1, "n2": 2})
    assert evictions_of(start) == [("two", "priority", [("one", "age")])]
    assert evictions_of(replace(start, policy=LEAST_LOST)) == [("one", "priority", [("two", "least_lost")])]


def test_a_reclaim_by_quota_and_one_by_share():
    work = [gang(f"a{n}", "a", gpus=2, on="n", at=n) for n in range(1, 5)]
    waiting = [gang(f"b{n}", "b", gpus=2, at=10 + n) for n in (1, 2)]
    start = facts([queue("a", 2), queue("b", 2)], [*work, *waiting], {"n": 8})
    assert [rule for _, rule, _ in evictions_of(start)] == ["reclaim", "fair_share"]


def with_new_work(seed):
    """A random settled installation, and work of a high priority that just came to each queue."""
    start = random_installation(seed)
    parents = {each.parent for each in start.queues}
    leaves = [each.name for each in start.queues if each.name not in parents]
    new = [gang(f"new-{leaf}", leaf, HIGH, gpus=1 + seed % 2, at=10**6 + n) for n, leaf in enumerate(leaves)]
    return replace(start, gangs=(*start.gangs, *new))


@pytest.mark.parametrize("thirty", samples(range(2), range(2, 8)))
def test_to_note_it_changes_no_decision_and_spared_work_goes_on(thirty):
    evicted = spared = 0
    for seed in range(thirty * 30, thirty * 30 + 30):
        start = with_new_work(seed)
        plain, noted = run_cycle(start), run_cycle(start, notes_spared=True)
        without = [replace(step, eviction=None) for step in noted.steps]
        assert without == [replace(step, eviction=None) for step in plain.steps]
        assert evictions_of(start) == evictions_of(start, fast=False)
        preemptible = {each.name for each in start.gangs if each.preemptible}
        for unit in split_plan(noted.steps):
            lost = [step for step in unit.steps if step.action in EVICTIONS]
            others = {each.gang for step in lost for each in step.eviction.spared}
            assert others <= preemptible
            assert not others & {step.gang for step in unit.steps}
            evicted, spared = evicted + len(lost), spared + len(others)
    assert min(evicted, spared) > 3, "the installations are not empty of evictions"
