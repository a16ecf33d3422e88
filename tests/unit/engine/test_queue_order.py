"""Which queue is served next (design, K3): each criterion decides where all before it are equal."""

from __future__ import annotations

import pytest

from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import ClusterFacts, GangFacts, NodeFacts, QueueFacts, TaskFacts
from scheduling.domain.engine.outcome import queue_positions
from scheduling.domain.gang import GangTree, SubGroup
from tests.unit.engine.sample_clusters import CPU, GPU, facts, gang, queue


def served(after):
    """All gangs in serving order: the started ones, then the waiting ones by position."""
    waiting = sorted(queue_positions(after.world).items(), key=lambda entry: entry[1].overall)
    return [*(step.gang for step in after.steps), *(name for name, _place in waiting)]


def one(queues, work, gpus, **more):
    return served(run_cycle(facts(queues, work, {"n": gpus}, **more)))


CASES = {
    "1 not over the fair share before over it, whatever the priority": (
        [queue("a", 2, weight=0, priority=200), queue("b", 2)], [gang("a0", "a"), gang("b0", "b")],
        {"a": 4, "b": 2}, ["b0", "a0"],
    ),
    "2 inside the quota before above it, whatever the priority": (
        [queue("a", 0, priority=200), queue("b", 1)], [gang("a0", "a"), gang("b0", "b")],
        {}, ["b0", "a0"],
    ),
    "2 counts the gang in, not only what is held": (
        [queue("a", 2, priority=200), queue("b", 2)], [gang("a0", "a", gpus=3), gang("b0", "b", gpus=2)],
        {}, ["b0", "a0"],
    ),
    "2 the exact quota is inside": (
        [queue("a", 1, created=2), queue("b", 0, created=1)], [gang("a0", "a"), gang("b0", "b")],
        {}, ["a0", "b0"],
    ),
    "3 higher priority": (
        [queue("a", 0, created=1), queue("b", 0, priority=101, created=2)], [gang("a0", "a"), gang("b0", "b")],
        {}, ["b0", "a0"],
    ),
    "4 nothing allocatable goes last": (
        [queue("a", 0, weight=0, created=1), queue("b", 0, created=2)],
        [gang("a0", "a", gpus=1), gang("b0", "b", gpus=3)],
        {"b": 4}, ["b0", "a0"],
    ),
    "5 the smaller share with the gang": (
        [queue("a", 0, created=1), queue("b", 0, created=2)], [gang("a0", "a", gpus=3), gang("b0", "b", gpus=2)],
        {}, ["b0", "a0"],
    ),
    "6 the smaller share without the gang": (
        [queue("a", 0, limit=4, created=1), queue("b", 0, limit=4, created=2)],
        [gang("a0", "a", gpus=1), gang("a1", "a", gpus=2, at=9), gang("b0", "b", gpus=2), gang("b1", "b", gpus=2)],
        {"a": 1}, ["b0", "a0", "a1", "b1"],
    ),
    "7 the smaller allocatable share": (
        [queue("a", 0, limit=4, created=1), queue("b", 0, limit=2, created=2)],
        [gang("a0", "a", gpus=2), gang("a1", "a", gpus=2, at=9), gang("b0", "b", gpus=1), gang("b1", "b", at=9)],
        {}, ["b0", "a0", "b1", "a1"],
    ),
    "8 the older queue": (
        [queue("a", 0, created=2), queue("b", 0, created=1)], [gang("a0", "a"), gang("b0", "b")],
        {}, ["b0", "a0"],
    ),
    "then the name": (
        [queue("b", 0), queue("a", 0)], [gang("b0", "b"), gang("a0", "a")],
        {}, ["a0", "b0"],
    ),
    "the order is made anew after every gang": (
        [queue("a", 0, created=1), queue("b", 0, created=2)],
        [gang(f"{name}{i}", name, at=i) for name in "ab" for i in range(2)],
        {}, ["a0", "b0", "a1", "b1"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("queues", "work", "usage", "order"), CASES.values(), ids=CASES)
def test_order_of_queues(queues, work, usage, order):
    held = {name: {GPU: amount} for name, amount in usage.items()}
    assert one(queues, work, 8, usage=held) == order


def test_queues_are_compared_by_the_best_gang_below_each():
    """Below `x` the older leaf is full of large work; the small gang of its sibling decides for `x`."""
    queues = [
        queue("x", 0, created=2), queue("x1", 0, "x", created=1), queue("x2", 0, "x", created=2),
        queue("y", 0, created=1),
    ]  # fmt: skip
    work = [gang("x1-large", "x1", gpus=6), gang("x2-small", "x2", gpus=1), gang("y-mid", "y", gpus=2)]
    assert one(queues, work, 16) == ["x2-small", "y-mid", "x1-large"]


def test_over_the_fair_share_means_over_it_in_every_resource():
    """`a` is above its share in GPUs and not in cpu, so it is not over its fair share; its priority decides."""
    queues = (QueueFacts("a", quota={GPU: 1, CPU: 8}, priority=200), QueueFacts("b", quota={GPU: 0, CPU: 8}))
    work = tuple(GangFacts(f"{name}0", name, (TaskFacts("t", {GPU: 1, CPU: 1}),), 50, True) for name in "ab")
    nodes = (NodeFacts("n", {GPU: 8, CPU: 16}),)

    def order(cpu):
        held = {"a": {GPU: 7, CPU: cpu}}
        return served(run_cycle(ClusterFacts(queues, gangs=work, nodes=nodes, usage=held, capacity={GPU: 2, CPU: 8})))

    assert order(2) == ["a0", "b0"]
    assert order(14) == ["b0", "a0"]


def test_nothing_allocatable_goes_last_however_full_the_others_are():
    """Usage without an allocatable share counts a thousandfold; that alone would not put the queue behind `b`."""
    queues = (QueueFacts("a", weight=0), QueueFacts("b", created=1))
    work = tuple(GangFacts(f"{name}0", name, (TaskFacts("t", {GPU: 1}),), 50, True) for name in "ab")
    held = {"b": {GPU: 4000}}
    after = run_cycle(
        ClusterFacts(queues, gangs=work, nodes=(NodeFacts("n", {GPU: 8, CPU: 1}),), usage=held, capacity={GPU: 2})
    )
    assert served(after) == ["b0", "a0"]


def test_the_share_of_a_queue_is_its_largest_over_all_resources():
    """`a` has three of its four GPUs and one core, `b` two of each."""
    quota = {GPU: 4, CPU: 4}
    queues = (QueueFacts("a", quota=quota, created=1), QueueFacts("b", quota=quota, created=2))
    work = tuple(GangFacts(f"{name}0", name, (TaskFacts("t", {GPU: 1}),), 50, True) for name in "ab")
    held = {"a": {GPU: 3, CPU: 1}, "b": {GPU: 2, CPU: 2}}
    assert served(
        run_cycle(ClusterFacts(queues, gangs=work, nodes=(NodeFacts("n", {GPU: 8, CPU: 8}),), usage=held))
    ) == ["b0", "a0"]


def test_usage_without_allocatable_share_counts_a_thousandfold():
    """`b` uses seven times its allocatable share; `a` uses one core and has a share of none."""
    queues = (QueueFacts("a", created=1), QueueFacts("b", created=2))
    work = tuple(GangFacts(f"{name}0", name, (TaskFacts("t", {GPU: 1}),), 50, True) for name in "ab")
    held = {"a": {CPU: 1}, "b": {GPU: 6}}
    after = run_cycle(
        ClusterFacts(queues, gangs=work, nodes=(NodeFacts("n", {GPU: 8, CPU: 0}),), usage=held, capacity={GPU: 2})
    )
    assert [q.allocatable[0] for q in after.world.queues] == [1, 1]
    assert served(after) == ["b0", "a0"]


def test_below_its_minimum_before_at_it_before_above_it():
    """Three gangs of one leaf and priority; the youngest is below its minimum, the oldest above it."""
    above = gang("above", "q", count=3, on=["n", "n", None], at=1, tree=GangTree(1))
    at = gang("at", "q", count=2, on=["n", None], at=2, tree=GangTree(1))
    below = gang("below", "q", at=3)
    after = run_cycle(facts([queue("q", 0)], [above, at, below], {"n": 6}))
    assert [step.gang for step in after.steps] == ["below", "at", "above"]
    tight = run_cycle(facts([queue("q", 0)], [above, at, below], {"n": 5}))
    assert [step.gang for step in tight.steps] == ["below", "at"]


def test_gangs_of_several_groups_are_below_at_and_above_their_minimum_too():
    """Replicas of one pod: of `above` two run and one is needed, of `at` one, of `below` one and two are needed."""

    def replicas(name, need, on, at):
        tree = GangTree(None, need, [SubGroup(f"r{i}", None, 1) for i in range(len(on))])
        return gang(name, "q", count=len(on), on=on, at=at, tree=tree, groups=list(tree.index))

    work = [
        replicas("above", 1, ["n", "n", None], 1),
        replicas("at", 1, ["n", None], 2),
        replicas("below", 2, ["n", None], 3),
    ]
    assert [step.gang for step in run_cycle(facts([queue("q", 0)], work, {"n": 7})).steps] == ["below", "at", "above"]
    assert [step.gang for step in run_cycle(facts([queue("q", 0)], work, {"n": 6})).steps] == ["below", "at"]


def test_victims_are_in_the_exact_reverse_of_the_serving_order():
    """Priority, then above before at its minimum, then the youngest, then the last name."""
    held = [
        gang("high", "q", 60, on="n", at=9),
        gang("old", "q", on="n", at=1),
        gang("young-a", "q", on="n", at=2),
        gang("young-b", "q", on="n", at=2),
        gang("elastic", "q", count=2, on="n", at=0, tree=GangTree(1)),
    ]
    order = []
    for gpus in range(1, 7):
        work = [*held, gang("new", "q", 100, count=gpus, at=20)]
        steps = run_cycle(facts([queue("q", 9)], work, {"n": 6})).steps
        lost = [task for step in steps if step.action == "preempt" for task in step.tasks]
        order.append(next(task for task in lost if task not in order))
    assert order == ["elastic-1", "young-b-0", "young-a-0", "old-0", "elastic-0", "high-0"]
