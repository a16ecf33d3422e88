"""Invariants of any cluster after a cycle (design, K2, K4, K6)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import ClusterFacts, TaskState
from scheduling.domain.engine.outcome import facts_after, gang_result, queue_positions, waiting_reasons
from scheduling.domain.engine.reasons.explain import Explainer
from scheduling.domain.engine.rules.gates import may_start
from scheduling.domain.engine.rules.starting import attempt_start
from scheduling.domain.engine.rules.world import World
from scheduling.domain.reason_codes import ReasonCode
from tests.unit.engine.replay_checker import ReplayChecker
from tests.unit.engine.sample_clusters import broken_invariants, cluster_facts, partly_scheduled

# Placing is a search with a budget, so a property can have a counterexample that is not a defect, one in ten thousand.
# The same examples are drawn each time, so that a rare failure does not stop unrelated changes; at night twice as many.
SAMPLE = settings(max_examples=120 if settings.get_current_profile_name() == "nightly" else 30, derandomize=True)

STATES = st.tuples(cluster_facts(), st.sets(st.sampled_from([f"g{i}" for i in range(14)])))
"""A cluster, and the gangs that were scheduled before the others arrived."""


@given(STATES)
@SAMPLE
def test_a_cycle_keeps_every_bound_justifies_each_step_and_leaves_nothing_to_do(drawn):
    start = partly_scheduled(*drawn)
    after = run_cycle(start)
    assert after.has_converged
    assert broken_invariants(after.world) == []
    assert ReplayChecker(start).replay(after.steps) == []
    left = facts_after(after)
    again = run_cycle(left)
    assert again.steps == ()
    assert facts_after(again) == left
    no_gang_waits_that_would_fit_without_evictions(after.world)
    every_waiting_gang_has_one_reason_and_one_position(after.world)


def no_gang_waits_that_would_fit_without_evictions(world):
    """The engine is compared with a trial of every node for every pod."""
    for gang in world.gangs:
        if any(gang.waiting):
            assert attempt_start(world, gang) == [], gang
            assert not may_start_somewhere(world, gang), gang


def every_waiting_gang_has_one_reason_and_one_position(world):
    waits = {g.fact.name for g in world.gangs if gang_result(g) in {"pending", "preempted"}}
    why, where = waiting_reasons(world), queue_positions(world)
    assert set(why) == waits
    assert set(where) == waits
    assert sorted(place.overall for place in where.values()) == list(range(1, len(waits) + 1))
    assert all(reason.message and reason.code != ReasonCode.NEXT_PASS for reason in why.values())


def may_start_somewhere(world, gang):
    """Whether the next attempt of the gang is allowed and fits, found by a trial of all nodes."""
    tasks = gang.next_tasks()
    if gang.queue is None or not gang.is_complete or len(tasks) > 5:
        return False
    free = [list(have) for have in world.nodes.free]

    def stand(left):
        if not left:
            return True
        for have in free:
            if all(have[r] >= amount for r, amount in gang.needs[left[0]]):
                for r, amount in gang.requests[left[0]]:
                    have[r] -= amount
                if stand(left[1:]):
                    return True
                for r, amount in gang.requests[left[0]]:
                    have[r] += amount
        return False

    return may_start(world, gang.queue, gang.next_request, preemptible=gang.preemptible) and stand(tasks)


@given(STATES, st.randoms(use_true_random=False))
@SAMPLE
def test_the_order_of_the_input_does_not_matter(drawn, pick):
    start = partly_scheduled(*drawn)
    after = run_cycle(start)

    def shuffled(items):
        items = list(items)
        pick.shuffle(items)
        return tuple(items)

    mixed = ClusterFacts(shuffled(start.queues), shuffled(start.cohorts), shuffled(start.gangs), shuffled(start.nodes))
    other = run_cycle(mixed)
    assert other.steps == after.steps
    assert waiting_reasons(other.world) == waiting_reasons(after.world)
    assert queue_positions(other.world) == queue_positions(after.world)


@given(STATES, st.data())
@SAMPLE
def test_the_reason_is_true(drawn, data):
    """The gang starts once the named amounts are available; a *never* gang does not start even without other work."""
    after = run_cycle(partly_scheduled(*drawn))
    world = after.world
    waiting = sorted(waiting_reasons(world))
    if not waiting:
        return
    name = data.draw(st.sampled_from(waiting))
    reason = Explainer(world).explain(world.gang_of[name])
    if reason.is_permanent:
        alone = World(everybody_else_gone(facts_after(after), name))
        assert attempt_start(alone, alone.gang_of[name]) == [], reason
    elif reason.blockers:
        loosened = facts_after(after)
        for blocker in reason.blockers:
            loosened = loosen(loosened, blocker, world)
        fresh = World(loosened)
        assert attempt_start(fresh, fresh.gang_of[name]), reason


@given(STATES, st.data())
@SAMPLE
def test_the_missing_amount_of_a_permanent_reason_is_true(drawn, data):
    """Whether the gang could start alone with that much more of every named number."""
    after = run_cycle(partly_scheduled(*drawn))
    why = waiting_reasons(after.world)
    names = sorted(name for name, reason in why.items() if reason.is_permanent and reason.limit != "nodes")
    if not names:
        return
    name = data.draw(st.sampled_from(names))
    facts = everybody_else_gone(facts_after(after), name)
    for _ in range(len(facts.queues) + len(facts.cohorts) + 1):
        alone = World(facts)
        if attempt_start(alone, alone.gang_of[name]):
            return
        reason = Explainer(alone).explain(alone.gang_of[name])
        assert reason.is_permanent, reason
        if any(blocker.limit == "nodes" for blocker in reason.blockers):
            return
        for blocker in reason.blockers:
            facts = loosen(facts, blocker, alone)
    raise AssertionError(why[name])


def everybody_else_gone(facts, name):
    gang = next(gang for gang in facts.gangs if gang.name == name)
    fresh = tuple(replace(task, state=TaskState.PENDING, node=None) for task in gang.tasks)
    return replace(facts, gangs=(replace(gang, tasks=fresh),))


def loosen(facts, blocker, world):
    """The facts with the limit of the blocker raised by the missing amount."""
    if blocker.limit == "nodes":
        more = {short.node: world.named_amounts(short.missing) for short in blocker.node_shortages}
        nodes = (replace(n, resources=added(n.resources, more.get(n.name, {}))) for n in facts.nodes)
        return replace(facts, nodes=tuple(nodes))

    def grown(node):
        if node.name != blocker.node:
            return node
        old = getattr(node, blocker.limit)
        if old is None:
            # A queue without a quota of its own has the sum of its children's.
            old = dict(zip(world.keys, world.queue_of[node.name].quota, strict=True))
        return replace(node, **{blocker.limit: added(old, blocker.missing)})

    return replace(facts, queues=tuple(map(grown, facts.queues)), cohorts=tuple(map(grown, facts.cohorts)))


def added(amounts, more):
    return {key: amounts.get(key, 0) + more.get(key, 0) for key in {*amounts, *more}}
