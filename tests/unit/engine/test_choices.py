"""Gangs whose minimum can be met in more than one way: their requests, and their reasons while they wait."""

from __future__ import annotations

from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import (
    LOW,
    NORMAL,
    ClusterFacts,
    GangFacts,
    NodeFacts,
    QueueFacts,
    TaskFacts,
    TaskState,
)
from scheduling.domain.engine.outcome import waiting_reasons
from scheduling.domain.gang import GangTree, SubGroup
from tests.unit.engine.sample_clusters import CPU, GPU, cohort, facts, gang, queue, step_pairs


def replicas(*sizes, need=1, priority=LOW):
    """A gang of one-pod replicas of these sizes, of which `need` are needed."""
    tree = GangTree(None, need, [SubGroup(f"r{i}", None, 1) for i in range(len(sizes))])
    tasks = tuple(TaskFacts(f"r{i}-0", {GPU: size}, f"r{i}") for i, size in enumerate(sizes))
    return GangFacts("g", "q", tasks, priority, priority < 100, 9, tree)


def unlike(*sizes, need=1, priority=LOW):
    """A gang without groups that needs some of its pods, which are of these sizes."""
    tasks = tuple(TaskFacts(f"g-{i}", {GPU: size}) for i, size in enumerate(sizes))
    return GangFacts("g", "q", tasks, priority, priority < 100, 9, GangTree(need))


def why(queues, gangs, nodes, **more):
    return waiting_reasons(run_cycle(facts(queues, gangs, nodes, **more)).world)["g"]


def test_a_replica_too_large_for_any_node_does_not_block_the_others():
    full = gang("full", "q", NORMAL, gpus=4, on="n")
    for mine in (replicas(9, 2), unlike(9, 2)):
        reason = why([queue("q", 4)], [full, mine], {"n": 4})
        assert (reason.code, dict(reason.missing)) == ("no_room", {GPU: 2})


def test_a_replica_above_the_quota_does_not_block_the_others():
    full = gang("full", "q", NORMAL, gpus=4, on="n")
    for mine in (replicas(9, 2, priority=NORMAL), unlike(9, 2, priority=NORMAL)):
        reason = why([queue("q", 4)], [full, mine], {"n": 20})
        assert (reason.code, dict(reason.requested), dict(reason.missing)) == ("over_quota", {GPU: 2}, {GPU: 2})


def test_replicas_that_fit_alone_but_not_together_are_chosen_together():
    full = gang("full", "q", NORMAL, gpus=5, on="n")
    reason = why([queue("q", 5)], [full, replicas(4, 3, 1, need=2, priority=NORMAL)], {"n": 20})
    assert (reason.code, dict(reason.requested)) == ("over_quota", {GPU: 5})
    reason = why([queue("q", 4)], [full, replicas(4, 3, 1, need=2, priority=NORMAL)], {"n": 20})
    assert dict(reason.requested) == {GPU: 4}


def test_the_reason_is_never_fits_if_every_choice_is_ruled_out():
    for mine in (replicas(9, 8), unlike(9, 8)):
        assert why([queue("q", 0)], [mine], {"n": 4}).is_permanent
        assert why([queue("q", 0, limit=4)], [mine], {"n": 20}).is_permanent
        assert why([queue("q", 4, "org")], [mine], {"n": 20}, cohorts=(cohort("org"),)).is_permanent


def test_a_small_replica_evicts_although_a_larger_one_comes_first():
    """Only the small replica fits into the quota, and LOW work uses its node."""
    low = gang("low", "q", LOW, gpus=4, on="n")
    for mine in (replicas(9, 2, priority=NORMAL), unlike(9, 2, priority=NORMAL)):
        assert step_pairs(run_cycle(facts([queue("q", 4)], [low, mine], {"n": 4}))) == [
            ("preempt", "low"),
            ("start", "g"),
        ]


def test_a_larger_gang_does_not_block_a_gang_with_choices():
    """The first gang requests more than its leaf can give; the second does not request less, but can start with
    less."""
    low = gang("low", "q", LOW, gpus=2, on="n")
    large = gang("large", "q", NORMAL, gpus=4, at=1)
    mine = unlike(4, 2, priority=NORMAL)
    fixed = gang("fixed", "q", NORMAL, gpus=2, on="n")
    after = run_cycle(facts([queue("q", 6)], [low, fixed, large, mine], {"n": 4}))
    assert step_pairs(after) == [("preempt", "low"), ("start", "g")]


def test_a_gang_without_a_minimum_waits_for_a_task_that_can_run():
    """Its minimum is 0, so it waits for any pod that can start."""
    full = gang("full", "q", NORMAL, gpus=4, on="n")
    zero = GangTree(None, 2, [SubGroup("r0", None, 0), SubGroup("r1", None, 0)])
    grouped = GangFacts("g", "q", (TaskFacts("a", {GPU: 9}, "r0"), TaskFacts("b", {GPU: 2}, "r1")), LOW, True, 9, zero)
    for mine in (grouped, unlike(9, 2, need=0)):
        reason = why([queue("q", 4)], [full, mine], {"n": 4})
        assert (reason.code, dict(reason.missing)) == ("no_room", {GPU: 2})


def test_a_gang_that_can_never_run_is_explained_by_its_least_request():
    """One of the replicas of 9 and of 8 GPUs is needed: a limit of 8 would suffice, so the message names 8."""
    for mine in (replicas(9, 8), unlike(9, 8)):
        reason = why([queue("q", 0, limit=4)], [mine], {"n": 20})
        assert (reason.is_permanent, dict(reason.requested), dict(reason.missing)) == (True, {GPU: 8}, {GPU: 4})
        assert reason.message == "It asks for 8 GPUs, more than the limit of q (4) could ever give."
        reason = why([queue("q", 0)], [mine], {"n": 4})
        assert (reason.is_permanent, dict(reason.requested)) == (True, {GPU: 8})
        sentence = "It asks for 8 GPUs; the nodes could not hold that even if they were empty."
        assert reason.message == f"{sentence} The largest node that it may use has 4 GPUs."
        assert step_pairs(run_cycle(facts([queue("q", 0, limit=8)], [mine], {"n": 20}))) == [("start", "g")]


def test_the_reason_names_the_resource_that_exceeds_the_limit():
    """Two GPUs are in use now; nine cores exceed the limit permanently."""
    two = QueueFacts("q", None, {GPU: 9}, limit={GPU: 4, CPU: 6})
    full = gang("full", "q", NORMAL, gpus=3, on="n")
    mine = GangFacts("g", "q", (TaskFacts("g-0", {GPU: 2, CPU: 9}),), LOW, True, 9)
    machines = (NodeFacts("n", {GPU: 20, CPU: 20}),)
    reason = waiting_reasons(run_cycle(ClusterFacts((two,), gangs=(full, mine), nodes=machines)).world)["g"]
    assert (reason.code, dict(reason.requested), dict(reason.missing)) == ("never_fits", {CPU: 9}, {CPU: 3})
    assert "(6)" in reason.message


def _pods(*requests, need=1, allowed=()):
    """A gang without groups that needs some of its pods; `allowed` are the nodes of each, None for all."""
    nodes = [*allowed, *[None] * len(requests)]
    tasks = tuple(TaskFacts(f"g-{i}", request, allowed_nodes=nodes[i]) for i, request in enumerate(requests))
    return GangFacts("g", "q", tasks, LOW, True, 9, GangTree(need))


def test_a_pod_that_is_neither_first_nor_least_starts_where_only_it_fits():
    """GPUs are in use, cores are free: of three pods the second requests only cores."""
    full = gang("full", "q", NORMAL, gpus=4, on="n")
    mine = _pods({GPU: 1}, {CPU: 3}, {GPU: 2})
    machines = (NodeFacts("n", {GPU: 4, CPU: 4}),)
    plenty = QueueFacts("q", None, {GPU: 9, CPU: 9})
    assert step_pairs(run_cycle(ClusterFacts((plenty,), gangs=(full, mine), nodes=machines))) == [("start", "g")]


def test_a_pod_allowed_on_other_nodes_is_not_blocked_by_earlier_pods():
    """Their requests are equal; only their allowed nodes differ."""
    full = gang("full", "q", NORMAL, gpus=4, on="n")
    mine = _pods({GPU: 1}, {GPU: 1}, {GPU: 1}, need=2, allowed=[frozenset("n"), frozenset("m"), frozenset("m")])
    after = run_cycle(facts([queue("q", 9)], [full, mine], {"n": 4, "m": 4}))
    assert [(step.tasks, step.nodes) for step in after.steps] == [(("g-1", "g-2"), ("m", "m"))]


def test_the_reason_is_not_never_fits_while_one_pod_could_run():
    """No node has GPUs, and the first pod requests one: the second would suffice, and waits for cores."""
    full = GangFacts("full", "q", (TaskFacts("full-0", {CPU: 4}),), LOW, True, 0)
    mine = _pods({GPU: 1}, {CPU: 3}, {GPU: 2})
    reason = waiting_reasons(
        run_cycle(ClusterFacts((queue("q", 9),), gangs=(full, mine), nodes=(NodeFacts("n", {CPU: 4}),))).world
    )["g"]
    assert (reason.code, dict(reason.missing)) == ("no_room", {CPU: 3})


def test_the_least_of_unlike_pods_is_the_one_with_fewest_gpus():
    """Ten cores count less than nine GPUs, although the number is larger."""
    mine = _pods({GPU: 9}, {CPU: 10})
    reason = why([queue("q", 0)], [mine], {"n": 4})
    assert (reason.is_permanent, dict(reason.requested)) == (True, {CPU: 10})


def _whole(*tasks):
    """A gang that needs all of its tasks, given as (request, allowed nodes or None)."""
    made = tuple(TaskFacts(f"g-{i}", request, allowed_nodes=nodes) for i, (request, nodes) in enumerate(tasks))
    return GangFacts("g", "q", made, LOW, True, 9)


def test_a_shortage_names_only_nodes_that_the_task_may_use():
    """The small task may run only on m; so the large one, which comes first, has to use n."""
    full = [gang(f"full-{node}", "q", NORMAL, gpus=4, on=node) for node in "mn"]
    mine = _whole(({GPU: 4}, None), ({GPU: 3}, frozenset("m")))
    reason = why([queue("q", 9)], [*full, mine], {"k": 0, "m": 4, "n": 4})
    assert reason.unblock == ("3 GPUs more must be free on m (full-m).", "4 GPUs more must be free on n (full-n).")


def test_a_shortage_exceeds_no_capacity():
    """The task that requests only cores would fit on the small node, but then the other two would fit nowhere."""
    low = GangFacts(
        "low", "q", (TaskFacts("low-0", {GPU: 2}, state=TaskState.RUNNING, node="small"),), NORMAL, submitted=1
    )
    high = GangFacts(
        "high", "q", (TaskFacts("high-0", {GPU: 3}, state=TaskState.RUNNING, node="big"),), NORMAL, submitted=1
    )
    mine = _whole(({GPU: 4}, None), ({GPU: 1, CPU: 2}, None), ({CPU: 3}, None))
    machines = (NodeFacts("big", {GPU: 4, CPU: 8}), NodeFacts("small", {GPU: 2, CPU: 4}))
    plenty = QueueFacts("q", None, {GPU: 20, CPU: 20})
    reason = waiting_reasons(run_cycle(ClusterFacts((plenty,), gangs=(low, high, mine), nodes=machines)).world)["g"]
    assert reason.unblock == ("3 GPUs more must be free on big (high).", "1 GPU more must be free on small (low).")


def test_the_reason_of_a_gang_names_its_missing_tasks():
    """One replica needs two pods and has one; the other needs none and has none. No pod of it can ever start."""
    tree = GangTree(None, 1, [SubGroup("a", None, 2), SubGroup("b", None, 0)])
    mine = GangFacts("g", "q", (TaskFacts("a-0", {GPU: 1}, "a"),), LOW, True, 9, tree)
    reason = why([queue("q", 4)], [mine], {"n": 4})
    assert reason.code == "not_ready"
    assert "fewer tasks" in reason.message
