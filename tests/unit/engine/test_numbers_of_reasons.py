"""The numbers of each blocker are those of its node, and every node on the way that blocks is named."""

from __future__ import annotations

import pytest

from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import ClusterFacts, GangFacts, NodeFacts, QueueFacts, TaskFacts, TaskState
from scheduling.domain.engine.outcome import waiting_reasons
from scheduling.domain.engine.rules.world import World
from scheduling.domain.gang import GangTree
from tests.unit.engine.sample_clusters import CPU, GPU, cohort, facts, gang, queue

LOW, NORMAL = 50, 100


def blockers_of(given, name="waits"):
    return waiting_reasons(run_cycle(given).world)[name].blockers


def numbers(blocker):
    amounts = (blocker.requested, blocker.free, blocker.missing)
    return (blocker.code, blocker.node, *(each.get(GPU) for each in amounts), blocker.bound, blocker.used)


@pytest.mark.parametrize(
    ("where", "priority", "expected"),
    [
        pytest.param(queue("q", 5), NORMAL, ("over_quota", "q", 4, 2, 2, 5, 0), id="quota"),
        pytest.param(queue("q", None, limit=5), LOW, ("over_limit", "q", 4, 2, 2, 5, 0), id="limit"),
    ],
)
def test_a_queue_that_is_partly_used(where, priority, expected):
    work = [gang("runs", "q", priority, gpus=3, on="n"), gang("waits", "q", priority, gpus=4)]
    (blocker,) = blockers_of(facts([where], work, {"n": 8}))
    assert numbers(blocker) == expected


def test_of_two_resources_the_bound_is_that_of_the_first():
    both = TaskFacts("waits-0", {GPU: 4, CPU: 7})
    used = TaskFacts("runs-0", {GPU: 3, CPU: 5}, state=TaskState.RUNNING, node="n")
    work = tuple(GangFacts(name, "q", (task,), NORMAL, False) for name, task in (("runs", used), ("waits", both)))
    given = ClusterFacts(
        (QueueFacts("q", None, {GPU: 5, CPU: 11}),), gangs=work, nodes=(NodeFacts("n", {GPU: 8, CPU: 64}),)
    )
    (blocker,) = blockers_of(given)
    first = next(iter(blocker.requested))
    assert blocker.requested == {GPU: 4, CPU: 7}
    assert blocker.free == {GPU: 2, CPU: 6}
    assert blocker.missing == {GPU: 2, CPU: 1}
    assert blocker.bound == {GPU: 5, CPU: 11}[first]


def test_each_node_of_the_tree_that_is_short_has_its_own_amount():
    """`team` may borrow 1 and would borrow 4; `division` has 6 in all, of which 5 are used."""
    queues = [
        queue("team", 2, "group", borrowing_limit=1), queue("sister", 3, "group"), queue("other", 1, "division")
    ]  # fmt: skip
    cohorts = (cohort("group", 0, "division", borrowing_limit=2), cohort("division"))
    work = [
        gang("runs", "sister", gpus=3, on="n"),
        gang("more", "other", gpus=1, on="n"),
        gang("waits", "team", gpus=6),
    ]
    given = facts(queues, work, {"n": 16}, cohorts=cohorts)
    assert [numbers(each) for each in blockers_of(given)] == [
        ("over_borrowing_limit", "team", 6, 3, 3, 1, 0),
        ("over_borrowing_limit", "group", 6, 4, 2, 2, 0),
        ("nothing_to_borrow", "division", 6, 2, 4, 6, 0),
    ]


@pytest.mark.parametrize(
    ("minimum", "active", "requested"),
    [
        pytest.param(3, 0, 6, id="its whole minimum"),
        pytest.param(3, 1, 4, id="the rest of its minimum"),
        pytest.param(1, 1, 2, id="one more pod"),
        pytest.param(1, 2, 2, id="one more pod above its minimum"),
    ],
)
def test_an_elastic_gang_asks_for_what_its_next_attempt_starts(minimum, active, requested):
    """Four pods of 2 GPUs each."""
    places = ["n"] * active + [None] * (4 - active)
    elastic = gang("elastic", "q", LOW, gpus=2, count=4, on=places, tree=GangTree(minimum))
    (state,) = World(facts([queue("q", 8)], [elastic], {"n": 16})).gangs
    assert [amount for _resource, amount in state.next_request] == [requested]
