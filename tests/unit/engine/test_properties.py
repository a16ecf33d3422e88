"""What must be true of any cluster after settling (issue 3, section 5)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.domain.engine.explain import Code, Explainer
from scheduling.domain.engine.facts import Facts
from scheduling.domain.engine.outcome import facts_after, places, reasons, result_of
from scheduling.domain.engine.settle import settle
from scheduling.domain.engine.starting import attempt
from scheduling.domain.engine.world import World
from tests.unit.engine.clusters import GPU, broken, clusters, half_run

STATES = st.tuples(clusters(), st.sets(st.sampled_from([f"g{i}" for i in range(14)])))


def run(drawn):
    cluster, keep = drawn
    start = half_run(cluster, keep)
    return start, settle(start)


@given(STATES)
@settings(max_examples=300, deadline=None)
def test_bounds_hold_and_nothing_is_half_started(drawn):
    _start, after = run(drawn)
    assert after.settled
    assert broken(after.world) == []


@given(STATES)
@settings(max_examples=200, deadline=None)
def test_settling_again_changes_nothing(drawn):
    _start, after = run(drawn)
    again = settle(facts_after(after))
    assert again.steps == ()
    assert facts_after(again) == facts_after(after)


@given(STATES)
@settings(max_examples=200, deadline=None)
def test_nobody_waits_who_would_fit(drawn):
    _start, after = run(drawn)
    for gang in after.world.gangs:
        if any(gang.waiting):
            assert attempt(after.world, gang) == [], gang


@given(STATES, st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_the_order_of_the_input_does_not_matter(drawn, pick):
    start, after = run(drawn)

    def shuffled(items):
        items = list(items)
        pick.shuffle(items)
        return tuple(items)

    mixed = Facts(shuffled(start.queues), shuffled(start.cohorts), shuffled(start.gangs), shuffled(start.nodes))
    other = settle(mixed)
    assert other.steps == after.steps
    assert reasons(other.world) == reasons(after.world)
    assert places(other.world) == places(after.world)


@given(STATES)
@settings(max_examples=300, deadline=None)
def test_every_victim_is_justified(drawn):
    """Taken work is preemptible; preempted for a higher priority in its leaf; reclaimed for another leaf, and only from
    a leaf that held more than its quota at that moment."""
    start, after = run(drawn)
    gangs = {gang.name: gang for gang in start.gangs}
    queues = {queue.name: queue for queue in start.queues}
    held: dict[str, int] = {}

    def size(step):
        requests = {task.name: task.request[GPU] for task in gangs[step.gang].tasks}
        return sum(requests[name] for name in step.tasks)

    for gang in start.gangs:
        held[gang.queue] = held.get(gang.queue, 0) + sum(t.request[GPU] for t in gang.tasks if t.state == "running")
    for step in after.steps:
        victim = gangs[step.gang]
        if step.action == "start":
            held[victim.queue] = held.get(victim.queue, 0) + size(step)
        elif step.action == "give_up":
            held[victim.queue] -= size(step)
        else:
            other = gangs[step.beneficiary]
            assert victim.preemptible
            if step.action == "preempt":
                assert victim.queue == other.queue
                assert victim.priority < other.priority
            if step.action == "reclaim":
                assert victim.queue != other.queue
                assert held[victim.queue] > (queues[victim.queue].quota or {}).get(GPU, 0)
            if step.action != "move":
                held[victim.queue] -= size(step)


@given(STATES)
@settings(max_examples=200, deadline=None)
def test_every_waiting_gang_has_one_reason_and_one_position(drawn):
    _start, after = run(drawn)
    waits = {g.fact.name for g in after.world.gangs if result_of(g) in {"pending", "preempted"}}
    why, where = reasons(after.world), places(after.world)
    assert set(why) == waits
    assert set(where) == waits
    assert sorted(place.overall for place in where.values()) == list(range(1, len(waits) + 1))
    assert all(reason.message and reason.code != Code.NEXT_PASS for reason in why.values())


@given(STATES, st.data())
@settings(max_examples=400, deadline=None)
def test_the_reason_is_true(drawn, data):
    """Making available what the reasons name starts the gang: each blocker, for a gang that could ever start."""
    _start, after = run(drawn)
    world = after.world
    waiting = sorted(reasons(world))
    if not waiting:
        return
    name = data.draw(st.sampled_from(waiting))
    reason = Explainer(world).explain(world.gang_of[name])
    if not reason.blockers or any(blocker.never for blocker in reason.blockers):
        return
    loosened = facts_after(after)
    for blocker in reason.blockers:
        loosened = loosen(loosened, blocker, world)
    fresh = World(loosened)
    assert attempt(fresh, fresh.gang_of[name]), reason


def loosen(facts, blocker, world):
    missing = blocker.missing.get(GPU, 0)
    if blocker.limit == "nodes":
        more = {short.node: dict(short.missing).get(0, 0) for short in blocker.where}
        nodes = tuple(replace(n, resources={GPU: n.resources[GPU] + more.get(n.name, 0)}) for n in facts.nodes)
        return replace(facts, nodes=nodes)

    def grown(node):
        if node.name != blocker.node:
            return node
        # A queue without a quota of its own has the sum of its children's.
        summed = blocker.limit == "quota" and node.quota is None
        old = {GPU: world.queue_of[node.name].quota[0]} if summed else dict(getattr(node, blocker.limit))
        old[GPU] = old.get(GPU, 0) + missing
        return replace(node, **{blocker.limit: old})

    return replace(facts, queues=tuple(map(grown, facts.queues)), cohorts=tuple(map(grown, facts.cohorts)))
