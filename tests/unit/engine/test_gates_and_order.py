"""Hard gates (design, K2), the order of queues and gangs (design, K3), and the placement of tasks."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import (
    HIGH,
    LOW,
    NORMAL,
    ClusterFacts,
    GangFacts,
    NodeFacts,
    QueueFacts,
    StartHold,
    TaskFacts,
    TaskState,
)
from scheduling.domain.engine.outcome import waiting_reasons
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


@pytest.mark.parametrize(
    ("queues", "work", "starts"),
    [
        ([queue("q", 0, limit=2)], gang("g", "q", LOW, gpus=2), True),
        ([queue("q", 0, limit=1)], gang("g", "q", LOW, gpus=2), False),
        ([queue("top", 9, limit=1), queue("q", 9, "top")], gang("g", "q", LOW, gpus=2), False),
        ([queue("q", 2)], gang("g", "q", NORMAL, gpus=2), True),
        ([queue("q", 1)], gang("g", "q", NORMAL, gpus=2), False),
        ([queue("top", 1), queue("q", 9, "top")], gang("g", "q", NORMAL, gpus=2), False),
        ([queue("top", 0), queue("q", 9, "top")], gang("g", "q", NORMAL, gpus=1), False),
        ([queue("top", None), queue("q", 2, "top")], gang("g", "q", NORMAL, gpus=2), True),
        ([QueueFacts("q", quota={GPU: float("inf")})], gang("g", "q", NORMAL, gpus=2), True),
        ([queue("q", 9), queue("child", 9, "q")], gang("g", "q", NORMAL), False),
        ([queue("q", 9, hold=StartHold("offline", "Offline."))], gang("g", "q", NORMAL), False),
        ([queue("top", 9, hold=StartHold("offline", "Away.")), queue("q", 9, "top")], gang("g", "q", NORMAL), False),
        ([queue("q", 9)], gang("g", "elsewhere", NORMAL), False),
        ([queue("q", 0)], gang("g", "q", NORMAL, gpus=0), True),
    ],
    ids=[
        "limit reached", "over limit", "over the limit above", "quota reached", "over quota", "over the quota above",
        "container of 0 blocks all of it", "quota above defaults to the sum", "unlimited quota",
        "a queue with children runs nothing", "held", "held above", "no such queue", "no request always passes",
    ],
)  # fmt: skip
def test_gate(queues, work, starts):
    assert running_gangs(run_cycle_of(queues, [work], {"n": 8})) == ({"g"} if starts else set())


def test_low_work_of_others_does_not_count_against_the_quota_but_against_the_limit():
    queues = [queue("q", 4, limit=4)]
    assert running_gangs(
        run_cycle_of(queues, [gang("l", "q", LOW, gpus=2, on="n"), gang("g", "q", NORMAL, gpus=2)], {"n": 8})
    ) == {"l", "g"}
    after = run_cycle_of(queues, [gang("g", "q", LOW, gpus=2)], {"n": 8}, usage={"q": {GPU: 3}})
    assert waiting_reasons(after.world)["g"].code == "over_limit"


def test_only_requested_resources_count():
    """The queue holds more cpu than its limit and its quota; work that requests only GPUs may start."""
    q = QueueFacts("q", quota={GPU: 2, CPU: 0}, limit={CPU: 1})
    work = GangFacts("g", "q", (TaskFacts("g-0", {GPU: 2, CPU: 0}),), NORMAL)
    held = {"q": {CPU: 9}}
    assert running_gangs(
        run_cycle(ClusterFacts((q,), gangs=(work,), nodes=(NodeFacts("n", {GPU: 2, CPU: 9}),), usage=held))
    ) == {"g"}


@pytest.mark.parametrize(
    ("leaf", "priority"), [(queue("q", 3), NORMAL), (queue("q", 0, limit=3), LOW)], ids=["quota", "limit"]
)
def test_the_gate_checks_the_pods_of_one_attempt(leaf, priority):
    """The minimum is 2 of 4 pods; a quota or a limit of 3 lets them start, then one more, and not the last one."""
    elastic = gang("g", "q", priority, count=4, tree=GangTree(2))
    assert [len(step.tasks) for step in run_cycle_of([leaf], [elastic], {"n": 8}).steps] == [2, 1]


def test_releasing_work_counts_against_quota_and_limit():
    def leaving(priority, preemptible):
        return GangFacts(
            "old", "q", (TaskFacts("old-0", {GPU: 2}, state="releasing", node="n"),), priority, preemptible
        )

    new = gang("new", "q", NORMAL, gpus=2)
    over_quota = run_cycle(facts([queue("q", 3)], [leaving(NORMAL, False), new], {"n": 8}))
    assert waiting_reasons(over_quota.world)["new"].code == "over_quota"
    over_limit = run_cycle(facts([queue("q", 3, limit=3)], [leaving(LOW, True), new], {"n": 8}))
    assert waiting_reasons(over_limit.world)["new"].code == "over_limit"


def test_amounts_are_exact():
    third = Fraction(1, 3)
    work = [gang(f"g{i}", "q", NORMAL, gpus=third, at=i) for i in range(4)]
    assert running_gangs(run_cycle_of([queue("q", 1)], work, {"n": 8})) == {"g0", "g1", "g2"}


def test_under_a_cohort_every_leaf_is_bounded_by_the_tree():
    tree = {"cohorts": (cohort("org", 2),)}
    low = gang("low", "a", LOW, gpus=6)
    assert running_gangs(run_cycle_of([queue("a", 4, "org")], [low], {"n": 8}, **tree)) == {"low"}
    assert running_gangs(run_cycle_of([queue("a", 3, "org")], [low], {"n": 8}, **tree)) == set()
    assert running_gangs(run_cycle_of([queue("a", 3)], [low], {"n": 8})) == {"low"}
    bounded = [queue("a", 4, "org", borrowing_limit=1)]
    after = run_cycle_of(bounded, [low], {"n": 8}, **tree)
    reason = waiting_reasons(after.world)["low"]
    assert (reason.code, reason.queue, reason.limit) == ("never_fits", "a", "borrowing_limit")


def test_a_blocked_head_does_not_hold_back_the_rest():
    after = run_cycle_of([queue("q", 0)], [gang("big", "q", 60, gpus=9), gang("small", "q", 50, gpus=1)], {"n": 8})
    assert running_gangs(after) == {"small"}


def test_inside_a_leaf_priority_then_age_then_name():
    work = [
        gang("z", "q", LOW, at=1),
        gang("b", "q", LOW, at=2),
        gang("a", "q", LOW, at=2),
        gang("h", "q", HIGH, at=9),
    ]
    assert [name for _action, name in step_pairs(run_cycle_of([queue("q", 8)], work, {"n": 8}))] == ["h", "z", "a", "b"]


def test_the_fullest_node_that_fits_is_used():
    after = run_cycle_of([queue("q", 0)], [gang("g", "q", gpus=2, count=2)], {"n1": 8, "n2": 3, "n3": 2})
    assert [after.world.nodes.names[node] for node in after.world.gang_of["g"].node] == ["n3", "n2"]


def test_of_equally_full_nodes_the_first_by_name_is_used():
    after = run_cycle_of([queue("q", 0)], [gang("g", "q")], {"b": 2, "a": 2, "c": 2})
    assert [step.nodes for step in after.steps] == [("a",)]


def test_unlike_tasks_are_packed_even_when_listed_in_an_unlucky_order():
    sizes = [2, 3, 2, 3, 2]
    tasks = tuple(TaskFacts(f"t{i}", {GPU: size}) for i, size in enumerate(sizes))
    after = run_cycle(facts([queue("q", 0)], [GangFacts("g", "q", tasks, LOW, True)], {"n1": 6, "n2": 6}))
    assert running_gangs(after) == {"g"}


def test_unlike_tasks_are_packed_even_where_largest_first_would_fail():
    """The largest task would be placed on the smaller node and leave 1 there that no task can use."""
    tasks = tuple(TaskFacts(f"t{i}", {GPU: size}) for i, size in enumerate([2, 2, 3, 4]))
    after = run_cycle(facts([queue("q", 0)], [GangFacts("g", "q", tasks, LOW, True)], {"n1": 5, "n2": 6}))
    assert running_gangs(after) == {"g"}


def test_ended_tasks_are_not_needed_for_a_start_of_the_whole_gang():
    """One of three pods has completed: the gang starts again with the other two."""
    states = (TaskState.FINISHED, TaskState.PENDING, TaskState.PENDING)
    tasks = tuple(TaskFacts(f"g-{i}", {GPU: 1}, state=state) for i, state in enumerate(states))
    after = run_cycle(facts([queue("q", 2)], [GangFacts("g", "q", tasks, NORMAL)], {"n": 2}))
    assert [step.tasks for step in after.steps] == [("g-1", "g-2")]


def test_a_held_gang_neither_starts_nor_evicts():
    """The other gangs of its queue are not affected."""
    hold = StartHold("gpu_quota", "Its namespace is full.", "Workers of it end", node="team-a", limit="total")
    held = replace(gang("held", "q", NORMAL, gpus=2), hold=hold)
    low = gang("low", "q", LOW, gpus=2, on="n")
    for gpus in (2, 4):
        after = run_cycle_of([queue("q", 4)], [low, held], {"n": gpus})
        assert after.steps == ()
        reason = waiting_reasons(after.world)["held"]
        assert (reason.code, reason.queue, reason.unblock) == ("gpu_quota", "team-a", ("Workers of it end.",))
    for_ever = replace(held, hold=replace(hold, unblock=""))
    assert waiting_reasons(run_cycle_of([queue("q", 4)], [for_ever], {"n": 4}).world)["held"].unblock == ()
    assert step_pairs(run_cycle_of([queue("q", 4)], [low, held, gang("free", "q", NORMAL, gpus=2)], {"n": 4})) == [
        ("start", "free")
    ]


def test_every_resource_must_fit_on_the_node():
    nodes = (NodeFacts("gpus", {GPU: 8, CPU: 1}), NodeFacts("cpus", {CPU: 64}))
    work = GangFacts("g", "q", (TaskFacts("g-0", {GPU: 1, CPU: 4}),), LOW, True)
    cpu = GangFacts("c", "q", (TaskFacts("c-0", {CPU: 4}),), LOW, True)
    after = run_cycle(ClusterFacts((QueueFacts("q"),), gangs=(work, cpu), nodes=nodes))
    assert running_gangs(after) == {"c"}
    assert waiting_reasons(after.world)["g"].code == "never_fits"


def test_flavors_are_separate():
    nodes = (NodeFacts("spot", {"spot/gpu": 8}),)
    after = run_cycle(ClusterFacts((QueueFacts("q"),), gangs=(gang("g", "q", LOW),), nodes=nodes))
    assert running_gangs(after) == set()


def test_without_nodes_only_quota_decides():
    after = run_cycle_of([queue("q", 2)], [gang("low", "q", LOW, gpus=99), gang("n", "q", NORMAL, gpus=3)], None)
    assert running_gangs(after) == {"low"}


def test_no_nodes_at_all_start_nothing():
    assert running_gangs(run_cycle_of([queue("q", 2)], [gang("low", "q", LOW)], {})) == set()


def test_releasing_work_uses_its_node_to_the_end():
    leaving = GangFacts("old", "q", (TaskFacts("old-0", {GPU: 8}, state="releasing", node="n"),), LOW, True)
    after = run_cycle(facts([queue("q", 8)], [leaving, gang("g", "q", NORMAL, gpus=8)], {"n": 8}))
    assert after.steps == ()
    assert waiting_reasons(after.world).keys() == {"g"}


def test_the_reason_of_a_gang_with_too_few_tasks():
    after = run_cycle_of([queue("q", 8)], [gang("g", "q", NORMAL, count=2, tree=GangTree(3))], {"n": 8})
    assert waiting_reasons(after.world)["g"].code == "not_ready"


def test_a_task_runs_only_on_its_allowed_nodes():
    """Platforms and excluded nodes: starts, moves and reasons respect the allowed nodes."""
    here = frozenset({"n2"})

    def bound(name, at, *, on=None, gpus=2):
        state = "running" if on else "pending"
        return GangFacts(
            name, "q", (TaskFacts(f"{name}-0", {GPU: gpus}, state=state, node=on, allowed_nodes=here),), LOW, True, at
        )

    after = run_cycle(facts([queue("q", 0)], [bound("g", 1)], {"n1": 2, "n2": 8}))
    assert after.world.nodes.names[after.world.gang_of["g"].node[0]] == "n2"
    full = run_cycle(facts([queue("q", 0)], [bound("g", 1), bound("h", 2)], {"n1": 8, "n2": 3}))
    assert running_gangs(full) == {"g"}
    reason = waiting_reasons(full.world)["h"]
    assert (reason.code, dict(reason.missing), reason.blockers[0].node_shortages[0].node) == (
        "fragmented",
        {GPU: 1},
        "n2",
    )
    never = run_cycle(facts([queue("q", 0)], [bound("g", 1, gpus=4)], {"n1": 8, "n2": 3}))
    assert waiting_reasons(never.world)["g"].code == "never_fits"
    moved = run_cycle(
        facts([queue("q", 0)], [gang("free", "q", LOW, gpus=2, on="n2"), bound("g", 9)], {"n1": 2, "n2": 3})
    )
    assert step_pairs(moved) == [("move", "free"), ("start", "g")]
    stuck = run_cycle(facts([queue("q", 0)], [bound("b", 0, on="n2"), bound("g", 9)], {"n1": 2, "n2": 3}))
    assert step_pairs(stuck) == []
