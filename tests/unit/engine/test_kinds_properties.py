"""Properties of work that may use several kinds of GPU, on random installations."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from pools.domain.values.amounts import UNLIMITED
from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import TaskState
from scheduling.domain.engine.kept_state import KeptState
from scheduling.domain.engine.outcome import facts_after, gang_result, queue_positions, waiting_reasons
from scheduling.domain.engine.reasons.liveness import find_stuck
from scheduling.domain.engine.rules.starting import attempt_start
from scheduling.domain.engine.rules.world import World
from tests.unit.engine.random_installations import HOUR, MACHINE, random_installation, random_kinds

SEEDS = range(40)
NOBODYS = "none/gpu"


def life_of(seed):
    """The cycles of an installation: work comes, some of it ends, and what each cycle started or took back is noted a
    minute later. Each is checked with a kept state."""
    pick = random.Random(seed)
    facts, coming = random_kinds(seed)
    kept, cycles, now = KeptState(facts), [], 0
    while coming or len(cycles) < 3:
        for name in sorted({step.gang for step in cycles[-1][1].steps} if cycles and facts.policy else ()):
            facts = noted(kept, facts, name, now + 60)
        now += HOUR // 2
        for gang in list(facts.gangs):
            if pick.random() < 0.15:
                kept.ended(gang.name)
                facts = replace(facts, gangs=tuple(each for each in facts.gangs if each is not gang))
        new, coming = coming[:3], coming[3:]
        for gang in new:
            kept.arrived(gang)
        policy = facts.policy and replace(facts.policy, now=now)
        facts = replace(facts, gangs=(*facts.gangs, *new), policy=policy)
        fresh = run_cycle(facts)
        cycles.append((facts, fresh, kept.run(now)))
        facts = facts_after(fresh)
        assert {each.name: each for each in kept.facts().gangs} == {each.name: each for each in facts.gangs}
    return cycles


def noted(kept, facts, name, at):
    """Tell the kept state when the gang started or began to wait; the facts with the same."""
    gang = next(each for each in facts.gangs if each.name == name)
    if any(task.state is TaskState.RUNNING for task in gang.tasks):
        kept.started(name, at, HOUR)
        known = replace(gang, started=at, expected_time=HOUR, moved=None)
    else:
        kept.waits(name, at, None)
        known = replace(gang, waiting_since=at, expected_time=None)
    return replace(facts, gangs=tuple(known if each is gang else each for each in facts.gangs))


def a_kept_state_and_the_rules_alone_give_the_same_steps_and_answers(cycles):
    for facts, fresh, kept in cycles:
        assert kept.steps == fresh.steps
        assert run_cycle(facts, fast=False).steps == fresh.steps
        shuffled = replace(facts, gangs=facts.gangs[::-1], queues=facts.queues[::-1], nodes=facts.nodes[::-1])
        assert run_cycle(shuffled).steps == fresh.steps
        assert fresh.has_converged
    assert waiting_reasons(kept.world) == waiting_reasons(fresh.world)
    assert queue_positions(kept.world) == queue_positions(fresh.world)
    results = ({g.fact.name: gang_result(g) for g in each.world.gangs} for each in (kept, fresh))
    assert next(results) == next(results)


def no_gang_is_split_and_no_bound_of_a_kind_is_broken(cycles):
    for _facts, fresh, _kept in cycles:
        after = facts_after(fresh)
        kind_of = {node.name: next(iter(node.resources)) for node in after.nodes}
        on_node, held, firm = {}, {}, {}
        for gang in after.gangs:
            running = [task for task in gang.tasks if task.state in MACHINE]
            assert {key for task in running for key in task.request} == {kind_of[task.node] for task in running}
            assert len({kind_of[task.node] for task in running}) <= 1
            for task in running:
                ((kind, n),) = task.request.items()
                on_node[task.node] = on_node.get(task.node, 0) + n
                for name in path(after, gang.queue):
                    held[name, kind] = held.get((name, kind), 0) + n
                    firm[name, kind] = firm.get((name, kind), 0) + (0 if gang.preemptible else n)
        assert all(on_node.get(node.name, 0) <= sum(node.resources.values()) for node in after.nodes)
        for queue in after.queues:
            children = [each for each in after.queues if each.parent == queue.name]
            for kind in set(kind_of.values()):
                assert held.get((queue.name, kind), 0) <= queue.limit.get(kind, UNLIMITED)
                quota = sum(each.quota.get(kind, 0) for each in children or [queue])
                assert firm.get((queue.name, kind), 0) <= quota
        assert len({step.choice for step in fresh.steps}) <= 4


def path(facts, name):
    queues = {queue.name: queue for queue in facts.queues}
    while name in queues:
        yield name
        name = queues[name].parent


def no_gang_waits_while_one_of_its_kinds_has_room(cycles):
    for _facts, fresh, _kept in cycles:
        assert find_stuck(fresh.world) == ()
        again = facts_after(fresh)
        # A gang that got its kind is demand of that alone, which may change the shares of others once more.
        later = [again := facts_after(run_cycle(again)) for _ in range(3)]
        assert later[-1] == later[-2]
        if again.policy is not None:
            reserved = [each.gang for each in again.policy.reservations]
            assert len(reserved) == len(set(reserved))
            continue
        for name in waiting_reasons(fresh.world):
            world = World(facts_after(fresh))
            for choice in world.gang_of[name].choices or (world.gang_of[name],):
                assert attempt_start(world, choice) == [], name


@pytest.mark.parametrize("seed", SEEDS)
def test_the_life_of_an_installation(seed):
    cycles = life_of(seed)
    a_kept_state_and_the_rules_alone_give_the_same_steps_and_answers(cycles)
    no_gang_is_split_and_no_bound_of_a_kind_is_broken(cycles)
    no_gang_waits_while_one_of_its_kinds_has_room(cycles)


@pytest.mark.parametrize("seed", range(25))
def test_a_kind_that_nobody_has_changes_nothing(seed):
    """Neither before nor behind the kind that there is."""
    settled = random_installation(seed)
    fresh = [
        replace(each, tasks=tuple(replace(task, state=TaskState.PENDING, node=None) for task in each.tasks))
        for each in settled.gangs
    ]
    world = World(replace(settled, gangs=tuple(fresh)))
    could_start = world.feasibility.could_start_alone
    possible = {gang.fact.name for gang in world.gangs if could_start(gang, gang.queue)}
    facts = replace(settled, gangs=tuple(each for each in fresh if each.name in possible))
    expected = run_cycle(facts)
    for place in (0, 1):
        gangs = tuple(replace(gang, alternatives=(nobody_has(gang.tasks),), choice=place) for gang in facts.gangs)
        policy = facts.policy
        if policy is not None:
            kept = tuple(replace(each, choice=place) for each in policy.reservations)
            policy = replace(policy, reservations=kept)
        got = run_cycle(replace(facts, gangs=gangs, policy=policy))
        assert [replace(step, choice=0) for step in got.steps] == list(expected.steps)
        assert {step.choice for step in got.steps} <= {place}
        assert queue_positions(got.world) == queue_positions(expected.world)
        ours, theirs = waiting_reasons(got.world), waiting_reasons(expected.world)
        assert ours.keys() == theirs.keys()
        for name, reason in theirs.items():
            assert reason.message[:-1].lower() in ours[name].message.lower()


def nobody_has(tasks):
    return tuple(replace(task, request={NOBODYS: sum(task.request.values())}) for task in tasks)
