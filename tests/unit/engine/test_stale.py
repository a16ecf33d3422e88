"""Gangs below their minimum stop (design, K5); the tree of the gang decides, not each leaf alone."""

from __future__ import annotations

from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import LOW, GangFacts, TaskFacts
from scheduling.domain.engine.outcome import facts_after
from scheduling.domain.gang import GangTree, SubGroup
from tests.unit.engine.sample_clusters import GPU, facts, gang, queue, run_cycle_of, running_gangs, step_pairs


def pods(*states, tree=None, groups=None):
    """A LOW gang of one-GPU pods in these states; running and releasing pods are on `n`."""
    tasks = tuple(
        TaskFacts(f"s-{i}", {GPU: 1}, groups[i] if groups else "default", state, None if state == "pending" else "n")
        for i, state in enumerate(states)
    )
    return GangFacts("s", "q", tasks, LOW, True, 0, tree)


def after(stale, gpus=4, *others):
    return run_cycle(facts([queue("q", 0)], [stale, *others], {"n": gpus}))


def test_a_gang_below_its_minimum_stops():
    stale = gang("s", "q", LOW, count=3, on=["n", None, None], gpus=2)
    other = gang("o", "q", LOW, gpus=1)
    found = run_cycle_of([queue("q", 0)], [stale, other], {"n": 4})
    assert step_pairs(found) == [("start", "o"), ("give_up", "s")]
    assert running_gangs(found) == {"o"}
    assert run_cycle(facts_after(found)).steps == ()


def test_missing_tasks_start_first_where_they_fit():
    assert step_pairs(after(pods("running", "pending"))) == [("start", "s")]


def test_it_may_start_again_as_a_whole_with_fewer_blockers():
    """Two of three run and the third does not fit there too, on the small node; together they fit on the large one."""
    stale = gang("s", "q", LOW, count=2, on=["small", None], gpus=2)
    found = run_cycle_of([queue("q", 0)], [stale], {"large": 2, "small": 3})
    assert step_pairs(found) == [("start", "s")]


def test_it_gives_up_after_every_gang_has_had_an_attempt():
    """Its GPUs are free only for the next pass, as in KAI; so `low`, which is served after it, stops first and starts
    again."""
    stale = gang("s", "q", LOW, count=2, on=["n", None])
    found = run_cycle_of([queue("q", 1)], [stale, gang("low", "q", LOW, on="n", at=9), gang("new", "q", 100)], {"n": 2})
    assert step_pairs(found) == [("preempt", "low"), ("start", "new"), ("give_up", "s"), ("start", "low")]


def test_exactly_its_minimum_is_enough():
    assert step_pairs(after(pods("running", "running", "pending", tree=GangTree(2)), 2)) == []


def test_releasing_tasks_still_count():
    assert step_pairs(after(pods("running", "releasing", tree=GangTree(2)))) == []
    assert step_pairs(after(pods("running", "finished", "pending", tree=GangTree(3)), 1)) == []
    assert step_pairs(after(pods("running", "pending", "pending", tree=GangTree(3)), 1)) == [("give_up", "s")]


def test_a_gang_with_a_completed_pod_is_not_stale():
    assert step_pairs(after(pods("running", "finished", tree=GangTree(2)))) == []
    assert step_pairs(after(pods("running", "running", "finished", tree=GangTree(3)))) == []


def test_an_optional_group_below_its_minimum_makes_nothing_stale():
    """Two replicas of two pods, one of them needed; of the other one pod is left. KAI would end the whole gang. One pod
    of each is stale: it lets go of both, and starts again as one whole replica.
    """
    tree = GangTree(None, 1, [SubGroup("a", None, 2), SubGroup("b", None, 2)])
    optional = pods("running", "running", "running", "pending", tree=tree, groups="aabb")
    assert step_pairs(after(optional, 3)) == []
    needed = pods("running", "pending", "running", "pending", tree=tree, groups="aabb")
    assert step_pairs(after(needed, 2)) == [("give_up", "s"), ("start", "s")]


def test_a_group_deep_in_the_tree_is_judged_by_the_groups_above_it():
    """Each of two stages needs one of its two workers; a stage without any makes the gang stale."""
    stages = [SubGroup(f"stage{i}", None, None, 1) for i in range(2)]
    workers = [SubGroup(f"w{i}{j}", f"stage{i}", 1) for i in range(2) for j in range(2)]
    groups = [worker.name for worker in workers]

    def found(*states):
        return step_pairs(after(pods(*states, tree=GangTree(None, None, [*stages, *workers]), groups=groups), 2))

    assert found("running", "pending", "pending", "running") == []
    assert found("running", "running", "pending", "pending") == [("give_up", "s"), ("start", "s")]


def test_non_preemptible_gangs_give_up_too():
    """Half a gang is useless, whatever its priority."""
    stale = GangFacts(
        "s",
        "q",
        (TaskFacts("s-0", {GPU: 1}, state="running", node="n"), TaskFacts("s-1", {GPU: 9})),
        100,
        False,
        0,
        None,
    )
    assert step_pairs(run_cycle(facts([queue("q", 20)], [stale], {"n": 4}))) == [("give_up", "s")]
