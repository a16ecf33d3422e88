"""Victims and their order (design, K4): consolidation, preemption, elastic gangs. Reclaim has its own module."""

from __future__ import annotations

import random

import pytest

from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import HIGH, LOW, NORMAL, GangFacts, TaskFacts
from scheduling.domain.engine.outcome import waiting_reasons
from scheduling.domain.gang import GangTree, SubGroup
from tests.unit.engine.sample_clusters import GPU, cohort, facts, gang, queue, run_cycle_of, running_gangs, step_pairs


def test_preemption_needs_a_strictly_lower_priority_in_the_same_leaf():
    same = [gang("old", "q", LOW, on="n"), gang("new", "q", LOW)]
    assert step_pairs(run_cycle_of([queue("q", 0)], same, {"n": 1})) == []
    lower = [gang("old", "q", 40, on="n"), gang("new", "q", LOW)]
    assert step_pairs(run_cycle_of([queue("q", 0)], lower, {"n": 1})) == [("preempt", "old"), ("start", "new")]


def test_equal_priorities_are_not_evicted_with_lower_ones():
    work = [
        gang("lower", "q", 40, on="n"),
        gang("equal", "q", LOW, gpus=2, on="n", at=9),
        gang("new", "q", LOW, gpus=2),
    ]
    assert step_pairs(run_cycle_of([queue("q", 0)], work, {"n": 3})) == []


def test_non_preemptible_work_is_never_evicted():
    fixed = GangFacts("old", "q", (TaskFacts("old-0", {GPU: 1}, state="running", node="n"),), LOW, preemptible=False)
    assert step_pairs(run_cycle(facts([queue("q", 9)], [fixed, gang("new", "q", HIGH)], {"n": 1}))) == []
    assert step_pairs(run_cycle(facts([queue("q", 9, limit=1)], [fixed, gang("new", "q", HIGH)], {"n": 8}))) == []
    assert (
        step_pairs(run_cycle(facts([queue("q", 9), queue("new", 9)], [fixed, gang("new", "new", HIGH)], {"n": 1})))
        == []
    )


def test_victims_go_lowest_priority_first_then_newest():
    work = [gang(f"l{i}", "q", LOW, on="n", at=i) for i in range(3)]
    after = run_cycle_of(
        [queue("q", 9)], [*work, gang("m", "q", 60, on="n", at=9), gang("new", "q", NORMAL, gpus=2)], {"n": 4}
    )
    assert [name for action, name in step_pairs(after) if action == "preempt"] == ["l2", "l1"]


def test_no_more_victims_than_needed_and_one_rather_than_two():
    work = [
        gang("two", "q", LOW, gpus=2, on="n", at=1),
        gang("one", "q", LOW, gpus=1, on="n", at=2),
        gang("another", "q", LOW, gpus=1, on="n", at=3),
    ]
    after = run_cycle_of([queue("q", 9)], [*work, gang("new", "q", NORMAL, gpus=2)], {"n": 4})
    assert step_pairs(after) == [("preempt", "two"), ("start", "new")]


def test_of_single_victims_the_one_served_last_goes():
    """Each of the large gangs alone would suffice, and so would the small ones together."""
    work = [
        gang(f"{size}{i}", "q", LOW, gpus=gpus, on="n", at=at)
        for at, (size, i, gpus) in enumerate([("large", 0, 2), ("large", 1, 2), ("small", 0, 1), ("small", 1, 1)])
    ]
    after = run_cycle_of([queue("q", 9)], [*work, gang("new", "q", NORMAL, gpus=2)], {"n": 6})
    assert step_pairs(after) == [("preempt", "large1"), ("start", "new")]


def test_fewer_victims_are_not_bought_with_a_higher_priority():
    work = [
        gang("two", "q", 60, gpus=2, on="n", at=1),
        gang("one", "q", LOW, gpus=1, on="n", at=2),
        gang("another", "q", LOW, gpus=1, on="n", at=3),
    ]
    after = run_cycle_of([queue("q", 9)], [*work, gang("new", "q", NORMAL, gpus=2)], {"n": 4})
    assert sorted(name for action, name in step_pairs(after) if action == "preempt") == ["another", "one"]


def test_a_victim_that_does_not_help_is_spared():
    work = [gang("elsewhere", "q", LOW, gpus=1, on="n1", at=9), gang("here", "q", LOW, gpus=4, on="n2", at=1)]
    after = run_cycle_of([queue("q", 9)], [*work, gang("new", "q", NORMAL, gpus=4)], {"n1": 2, "n2": 4})
    assert step_pairs(after) == [("preempt", "here"), ("start", "new")]


def test_a_victim_that_does_not_help_is_spared_among_many():
    """Four are first in the order; the youngest, on the other node, does not help and returns."""
    here = [gang(f"here{i}", "q", LOW, gpus=1, on="n2", at=i) for i in range(3)]
    work = [gang("elsewhere", "q", LOW, gpus=1, on="n1", at=9), *here, gang("new", "q", NORMAL, gpus=3)]
    after = run_cycle_of([queue("q", 9)], work, {"n1": 1, "n2": 3})
    assert step_pairs(after) == [("preempt", "here2"), ("preempt", "here1"), ("preempt", "here0"), ("start", "new")]


@pytest.mark.parametrize(("gangs", "starts"), [(16, True), (17, False)])
def test_at_most_sixteen_gangs_move_for_one(gangs, starts):
    here = [gang(f"l{i:02}", "q", LOW, on="n1", at=i) for i in range(gangs)]
    fixed = gang("fixed", "q", NORMAL, gpus=17, on="n2")
    after = run_cycle_of([queue("q", 34)], [*here, fixed, gang("new", "q", LOW, gpus=34, at=99)], {"n1": 34, "n2": 34})
    assert ("new" in running_gangs(after)) is starts
    assert len([1 for action, _name in step_pairs(after) if action == "move"]) == (gangs if starts else 0)


def test_consolidation_moves_every_gang_or_does_nothing():
    """Three of the four would fit elsewhere, so none moves."""
    here = [gang(f"l{i}", "q", LOW, gpus=2, on="n1", at=i) for i in range(4)]
    work = [*here, gang("fixed", "q", NORMAL, gpus=2, on="n2"), gang("new", "q", LOW, gpus=8, at=9)]
    assert step_pairs(run_cycle_of([queue("q", 8)], work, {"n1": 8, "n2": 8})) == []
    assert ("start", "new") in step_pairs(run_cycle_of([queue("q", 8)], work, {"n1": 8, "n2": 10}))


def test_consolidation_vacates_as_many_nodes_as_the_gang_needs():
    work = [gang(f"l{i}", "q", LOW, on=f"n{i}", at=i) for i in (1, 2)]
    after = run_cycle_of(
        [queue("q", 0)], [*work, gang("new", "q", LOW, gpus=4, count=2, at=9)], {"n1": 4, "n2": 4, "n3": 2}
    )
    assert sorted(step_pairs(after)) == [("move", "l1"), ("move", "l2"), ("start", "new")]


def test_on_one_node_the_gang_that_is_served_last_moves():
    work = [gang("old", "q", LOW, on="n1", at=1), gang("young", "q", LOW, on="n1", at=2)]
    after = run_cycle_of([queue("q", 0)], [*work, gang("new", "q", LOW, gpus=3, at=9)], {"n1": 4, "n2": 1})
    assert step_pairs(after) == [("move", "young"), ("start", "new")]


def test_an_impossible_move_may_be_possible_in_the_next_pass():
    """`low` fits nowhere else until `half`, which cannot be complete, has given up its tasks."""
    tasks = (TaskFacts("half-0", {GPU: 2}, state="running", node="n2"), TaskFacts("half-1", {GPU: 9}))
    half = GangFacts("half", "q", tasks, LOW, True, 0)
    work = [half, gang("low", "q", LOW, gpus=2, on="n1", at=1), gang("new", "q", LOW, gpus=4, at=9)]
    after = run_cycle(facts([queue("q", 0)], work, {"n1": 4, "n2": 2, "n3": 1, "n4": 1}))
    assert step_pairs(after) == [("give_up", "half"), ("move", "low"), ("start", "new")]


def test_the_node_with_fewest_gangs_to_move_is_vacated():
    """On each of two nodes two pods block the start; on n2 they belong to one gang, although an older one."""
    pair = gang("pair", "q", LOW, count=2, on="n2", at=1)
    singles = [gang(f"single{i}", "q", LOW, on="n1", at=5 + i) for i in range(2)]
    work = [pair, *singles, gang("new", "q", LOW, gpus=4, at=9)]
    assert step_pairs(run_cycle_of([queue("q", 0)], work, {"n1": 4, "n2": 4, "n3": 2})) == [
        ("move", "pair"),
        ("start", "new"),
    ]


def test_no_gang_moves_for_a_start_in_free_capacity():
    work = [gang("l", "q", LOW, on="n1"), gang("new", "q", LOW, gpus=4, at=9)]
    assert step_pairs(run_cycle_of([queue("q", 0)], work, {"n1": 4, "n2": 4})) == [("start", "new")]


def test_no_gang_is_evicted_where_a_gang_of_the_same_leaf_can_move():
    """The new gang is inside its fair share and may replace `lent`."""
    work = [
        gang("own", "a", LOW, gpus=2, on="n1", at=1),
        gang("lent", "b", LOW, gpus=4, on="n2", at=2),
        gang("new", "a", LOW, gpus=4, at=9),
    ]
    after = run_cycle_of([queue("a", 6), queue("b", 0)], work, {"n1": 4, "n2": 4, "n3": 2})
    assert step_pairs(after) == [("move", "own"), ("start", "new")]


def test_a_lender_reclaims_before_it_preempts_its_own_work():
    """Work in the leaf of the new gang and work that another leaf borrowed would both suffice."""
    work = [gang("own", "a", LOW, on="n", at=9), gang("lent", "b", LOW, on="n", at=1), gang("new", "a", NORMAL)]
    after = run_cycle_of([queue("a", 3), queue("b", 0)], work, {"n": 2})
    assert step_pairs(after) == [("reclaim", "lent"), ("start", "new")]


def test_a_victim_that_fits_elsewhere_moves():
    work = [gang("l", "q", LOW, gpus=2, on="n2", at=1)]
    after = run_cycle_of([queue("q", 9)], [*work, gang("new", "q", NORMAL, gpus=4)], {"n1": 3, "n2": 4})
    assert step_pairs(after) == [("move", "l"), ("start", "new")]
    assert running_gangs(after) == {"l", "new"}


def test_consolidation_moves_preemptible_work_for_preemptible_work():
    work = [gang("a", "q", LOW, gpus=4, on="n1", at=1), gang("b", "q", LOW, gpus=4, on="n2", at=2)]
    after = run_cycle_of([queue("q", 0)], [*work, gang("c", "q", LOW, gpus=8, at=3)], {"n1": 8, "n2": 8})
    assert step_pairs(after) == [("move", "b"), ("start", "c")]
    fixed = [gang("a", "q", NORMAL, gpus=4, on="n1", at=1), gang("b", "q", NORMAL, gpus=4, on="n2", at=2)]
    after = run_cycle_of([queue("q", 8)], [*fixed, gang("c", "q", LOW, gpus=8, at=3)], {"n1": 8, "n2": 8})
    assert step_pairs(after) == []
    assert waiting_reasons(after.world)["c"].code == "fragmented"


@pytest.mark.parametrize("leaf", ["q", "other"])
def test_non_preemptible_work_is_not_moved(leaf):
    """Both gangs run on the node for the new one, and either would fit on n2; `fixed`, the younger, would be first."""
    fixed = GangFacts("fixed", "q", (TaskFacts("fixed-0", {GPU: 1}, state="running", node="n1"),), LOW, False, 9)
    work = [gang("free", "q", LOW, on="n1", at=1), fixed, gang("new", leaf, NORMAL, gpus=3, at=20)]
    after = run_cycle(facts([queue("q", 5), queue("other", 5)], work, {"n1": 4, "n2": 1}))
    assert step_pairs(after) == [("move", "free"), ("start", "new")]
    low = [*work[:2], gang("new", leaf, LOW, gpus=3, at=20)]
    assert step_pairs(run_cycle(facts([queue("q", 5), queue("other", 5)], low, {"n1": 4, "n2": 1}))) == step_pairs(
        after
    )


def test_inside_a_leaf_no_gang_is_evicted_where_moving_is_enough():
    work = [gang("small", "q", LOW, gpus=2, on="n2", at=1), gang("large", "q", LOW, gpus=4, on="n1", at=2)]
    after = run_cycle_of([queue("q", 4)], [*work, gang("w", "q", NORMAL, gpus=4)], {"n1": 4, "n2": 4, "n3": 2})
    assert step_pairs(after) == [("move", "small"), ("start", "w")]


def test_a_preemption_moves_only_lower_priorities_of_its_own_leaf():
    """The queue is above its fair share, so no other queue loses work for it; on n1 one more would have to move."""
    queues, more = [queue("q", 4), queue("other", 4)], {"usage": {"q": {GPU: 9}}}

    def after(*standing):
        work = [*standing, gang("low", "q", LOW, on="n1", at=1), gang("new", "q", NORMAL, gpus=4, at=20)]
        return step_pairs(run_cycle(facts(queues, work, {"n1": 4, "n2": 2}, **more)))

    def on_n1(where, priority):
        return GangFacts("its", where, (TaskFacts("its-0", {GPU: 1}, state="running", node="n1"),), priority, True, 9)

    assert after() == [("move", "low"), ("start", "new")]
    assert after(on_n1("q", LOW)) == [("move", "low"), ("move", "its"), ("start", "new")]
    assert after(on_n1("q", HIGH)) == []
    assert after(on_n1("other", LOW)) == []


def test_a_lender_that_is_bound_by_the_tree_reclaims_although_nodes_are_free():
    org = (cohort("org"),)
    queues = [queue("lender", 4, "org"), queue("borrower", 0, "org")]
    work = [gang("low", "borrower", LOW, gpus=4, on="n"), gang("mine", "lender", NORMAL, gpus=1)]
    after = run_cycle_of(queues, work, {"n": 64}, cohorts=org)
    assert step_pairs(after) == [("reclaim", "low"), ("start", "mine")]


def test_elastic_pods_start_one_by_one_and_are_given_up_first():
    elastic = gang("e", "q", LOW, count=4, tree=GangTree(2))
    after = run_cycle_of([queue("q", 9)], [elastic], {"n": 3})
    assert [len(step.tasks) for step in after.steps] == [2, 1]
    full = gang("e", "q", LOW, count=4, on="n", tree=GangTree(2))
    after = run_cycle_of([queue("q", 9)], [full, gang("new", "q", NORMAL, gpus=1)], {"n": 4})
    assert [(step.action, step.gang, step.tasks) for step in after.steps] == [
        ("preempt", "e", ("e-3",)),
        ("start", "new", ("new-0",)),
    ]
    assert running_gangs(after) == {"e", "new"}


def test_the_next_pod_of_an_elastic_gang_competes_by_its_priority():
    """An evicted surplus pod is pending again at once: it comes before work of a lower priority, and after work of the
    same priority."""
    elastic = gang("e", "q", 60, count=4, tree=GangTree(2))
    for priority, started in ((50, ["e", "e", "e"]), (60, ["e", "o"])):
        after = run_cycle_of([queue("q", 0)], [elastic, gang("o", "q", priority, count=2, at=9)], {"n": 4})
        assert [name for _action, name in step_pairs(after)] == started


def test_a_group_that_needs_no_pod_grows_last():
    """`b` holds three times what it needs and is served before `a`, which needs nothing and has nothing."""
    tree = GangTree(None, None, [SubGroup("a", None, 0), SubGroup("b", None, 1)])
    on = [None, "n", "n", "n", None]
    mine = gang("g", "q", LOW, count=5, on=on, tree=tree, groups=["a", "b", "b", "b", "b"])
    assert [step.tasks for step in run_cycle_of([queue("q", 0)], [mine], {"n": 4}).steps] == [("g-4",)]


def test_of_groups_that_need_no_pod_the_one_with_fewer_grows_first():
    tree = GangTree(None, None, [SubGroup("a", None, 0), SubGroup("b", None, 0)])
    mine = gang("g", "q", LOW, count=4, on=["n", None, None, None], tree=tree, groups=["a", "a", "b", "b"])
    after = run_cycle_of([queue("q", 0)], [mine], {"n": 4})
    assert [step.tasks for step in after.steps] == [("g-2",), ("g-1",), ("g-3",)]


def test_a_gang_below_its_minimum_has_no_surplus_to_give_first():
    """Of `a` two pods run and one is needed; but `b` cannot start, so none of its pods is useful."""
    tree = GangTree(None, None, [SubGroup("a", None, 1), SubGroup("b", None, 1)])
    states = ("running", "running", "pending")
    tasks = tuple(
        TaskFacts(f"g-{i}", {GPU: 1 if state == "running" else 9}, group, state, "n" if state == "running" else None)
        for i, (state, group) in enumerate(zip(states, "aab", strict=True))
    )
    half = GangFacts("half", "q", tasks, LOW, True, 0, tree)
    after = run_cycle(facts([queue("q", 1)], [half, gang("new", "q", NORMAL)], {"n": 2}))
    assert [(step.action, step.tasks) for step in after.steps] == [("preempt", ("g-0", "g-1")), ("start", ("new-0",))]


def test_groups_that_block_each_other_are_placed_together():
    """The pod of `a` would use the fullest node, n1, the only node that the pod of `b` may use."""
    tree = GangTree(None, None, [SubGroup("a", None, 1), SubGroup("b", None, 1)])
    tasks = (TaskFacts("a-0", {GPU: 1}, "a"), TaskFacts("b-0", {GPU: 1}, "b", allowed_nodes=frozenset({"n1"})))
    after = run_cycle(facts([queue("q", 0)], [GangFacts("g", "q", tasks, LOW, True, 0, tree)], {"n1": 1, "n2": 2}))
    assert [(step.tasks, step.nodes) for step in after.steps] == [(("a-0", "b-0"), ("n2", "n1"))]


def test_an_elastic_pod_preempts_work_of_a_lower_priority_in_its_queue():
    elastic = gang("e", "q", NORMAL, count=4, on=["n", "n", None, None], tree=GangTree(2))
    lower = [gang(f"l{i}", "q", LOW, on="n", at=i) for i in range(2)]
    after = run_cycle_of([queue("q", 3)], [elastic, *lower], {"n": 4})
    assert step_pairs(after) == [("preempt", "l1"), ("start", "e")], "the quota allows one pod more"
    equals = [gang("e2", "q", NORMAL, on="n", at=9)]
    assert step_pairs(run_cycle_of([queue("q", 9)], [elastic, *equals], {"n": 3})) == []


def replicas(*sizes, need=2, on=None):
    """A gang of replicas, one pod each, of these sizes."""
    tree = GangTree(None, need, [SubGroup(f"r{i}", None, 1) for i in range(len(sizes))])
    tasks = tuple(
        TaskFacts(f"r{i}-0", {GPU: size}, f"r{i}", "running" if on else "pending", on) for i, size in enumerate(sizes)
    )
    return GangFacts("replicas", "q", tasks, LOW, True, 0, tree)


def test_an_optional_replica_that_cannot_be_placed_never_makes_the_gang_fail():
    after = run_cycle(facts([queue("q", 0)], [replicas(9, 2, 2)], {"n": 4}))
    assert after.world.gang_of["replicas"].is_running
    assert [step.tasks for step in after.steps] == [("r1-0", "r2-0")]


def test_all_or_nothing_below_the_minimum():
    after = run_cycle(facts([queue("q", 0)], [replicas(9, 9, 2)], {"n": 4}))
    assert after.steps == ()


def test_an_optional_replica_is_given_up_whole_before_the_core():
    after = run_cycle_of([queue("q", 9)], [replicas(2, 2, 2, on="n"), gang("new", "q", NORMAL, gpus=2)], {"n": 6})
    assert [(step.action, step.tasks) for step in after.steps] == [("preempt", ("r2-0",)), ("start", ("new-0",))]


def test_two_queues_do_not_evict_each_others_work_forever():
    """Larger LOW work of a higher priority does not preempt its leaf beyond the leaf's share, only to be reclaimed."""
    queues = [queue("a", 6, created=1), queue("b", 5, created=2)]
    work = [
        gang("a-base", "a", HIGH, gpus=4, on="n", at=1),
        gang("a-small", "a", 50, gpus=3, on="n", at=2),
        gang("a-large", "a", 60, gpus=4, at=3),
        gang("b-base", "b", NORMAL, gpus=4, on="n", at=4),
    ]
    after = run_cycle_of(queues, work, {"n": 12}, demand={"b": {GPU: 9}})
    assert after.has_converged
    assert step_pairs(after) == []
    free = run_cycle_of(queues, work, {"n": 12})
    assert step_pairs(free) == [("preempt", "a-small"), ("start", "a-large")]


def elastic_work(*sizes, minimum=1):
    """A LOW gang on node `n` that runs whole: one optional group for each size, all its pods together."""
    groups = [f"g{i}" for i, size in enumerate(sizes) for _ in range(size)]
    tree = GangTree(None, minimum, [SubGroup(f"g{i}", None, size) for i, size in enumerate(sizes)])
    return gang("elastic", "q", LOW, count=len(groups), groups=groups, on="n", tree=tree)


def test_a_surplus_pod_does_not_stop_for_room_that_a_later_victim_makes_anyway():
    """The group of one pod is given up first, then the pair, which alone is enough. The single pod would start again
    in the room that is left."""
    cycle = run_cycle_of([queue("q", 9)], [elastic_work(1, 2, 1), gang("new", "q", HIGH, gpus=2)], {"n": 4})
    assert [(step.action.value, step.gang, step.tasks) for step in cycle.steps] == [
        ("preempt", "elastic", ("elastic-1", "elastic-2")),
        ("start", "new", ("new-0",)),
    ]


def test_an_elastic_gang_keeps_the_optional_group_that_still_fits():
    """Of two groups one is needed. All pods would stop for the new gang, and the smaller group would start again."""
    cycle = run_cycle_of([queue("q", 9)], [elastic_work(3, 1), gang("new", "q", HIGH, gpus=3)], {"n": 4})
    assert [(step.action.value, step.gang, step.tasks) for step in cycle.steps] == [
        ("preempt", "elastic", ("elastic-0", "elastic-1", "elastic-2")),
        ("start", "new", ("new-0",)),
    ]


def test_no_pod_is_stopped_and_started_again_in_one_cycle():
    """Elastic gangs with groups of all sizes, and one gang that takes GPUs of them."""
    for seed in range(60):
        pick = random.Random(seed)
        sizes = [pick.randint(1, 3) for _ in range(pick.randint(2, 4))]
        work = elastic_work(*sizes, minimum=pick.randint(0, len(sizes) - 1))
        new = gang("new", "q", HIGH, gpus=pick.randint(1, sum(sizes)))
        cycle = run_cycle_of([queue("q", 20)], [work, new], {"n": sum(sizes)})
        assert [step.tasks for step in cycle.steps if step.action == "start"] == [("new-0",)]
        assert any(step.action == "preempt" for step in cycle.steps)
