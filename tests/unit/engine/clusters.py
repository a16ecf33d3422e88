"""Small clusters drawn on one screen, random ones for properties, and what must be true of any after settling."""

from __future__ import annotations

from hypothesis import strategies as st

from pools.domain.amounts import UNLIMITED
from scheduling.domain.engine.facts import Cohort, Facts, Gang, Node, Queue, Task, TaskState
from scheduling.domain.engine.outcome import facts_after
from scheduling.domain.engine.settle import settle
from scheduling.domain.gang import GangTree, Group

GPU = "default/gpu"
CPU = "default/cpu"


def queue(name, quota=0, parent=None, **more):
    given = {
        key: ({GPU: value} if key in {"limit", "borrowing_limit", "lending_limit"} else value)
        for key, value in more.items()
    }
    return Queue(name, parent, None if quota is None else {GPU: quota}, **given)


def cohort(name, quota=0, parent=None, **more):
    return Cohort(name, parent, {GPU: quota}, **{key: {GPU: value} for key, value in more.items()})


def gang(name, where, priority=50, *, gpus=1, count=1, on=None, at=0, tree=None, groups=None):
    """`on`: the node(s) where it runs; `groups`: the sub-group of each task."""
    nodes = [None] * count if on is None else [on] * count if isinstance(on, str) else list(on)
    tasks = tuple(
        Task(
            f"{name}-{i}",
            {GPU: gpus},
            groups[i] if groups else "default",
            TaskState.PENDING if node is None else TaskState.RUNNING,
            node if node != "*" else None,
        )
        for i, node in enumerate(nodes)
    )
    return Gang(name, where, tasks, priority, priority < 100, at, tree)


def facts(queues, gangs, nodes=(), **more):
    made = tuple(Node(name, {GPU: gpus}) for name, gpus in dict(nodes).items()) if nodes is not None else None
    return Facts(tuple(queues), gangs=tuple(gangs), nodes=made, **more)


def deeds(settled):
    """(action, gang) of every step, in order."""
    return [(step.action.value, step.gang) for step in settled.steps]


def running(settled):
    return {gang.fact.name for gang in settled.world.gangs if gang.holds}


def settled(*args, **more):
    return settle(facts(*args, **more))


@st.composite
def clusters(draw, with_cohorts=True):
    """A random cluster with random running and waiting work; what runs at the start breaks no bound."""
    nodes = tuple(Node(f"n{i}", {GPU: draw(st.sampled_from([2, 4, 8, 8]))}) for i in range(draw(st.integers(1, 4))))
    limits = st.sampled_from([{}, {}, {GPU: 0}, {GPU: 2}, {GPU: 5}, {GPU: 9}])
    cohorts = []
    if with_cohorts:
        for i in range(draw(st.integers(0, 2))):
            above = draw(st.sampled_from([None, *(c.name for c in cohorts)]))
            cohorts.append(
                Cohort(
                    f"c{i}",
                    above,
                    {GPU: draw(st.integers(0, 4))},
                    draw(limits) if above else {},
                    draw(limits) if above else {},
                )
            )
    queues = []
    bare = draw(st.sets(st.integers(0, 2)))
    for i in range(draw(st.integers(1, 6))):
        parent = draw(st.sampled_from([None, *(q.name for q in queues if q.name < "q3"), *(c.name for c in cohorts)]))
        queues.append(
            Queue(
                f"q{i}",
                parent,
                {GPU: draw(st.integers(0, 12))} if i not in bare else None,
                draw(st.sampled_from([{}, {}, {}, {GPU: 6}, {GPU: 12}])),
                draw(limits) if parent else {},
                draw(limits) if parent else {},
                draw(st.sampled_from([0, 1, 1, 2])),
                draw(st.sampled_from([100, 100, 200])),
                i,
            )
        )
    leaves = [q.name for q in queues if all(other.parent != q.name for other in queues)]
    gangs = [draw(_gang(f"g{i}", leaves)) for i in range(draw(st.integers(4, 14)))]
    return Facts(tuple(queues), tuple(cohorts), tuple(gangs), nodes)


@st.composite
def _gang(draw, name, leaves):
    priority = draw(st.sampled_from([50, 50, 50, 60, 100, 125]))
    gpus = draw(st.sampled_from([1, 1, 2, 4]))
    count = draw(st.sampled_from([1, 1, 2, 2, 3, 4]))
    shape = draw(st.sampled_from(["whole", "whole", "elastic", "replicas"]))
    tree, groups = None, ["default"] * count
    if shape == "elastic":
        tree = GangTree(draw(st.integers(1, count)))
    elif shape == "replicas":
        names = [f"r{i}" for i in range(draw(st.integers(1, 3)))]
        members = [draw(st.integers(1, 2)) for _ in names]
        replicas = [Group(n, None, m) for n, m in zip(names, members, strict=True)]
        tree = GangTree(None, draw(st.integers(1, len(names))), replicas)
        groups = [n for n, m in zip(names, members, strict=True) for _ in range(m + draw(st.integers(0, 1)))]
    tasks = tuple(Task(f"{name}-{i}", {GPU: gpus}, group) for i, group in enumerate(groups))
    return Gang(name, draw(st.sampled_from(leaves)), tasks, priority, priority < 100, draw(st.integers(0, 9)), tree)


def half_run(given, keep):
    """The cluster after the gangs in `keep` were scheduled alone: an honest state in which the others arrive."""
    import dataclasses

    first = dataclasses.replace(given, gangs=tuple(g for g in given.gangs if g.name in keep))
    after = {g.name: g for g in facts_after(settle(first)).gangs}
    return dataclasses.replace(given, gangs=tuple(after.get(g.name, g) for g in given.gangs))


def broken(world):
    """Every invariant that does not hold, as sentences."""
    found = []
    for q in world.queues:
        held = {"alloc": 0, "np": 0}
        for g in world.gangs:
            if g.queue is None or q not in g.queue.path:
                continue
            gpus = sum(n for i, status in enumerate(g.status) if status in {1, 2} for _r, n in g.requests[i])
            held["alloc"] += gpus
            held["np"] += 0 if g.preemptible else gpus
        if q.alloc and q.alloc[0] != held["alloc"]:
            found.append(f"{q} counts {q.alloc[0]}, holds {held['alloc']}")
        if q.alloc and q.np[0] != held["np"]:
            found.append(f"{q} counts {q.np[0]} non-preemptible, holds {held['np']}")
        if q.alloc and held["np"] > q.quota[0]:
            found.append(f"{q} has non-preemptible work over its quota")
        if q.alloc and held["alloc"] > q.limit[0] != UNLIMITED:
            found.append(f"{q} is over its limit")
    if world.nodes is not None:
        for node, capacity in enumerate(world.nodes.capacity):
            used = sum(
                n
                for g in world.gangs
                for i, status in enumerate(g.status)
                if status in {1, 2} and g.node[i] == node
                for _r, n in g.requests[i]
            )
            if used > capacity[0]:
                found.append(f"node {node} holds {used} of {capacity[0]}")
            if capacity[0] - used != world.nodes.free[node][0]:
                found.append(f"node {node} counts {world.nodes.free[node][0]} free, has {capacity[0] - used}")
    found.extend(f"{g} is half started" for g in world.gangs if any(g.active) and not g.satisfied)
    governed = {q.column for q in world.queues if q.governed}
    for column in world.columns:
        found.extend(f"{world.tree.names[x]} is in debt" for x in governed if column.debt(x))
    return found
