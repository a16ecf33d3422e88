"""Small clusters for examples, random ones for properties, and the invariants of any cluster after a cycle."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from pools.domain.values.amounts import UNLIMITED
from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import (
    ClusterFacts,
    CohortFacts,
    GangFacts,
    NodeFacts,
    QueueFacts,
    TaskFacts,
    TaskState,
)
from scheduling.domain.engine.outcome import facts_after
from scheduling.domain.engine.state.records import RELEASING, RUNNING
from scheduling.domain.gang import GangTree, SubGroup

GPU = "default/gpu"
CPU = "default/cpu"
KEYS = [GPU, CPU]


def queue(name, quota=0, parent=None, **more):
    given = {
        key: ({GPU: value} if key in {"limit", "borrowing_limit", "lending_limit"} else value)
        for key, value in more.items()
    }
    return QueueFacts(name, parent, None if quota is None else {GPU: quota}, **given)


def cohort(name, quota=0, parent=None, **more):
    return CohortFacts(name, parent, {GPU: quota}, **{key: {GPU: value} for key, value in more.items()})


def gang(name, where, priority=50, *, gpus=1, count=1, on=None, at=0, tree=None, groups=None):
    """`on`: the node(s) where it runs; `groups`: the sub-group of each task."""
    nodes = [None] * count if on is None else [on] * count if isinstance(on, str) else list(on)
    tasks = tuple(
        TaskFacts(
            f"{name}-{i}",
            {GPU: gpus},
            groups[i] if groups else "default",
            TaskState.PENDING if node is None else TaskState.RUNNING,
            node if node != "*" else None,
        )
        for i, node in enumerate(nodes)
    )
    return GangFacts(name, where, tasks, priority, priority < 100, at, tree)


def facts(queues, gangs, nodes=(), **more):
    made = tuple(NodeFacts(name, {GPU: gpus}) for name, gpus in dict(nodes).items()) if nodes is not None else None
    return ClusterFacts(tuple(queues), gangs=tuple(gangs), nodes=made, **more)


def step_pairs(cycle):
    """(action, gang) of every step, in order."""
    return [(step.action.value, step.gang) for step in cycle.steps]


def running_gangs(cycle):
    return {gang.fact.name for gang in cycle.world.gangs if gang.is_running}


def run_cycle_of(*args, **more):
    return run_cycle(facts(*args, **more))


AMOUNTS = st.sampled_from([{}, {}, {GPU: 0}, {GPU: 2}, {GPU: 5}, {CPU: 6}, {GPU: 4, CPU: 9}])
PRIORITIES = st.sampled_from([50, 50, 50, 60, 100, 125])


@st.composite
def cluster_facts(draw):
    """A random cluster with random waiting work."""
    nodes = tuple(
        NodeFacts(f"n{i}", {GPU: draw(st.sampled_from([2, 4, 8, 8])), CPU: draw(st.sampled_from([4, 16]))})
        for i in range(draw(st.integers(1, 4)))
    )
    cohorts = []
    for i in range(draw(st.integers(0, 2))):
        above = draw(st.sampled_from([None, *(c.name for c in cohorts)]))
        limits = [draw(AMOUNTS) if above else {} for _ in range(2)]
        cohorts.append(
            CohortFacts(f"c{i}", above, {GPU: draw(st.integers(0, 4)), CPU: draw(st.integers(0, 8))}, *limits)
        )
    queues = []
    for i in range(draw(st.integers(1, 6))):
        parent = draw(st.sampled_from([None, *(q.name for q in queues if q.name < "q3"), *(c.name for c in cohorts)]))
        quota = {GPU: draw(st.integers(0, 12)), CPU: draw(st.sampled_from([8, UNLIMITED]))}
        queues.append(
            QueueFacts(
                f"q{i}",
                parent,
                draw(st.sampled_from([quota, quota, quota, None])),
                draw(st.sampled_from([{}, {}, {}, {GPU: 6}, {GPU: 12, CPU: 12}])),
                draw(AMOUNTS) if parent else {},
                draw(AMOUNTS) if parent else {},
                draw(st.sampled_from([0, 1, 1, 2])),
                draw(st.sampled_from([100, 100, 200])),
                i,
            )
        )
    leaves = [q.name for q in queues if all(other.parent != q.name for other in queues)]
    machines = sorted(node.name for node in nodes)
    gangs = [draw(_gang(f"g{i}", leaves, machines)) for i in range(draw(st.integers(4, 14)))]
    return ClusterFacts(tuple(queues), tuple(cohorts), tuple(gangs), nodes)


REQUESTS = st.sampled_from([{GPU: 1}, {GPU: 1}, {GPU: 2}, {GPU: 4}, {GPU: 1, CPU: 2}, {GPU: 2, CPU: 6}, {CPU: 3}, {}])


@st.composite
def _gang(draw, name, leaves, machines):
    """A gang whose tasks may differ in their requests and in their allowed nodes."""
    priority = draw(PRIORITIES)
    tree, groups = draw(st.one_of(_plain(), _elastic(), _replicas()))
    request, unlike = draw(REQUESTS), draw(st.sampled_from([False, False, True]))
    places = st.one_of(st.none(), st.none(), st.frozensets(st.sampled_from(machines)))
    place = draw(st.one_of(st.none(), places))
    tasks = tuple(
        TaskFacts(f"{name}-{i}", draw(REQUESTS), group, allowed_nodes=draw(places))
        if unlike
        else TaskFacts(f"{name}-{i}", request, group, allowed_nodes=place)
        for i, group in enumerate(groups)
    )
    return GangFacts(
        name, draw(st.sampled_from(leaves)), tasks, priority, priority < 100, draw(st.integers(0, 9)), tree
    )


@st.composite
def _plain(draw):
    return None, ["default"] * draw(st.sampled_from([1, 1, 2, 2, 3, 4]))


@st.composite
def _elastic(draw):
    pods = draw(st.integers(1, 4))
    return GangTree(draw(st.integers(0, pods))), ["default"] * pods


@st.composite
def _replicas(draw):
    """Replicas, some with a head and workers of their own; the minimum of each level is random."""
    groups, leaves = [], []
    replicas = draw(st.integers(1, 3))
    for i in range(replicas):
        inner = [f"r{i}-{part}" for part in draw(st.sampled_from([[], [], ["head", "worker"]]))]
        if inner:
            groups.append(SubGroup(f"r{i}", None, None, draw(st.sampled_from([None, 1, 2]))))
        for leaf in inner or [f"r{i}"]:
            least = draw(st.integers(1, 2))
            groups.append(SubGroup(leaf, f"r{i}" if inner else None, least))
            leaves += [leaf] * (least + draw(st.integers(0, 1)))
    return GangTree(None, draw(st.sampled_from([None, *range(1, replicas + 1)])), groups), leaves


def partly_scheduled(given, keep):
    """The cluster after the gangs in `keep` were scheduled alone: a reachable state in which the others arrive."""
    first = replace(given, gangs=tuple(g for g in given.gangs if g.name in keep))
    after = {g.name: g for g in facts_after(run_cycle(first)).gangs}
    return replace(given, gangs=tuple(after.get(g.name, g) for g in given.gangs))


def broken_invariants(world):
    """Every broken invariant as a message."""
    found = []
    for q in world.queues:
        below = [g for g in world.gangs if g.queue is not None and q in g.queue.path]
        for r, key in enumerate(world.keys):
            held = sum(_held(g, r) for g in below)
            fixed = sum(_held(g, r) for g in below if not g.preemptible)
            if (q.alloc[r], q.non_preemptible[r]) != (held, fixed):
                found.append(f"{q} counts {q.alloc[r]} and {q.non_preemptible[r]} {key}, holds {held} and {fixed}")
            if fixed > q.quota[r]:
                found.append(f"{q} has non-preemptible work over its quota of {key}")
            if held > q.limit[r]:
                found.append(f"{q} is over its limit of {key}")
    if world.nodes is not None:
        for node, capacity in enumerate(world.nodes.capacity):
            for r, key in enumerate(world.keys):
                free = capacity[r] - sum(_held(g, r, node) for g in world.gangs)
                if free < 0:
                    found.append(f"node {node} holds {-free} {key} more than it has")
                if free != world.nodes.free[node][r]:
                    found.append(f"node {node} counts {world.nodes.free[node][r]} free {key}, has {free}")
    found.extend(f"{g} is half started" for g in world.gangs if any(g.active) and not g.is_satisfied)
    governed = {q.column for q in world.queues if q.has_cohort_above}
    for column in world.columns:
        found.extend(f"{world.tree.names[x]} is in debt" for x in governed if column.debt(x))
    return found


def _held(gang, r, node=None):
    """The amount of one resource that the tasks of the gang use, on all nodes or on one."""
    return sum(
        amount
        for i, status in enumerate(gang.status)
        if status in {RUNNING, RELEASING} and node in {None, gang.node[i]}
        for which, amount in gang.requests[i]
        if which == r
    )
