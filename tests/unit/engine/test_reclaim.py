"""The conditions for a reclaim (design, K4): the gate, each victim, the final check; and the cases where our rules are
stricter than KAI. The numbers of each case are small enough to count."""

from __future__ import annotations

import pytest

from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import LOW, NORMAL, ClusterFacts, GangFacts, NodeFacts, QueueFacts, TaskFacts
from scheduling.domain.gang import GangTree
from tests.unit.engine.sample_clusters import (
    CPU,
    GPU,
    cohort,
    facts,
    gang,
    queue,
    run_cycle_of,
    running_gangs,
    step_pairs,
)


def low(name, where, gpus=1, *, at=0, count=1, tree=None):
    """Running LOW work."""
    return gang(name, where, LOW, gpus=gpus, count=count, on="n", at=at, tree=tree)


def taken(queues, work, gpus, **more):
    """The victims in order; the new gang needs victims because the node is full."""
    after = run_cycle_of(queues, work, {"n": gpus}, **more)
    assert after.has_converged
    return [step.gang for step in after.steps if step.action == "reclaim"]


# -- the gate --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asks", "expected"),
    [(gang("w", "a", LOW, gpus=4, at=9), ["b7", "b6", "b5", "b4"]), (gang("w", "a", LOW, gpus=5, at=9), [])],
    ids=["up to the fair share", "not beyond it"],
)
def test_the_leaf_stays_inside_its_fair_share(asks, expected):
    held = [low(f"b{i}", "b", at=i) for i in range(8)]
    assert taken([queue("a", 0), queue("b", 0)], [*held, asks], 8) == expected


def test_the_gate_is_checked_again_for_every_gang():
    """Each of two gangs alone leaves `a` inside its fair share of 3, both together do not. `b` has no share at all."""
    held = [low(f"b{i}", "b", at=i) for i in range(6)]
    waits = [gang(f"w{i}", "a", LOW, gpus=2, at=10 + i) for i in range(2)]
    queues = [queue("a", 0), queue("b", 0, weight=0)]
    assert taken(queues, [*held, *waits], 6, capacity={GPU: 3}) == ["b5", "b4"]


def test_the_gate_checks_every_resource():
    """`a` holds more cpu than its share, so it reclaims no GPU either."""
    queues = (QueueFacts("a", quota={GPU: 2, CPU: 4}), QueueFacts("b", quota={GPU: 0, CPU: 4}))
    theirs = GangFacts("low", "b", (TaskFacts("t", {GPU: 2}, state="running", node="n"),), LOW, True)
    asks = GangFacts("w", "a", (TaskFacts("t", {GPU: 2, CPU: 0}),), NORMAL)

    def after(cpu):
        held = {"a": {CPU: cpu}}
        nodes = (NodeFacts("n", {GPU: 2, CPU: 8}),)
        return step_pairs(
            run_cycle(ClusterFacts(queues, gangs=(theirs, asks), nodes=nodes, usage=held, demand={"b": {CPU: 9}}))
        )

    assert after(4) == [("reclaim", "low"), ("start", "w")]
    assert after(5) == []


def test_non_preemptible_work_must_fit_the_quota_and_low_work_need_not():
    """The fair share of `a` is 4, its quota 2."""
    held = [low(f"b{i}", "b", at=i) for i in range(8)]
    queues = [queue("a", 2), queue("b", 0, priority=99)]
    assert taken(queues, [*held, gang("w", "a", NORMAL, gpus=4)], 8) == []
    assert taken(queues, [*held, gang("w", "a", LOW, gpus=4)], 8) == ["b7", "b6", "b5", "b4"]


# -- each victim -----------------------------------------------------------------------------------------------------


def test_a_quota_is_reclaimed_from_a_leaf_above_its_own():
    """`b` is inside its fair share, since no other leaf requests the surplus, but above its quota; `a` is inside its
    own."""
    held = [low(f"b{i}", "b", at=i) for i in range(4)]
    assert taken([queue("a", 2), queue("b", 2)], [*held, gang("w", "a", NORMAL, gpus=2)], 4) == ["b3", "b2"]


def test_a_branch_is_judged_before_the_eviction():
    """`b` holds 5 of a quota of 4, in one piece: it is above, so all of it may go to `a`'s quota."""
    assert taken([queue("a", 4), queue("b", 4)], [low("b0", "b", 5), gang("w", "a", NORMAL, gpus=4)], 8) == ["b0"]


def test_units_are_judged_one_by_one():
    """`b` is 1 above its quota: after the first victim it is within the quota, so the second victim keeps running."""
    held = [low("b0", "b", 2, at=1), low("b1", "b", 1, at=2), low("b2", "b", 1, at=3)]
    queues = [queue("a", 2), queue("b", 3)]
    assert taken(queues, [*held, gang("w", "a", NORMAL, gpus=2)], 4) == []
    assert taken(queues, [*held, gang("w", "a", NORMAL, gpus=1)], 4) == ["b2"]


def test_elastic_pods_inside_their_quota_reclaim_what_their_queue_has_lent():
    """The lender's gang kept its minimum and lost its other pods; they come back one by one, in one pass."""
    elastic = gang("e", "lender", NORMAL, count=4, on=["n", None, None, None], tree=GangTree(1))
    borrowed = [low(f"b{i}", "borrower", at=i) for i in range(3)]
    after = run_cycle_of([queue("lender", 3), queue("borrower", 1)], [elastic, *borrowed], {"n": 4})
    assert step_pairs(after) == [("reclaim", "b2"), ("start", "e"), ("reclaim", "b1"), ("start", "e")]
    assert {step.pass_number for step in after.steps} == {1}


def test_elastic_pods_beyond_their_fair_share_reclaim_nothing():
    elastic = gang("e", "a", LOW, count=3, on=["n", "n", None], tree=GangTree(1))
    after = run_cycle_of([queue("a", 1), queue("b", 1)], [elastic, low("b0", "b", count=2)], {"n": 4})
    assert step_pairs(after) == []


def test_surplus_pods_go_alone_and_the_core_as_one():
    """Five pods, two of them the core. The quota of `b` is 2, so its core is safe from a request for a share of the
    surplus."""
    elastic = low("b0", "b", count=5, tree=GangTree(2))
    after = run_cycle_of([queue("a", 3), queue("b", 2)], [elastic, gang("w", "a", NORMAL, gpus=3)], {"n": 5})
    assert [(step.action, step.tasks) for step in after.steps] == [
        ("reclaim", ("b0-2", "b0-3", "b0-4")),
        ("start", ("w-0",)),
    ]
    assert running_gangs(after) == {"b0", "w"}
    whole = run_cycle_of([queue("a", 4), queue("b", 1)], [elastic, gang("w", "a", NORMAL, gpus=4)], {"n": 5})
    assert [(step.action, step.tasks) for step in whole.steps[:1]] == [
        ("reclaim", ("b0-0", "b0-1", "b0-2", "b0-3", "b0-4"))
    ]


def test_priority_alone_reclaims_nothing():
    """Queue priority orders the surplus; work inside a quota keeps running."""
    held = [low(f"b{i}", "b", at=i) for i in range(4)]
    assert taken([queue("a", 0, priority=500), queue("b", 4)], [*held, gang("w", "a", LOW, at=9)], 4) == []


def test_only_evictable_listed_work_is_reclaimed():
    fixed = gang("fixed", "b", NORMAL, gpus=1, on="n")
    leaving = GangFacts("leaving", "b", (TaskFacts("t", {GPU: 1}, state="releasing", node="n"),), LOW, True)
    work = [fixed, leaving, low("b0", "b", 1), gang("w", "a", NORMAL, gpus=2)]
    queues = [queue("a", 2), queue("b", 1)]
    assert taken(queues, work, 3) == []
    assert taken(queues, [*work, low("b1", "b", 1, at=5)], 4) == ["b1", "b0"]


# -- the branch point ------------------------------------------------------------------------------------------------


def test_usage_inside_the_quota_of_the_branch_is_safe_from_other_branches():
    """Pool `y` uses its quota of 4, all of it in a leaf without quota: other pools do not reclaim it, the sibling
    does."""
    queues = [queue("x", 4), queue("y", 4), queue("y1", 0, "y"), queue("y2", 4, "y")]
    held = [low(f"l{i}", "y1", at=i) for i in range(4)]
    full = gang("full", "x", NORMAL, gpus=3, on="n")
    assert taken(queues, [*held, full, gang("w", "x", NORMAL, gpus=1)], 7) == []
    assert taken(queues, [*held, full, gang("w", "y2", NORMAL, gpus=2)], 7) == ["l3", "l2"]


def test_a_leaf_inside_its_quota_is_safe_though_the_pool_above_it_is_over_its_own():
    """KAI judges `outer` alone, which may claim nothing; here a leaf within its quota never loses work to a pool."""
    queues = [queue("outer", 0), queue("inside", 3, "outer"), queue("over", 0, "outer"), queue("other", 4)]
    held = [low("safe", "inside", 3, at=9), low("loose", "over", 1, at=1)]
    assert taken(queues, [*held, gang("w", "other", NORMAL, gpus=1)], 4) == ["loose"]
    assert taken(queues, [*held, gang("w", "other", NORMAL, gpus=2)], 4) == []


def test_the_nearest_borrower_inside_a_pool_first():
    """A sibling before the rest of the pool, that before other pools; by age the order would be the reverse."""
    queues = [
        queue("pool", None, created=1), queue("half", None, "pool", created=1), queue("mine", 3, "half", created=1),
        queue("sibling", 0, "half", created=1), queue("cousin", 0, "pool", created=2), queue("other", 0, created=3),
    ]  # fmt: skip
    held = [low(f"{where}-low", where, at=i) for i, where in enumerate(["sibling", "cousin", "other"])]
    for gpus in (1, 2, 3):
        after = run_cycle_of(queues, [*held, gang("w", "mine", NORMAL, gpus=gpus)], {"n": 3})
        lost = [step.gang for step in after.steps if step.action == "reclaim" and step.beneficiary == "w"]
        assert lost == ["sibling-low", "cousin-low", "other-low"][:gpus]


def test_a_leaf_reduced_to_its_quota_is_safe_afterwards():
    """Pool `y` may claim nothing, its leaf `y1` one: of the three below it two can go, the youngest first."""
    queues = [queue("x", 3), queue("y", 0), queue("y1", 1, "y"), queue("y2", 0, "y")]
    held = [low("y2-low", "y2", at=1), low("y1-old", "y1", at=2), low("y1-young", "y1", at=3)]
    assert sorted(taken(queues, [*held, gang("w", "x", NORMAL, gpus=2)], 3)) == ["y1-young", "y2-low"]
    assert taken(queues, [*held, gang("w", "x", NORMAL, gpus=3)], 3) == []


def test_the_shared_queue_and_a_subpool_reclaim_from_each_other():
    queues = [queue("team", None), queue("team-a", 2, "team"), queue("team-shared", 2, "team")]
    for lender, borrower in (("team-a", "team-shared"), ("team-shared", "team-a")):
        held = [low(f"l{i}", borrower, at=i) for i in range(4)]
        assert taken(queues, [*held, gang("w", lender, NORMAL, gpus=2)], 4) == ["l3", "l2"]


def test_only_pools_on_the_same_nodes_reclaim_from_each_other():
    """Work on nodes that the new gang may not use does not help it."""
    held = gang("low", "b", LOW, gpus=2, on="n2")
    asks = GangFacts("w", "a", (TaskFacts("t", {GPU: 2}, allowed_nodes=frozenset({"n1"})),), NORMAL)
    full = gang("full", "a", NORMAL, gpus=2, on="n1")
    assert step_pairs(run_cycle(facts([queue("a", 4), queue("b", 0)], [held, full, asks], {"n1": 2, "n2": 2}))) == []


# -- the order of victims --------------------------------------------------------------------------------------------


LENDERS = {
    "1 over its fair share before not over it, whatever the priority": (
        [queue("x", 0, weight=0, priority=200), queue("y", 0)], (1, 1), 3, "x",
    ),
    "3 the lower priority": ([queue("x", 0, priority=200), queue("y", 0)], (3, 2), 6, "y"),
    "6 the larger share": ([queue("x", 0, weight=2), queue("y", 0)], (3, 2), 4, "y"),
    "7 the larger allocatable share": ([queue("x", 0, weight=2), queue("y", 0, created=9)], (4, 2), 4, "x"),
    "8 the younger queue": ([queue("x", 0, created=2), queue("y", 0, created=1)], (2, 2), 3, "x"),
    "then the last name": ([queue("x", 0), queue("y", 0)], (2, 2), 3, "y"),
}  # fmt: skip


@pytest.mark.parametrize(("lenders", "held", "capacity", "loser"), LENDERS.values(), ids=LENDERS)
def test_order_of_lenders(lenders, held, capacity, loser):
    """The reverse of design, K3, each criterion where all before it are equal. `a` reclaims one GPU of its quota."""
    work = [low(f"{one.name}{i}", one.name, at=i) for one, n in zip(lenders, held, strict=True) for i in range(n)]
    queues = [queue("a", 1), *lenders]
    lost = taken(queues, [*work, gang("w", "a", NORMAL, at=99)], sum(held), capacity={GPU: capacity})
    assert [name[0] for name in lost] == [loser]


def test_the_order_of_lenders_is_updated_after_every_unit():
    held = [low(f"{where}{i}", where, at=i) for where in "xy" for i in range(3)]
    work = [*held, gang("w", "a", NORMAL, gpus=3, at=99)]
    assert taken([queue("a", 3), queue("x", 0), queue("y", 0)], work, 6, capacity={GPU: 7}) == ["y2", "x2", "y1"]


# -- the check after a reclaim ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("above", [None, "top"], ids=["pools at the top", "below another queue"])
@pytest.mark.parametrize(
    ("pairs", "expected"),
    [(3, []), (4, []), (6, ["y5"])],
    ids=["y would be inside its share", "y would be as far above as x", "y would still be further above"],
)
def test_a_leaf_that_ends_above_its_fair_share_is_no_better_off_than_the_loser(above, pairs, expected):
    """`x1` is inside its fair share (2 of `x`'s 4), but `x` would end at 6 of 4. `y` has a share of 4 and loses 2. They
    are judged where they are siblings."""
    queues = [queue("x", 0, above), queue("x1", 0, "x"), queue("x2", 0, "x"), queue("y", 0, above)]
    queues += [queue("top", 0)] if above else []
    held = [low(f"y{i}", "y", 2, at=i) for i in range(pairs)]
    more = {"capacity": {GPU: 8}, "usage": {"x2": {GPU: 4}}}
    assert taken(queues, [*held, gang("w", "x1", LOW, gpus=2, at=9)], 2 * pairs, **more) == expected


def test_a_leaf_without_fair_share_is_not_compared():
    """`x` ends at 6 of its 4. That stops it where `y` has a share; where it has none, all of it may go."""
    asks = gang("w", "x1", LOW, gpus=2, at=9)
    more = {"capacity": {GPU: 4}, "usage": {"x2": {GPU: 4}}}
    for theirs, quota, expected in ((0, 0, ["y0"]), (1, 0, []), (0, 1, [])):
        queues = [queue("x", 0), queue("x1", 0, "x"), queue("x2", 0, "x"), queue("y", quota, weight=theirs)]
        assert taken(queues, [low("y0", "y", 2), asks], 2, **more) == expected


def test_any_usage_without_a_fair_share_is_infinitely_above_it():
    """`inside` has a quota and so a share of its own; without weight the queue above it has none to give."""
    held = [low(f"b{i}", "b", at=i) for i in range(3)]
    asks = gang("w", "inside", LOW, at=9)
    for weight, expected in ((0, []), (1, ["b2"])):
        queues = [queue("outer", 0, weight=weight), queue("inside", 2, "outer"), queue("b", 1, weight=0)]
        assert taken(queues, [*held, asks], 3) == expected


@pytest.mark.parametrize(
    ("cores", "lost", "expected"),
    [(0, 0, ["low"]), (0, 1, []), (1, 0, [])],
    ids=["GPUs alone", "cores are taken", "cores are requested"],
)
def test_the_final_check_covers_requested_and_evicted_resources(cores, lost, expected):
    """`x` is far above its share of cores, and must not be where these matter."""
    queues = (
        QueueFacts("x", None, {GPU: 2, CPU: 2}), QueueFacts("x1", "x", {GPU: 2, CPU: 2}), QueueFacts("x2", "x"),
        QueueFacts("y", None, {CPU: 2}),
    )  # fmt: skip
    theirs = GangFacts("low", "y", (TaskFacts("t", {GPU: 2, CPU: lost}, state="running", node="n"),), LOW, True)
    asks = GangFacts("w", "x1", (TaskFacts("t", {GPU: 2, CPU: cores}),), NORMAL, submitted=9)
    held = {"x2": {CPU: 6}, "y": {CPU: 1}}
    nodes = (NodeFacts("n", {GPU: 2, CPU: 20}),)
    after = run_cycle(ClusterFacts(queues, gangs=(theirs, asks), nodes=nodes, usage=held, capacity={GPU: 2, CPU: 4}))
    assert [step.gang for step in after.steps if step.action == "reclaim"] == expected


def test_a_victim_that_moves_is_not_a_loss():
    held = gang("low", "b", LOW, gpus=2, on="n1")
    after = run_cycle_of([queue("a", 4), queue("b", 0)], [held, gang("w", "a", NORMAL, gpus=4)], {"n1": 4, "n2": 2})
    assert step_pairs(after) == [("move", "low"), ("start", "w")]


def test_no_gang_is_evicted_where_moving_is_enough():
    """The youngest would be evicted and fits nowhere else; the older one moves instead."""
    held = [gang("small", "b", LOW, gpus=2, on="n2", at=1), gang("large", "b", LOW, gpus=4, on="n1", at=2)]
    nodes = {"n1": 4, "n2": 4, "n3": 2}
    after = run_cycle_of([queue("a", 4), queue("b", 0)], [*held, gang("w", "a", NORMAL, gpus=4)], nodes)
    assert step_pairs(after) == [("move", "small"), ("start", "w")]


def test_a_gang_that_moves_need_not_be_above_its_quota():
    """`b` is inside its quota, so it loses nothing; but its work may move."""
    held = gang("low", "b", LOW, gpus=2, on="n1")
    after = run_cycle_of([queue("a", 4), queue("b", 2)], [held, gang("w", "a", NORMAL, gpus=4)], {"n1": 4, "n2": 2})
    assert step_pairs(after) == [("move", "low"), ("start", "w")]


def test_no_work_moves_for_a_leaf_above_its_fair_share():
    """A reclaim may move work for non-preemptible work; LOW work of `a` already uses more than the share of `a`."""
    held = gang("low", "b", LOW, gpus=2, on="n1")
    work = [held, gang("w", "a", NORMAL, gpus=4)]
    assert (
        step_pairs(run_cycle_of([queue("a", 4), queue("b", 2)], work, {"n1": 4, "n2": 2}, usage={"a": {GPU: 1}})) == []
    )


# -- where our rules are stricter -------------------------------------------------------------------------------------


def test_a_share_of_the_surplus_pushes_no_leaf_below_its_quota():
    """`b` holds 4 in one piece with a quota of 2 and a fair share of 3: `a`, which has no quota, may not take it. With
    a quota it may; and it may take smaller pieces down to the quota."""
    whole = low("b0", "b", 4)
    asks = gang("w", "a", LOW, gpus=1, at=9)
    assert taken([queue("a", 0), queue("b", 2)], [whole, asks], 4) == []
    assert taken([queue("a", 1), queue("b", 2)], [whole, asks], 4) == ["b0"]
    pieces = [low("b0", "b", 2, at=1), low("b1", "b", 1, at=2), low("b2", "b", 1, at=3)]
    assert taken([queue("a", 0), queue("b", 2)], [*pieces, asks], 4) == ["b2"]


def test_a_gang_across_the_quota_is_skipped_for_one_that_is_not():
    """The youngest gang lies across the quota, the older one above it."""
    held = [low("small", "b", 1, at=1), low("large", "b", 3, at=2)]
    asks = gang("w", "a", LOW, gpus=1, at=9)
    assert taken([queue("a", 0), queue("b", 2)], [*held, asks], 4) == ["small"]


def test_fewer_victims_are_not_bought_with_one_across_the_quota():
    """`large` alone would suffice, but without it `b` falls below its quota of 3, which a request for a share of the
    surplus may not cause."""
    held = [low("large", "b", 3, at=1), low("small", "b", 1, at=2), low("tiny", "b", 1, at=3)]
    asks = gang("w", "a", LOW, gpus=2, at=9)
    assert taken([queue("a", 0), queue("b", 3, weight=0)], [*held, asks], 5) == ["tiny", "small"]


def test_fewer_victims_are_not_bought_with_a_leaf_inside_its_quota():
    """The elastic gang alone would suffice; its last pod is inside the quota of `y1`, so the three of `y2` are
    evicted."""
    queues = [queue("x", 3), queue("y", 0), queue("y1", 1, "y"), queue("y2", 0, "y", weight=0)]
    held = [low("elastic", "y1", count=3, tree=GangTree(1)), *(low(f"small{i}", "y2", at=i) for i in range(3))]
    assert taken(queues, [*held, gang("w", "x", NORMAL, gpus=3)], 6) == ["small2", "small1", "small0"]


def test_two_pools_do_not_evict_each_others_work_forever():
    """`a` reclaims its quota, the whole of `b`'s three with it, and fills what that left free; then `b` would take
    all of it for its share, and so on."""
    queues = [queue("a", 3, weight=0), queue("b", 1)]
    work = [
        gang("a-fixed", "a", NORMAL, gpus=2, on="n", at=1),
        gang("a-one", "a", LOW, gpus=1, at=2),
        gang("a-pair", "a", 60, gpus=2, at=3),
        low("b-three", "b", 3, at=4),
    ]
    after = run_cycle_of(queues, work, {"n": 5}, capacity={GPU: 6})
    assert after.has_converged
    assert step_pairs(after) == [("reclaim", "b-three"), ("start", "a-one"), ("start", "a-pair")]


def test_the_nearest_borrower_of_the_tree_first():
    """By age the order would be the reverse."""
    tree = (cohort("top"), cohort("org", 0, "top"))
    queues = [
        queue("mine", 2, "org"), queue("near", 0, "org", created=1), queue("far", 0, "top", created=2),
        queue("outside", 0, created=3),
    ]  # fmt: skip
    held = [low("near-low", "near", at=1), low("far-low", "far", at=2), low("outside-low", "outside", at=3)]
    assert taken(queues, [*held, gang("w", "mine", NORMAL)], 3, cohorts=tree) == ["near-low"]
    assert taken(queues, [*held, gang("w", "mine", NORMAL, gpus=2)], 3, cohorts=tree) == ["near-low", "far-low"]


def test_a_cohort_that_borrows_nothing_is_left_alone():
    """`there` uses its own quota, although the queue below it has none: other queues lent none of it."""
    tree = (cohort("top"), cohort("here", 2, "top"), cohort("there", 2, "top"))
    queues = [queue("mine", 2, "here"), queue("theirs", 0, "there")]
    held = [low("l0", "theirs", at=1), low("l1", "theirs", at=2)]
    assert taken(queues, [*held, gang("w", "mine", NORMAL, gpus=2)], 3, cohorts=tree) == []
    borrows = [*held, low("l2", "theirs", at=3)]
    assert taken(queues, [*borrows, gang("w", "mine", NORMAL, gpus=1)], 3, cohorts=tree) == ["l2"]
