"""Random streams of work on small clusters: several leaves, priorities, limits, cohorts and policies at once."""

from __future__ import annotations

import random
from dataclasses import replace

from scheduling.domain.engine.facts import HIGH, LOW, NORMAL, ClusterFacts, CohortFacts, NodeFacts, QueueFacts
from scheduling.domain.gang import GangTree
from tests.unit.engine.sample_clusters import CPU, GPU, gang
from tests.unit.engine.streams import Job, after

HOUR = 3600
LONGEST = 3 * HOUR


def mixed_stream(seed, *, hours=24):
    """The empty cluster with its policy, and the jobs."""
    pick = random.Random(seed)
    nodes = [NodeFacts(f"n{i}", {GPU: pick.choice([4, 8, 8])}) for i in range(pick.randint(1, 4))]
    whole = sum(node.resources[GPU] for node in nodes)
    cohorts, queues, leaves = _tree(pick, whole)
    start = ClusterFacts(tuple(queues), tuple(cohorts), nodes=tuple(nodes))
    policy = after(pick.choice([600, HOUR]), ageing=pick.choice([None, 2 * HOUR]))
    jobs, at, load = [], 0.0, pick.uniform(0.7, 1.2)
    priorities = pick.choice([[LOW], [LOW, NORMAL], [LOW, LOW, NORMAL, HIGH], [NORMAL, HIGH]])
    while at < hours * HOUR:
        runs = pick.randint(600, LONGEST)
        gpus, count = pick.choice([(1, 1), (1, 1), (2, 1), (3, 1), (4, 1), (1, 4), (4, 2), (8, 1), (8, 2)])
        fact = gang(f"j{len(jobs)}", pick.choice(leaves), pick.choice(priorities), gpus=gpus, count=count, at=int(at))
        limit = pick.choice([None, runs, LONGEST])
        expected = pick.choice([None, None, pick.randint(60, LONGEST)])
        jobs.append(Job(replace(fact, time_limit=limit, expected_time=expected), runs))
        at += pick.expovariate(1) * runs * gpus * count / whole / load
    return replace(start, policy=policy), jobs


def rich_stream(seed, *, hours=24):
    """The same with CPUs, work without GPUs, sets of allowed nodes and elastic gangs."""
    start, jobs = mixed_stream(seed, hours=hours)
    pick = random.Random(-seed)
    nodes = tuple(replace(node, resources={**node.resources, CPU: pick.choice([16, 32])}) for node in start.nodes)
    queues = tuple(replace(q, quota=None if q.quota is None else {**q.quota, CPU: 1000}) for q in start.queues)
    names = [node.name for node in nodes]
    return replace(start, nodes=nodes, queues=queues), [_enrich(pick, job, names) for job in jobs]


def _enrich(pick, job, names):
    tasks, gpus, cpus = job.fact.tasks, job.fact.tasks[0].request[GPU], pick.choice([0, 1, 2, 4, 8])
    if len(tasks) == 1 and pick.random() < 0.1:
        gpus, cpus = 0, max(1, cpus)
    request = {key: amount for key, amount in ((GPU, gpus), (CPU, cpus)) if amount}
    allowed = frozenset(pick.sample(names, k=max(1, len(names) - 1))) if pick.random() < 0.15 else None
    is_elastic = len(tasks) > 1 and pick.random() < 0.3
    tree = GangTree(pick.randint(1, len(tasks))) if is_elastic else None
    tasks = tuple(replace(task, request=request, allowed_nodes=allowed) for task in tasks)
    return replace(job, fact=replace(job.fact, tasks=tasks, tree=tree))


def _tree(pick, whole):
    """Cohorts, queues and the names of the leaves. The quotas together are about what the nodes have."""
    cohorts = [CohortFacts("c0")] if pick.random() < 0.6 else []
    if cohorts and pick.random() < 0.3:
        cohorts.append(CohortFacts("c1", "c0", {GPU: pick.randint(0, 3)}))
    queues, leaves = [], []
    for i in range(pick.randint(1, 4)):
        parent = pick.choice([None, *(c.name for c in cohorts), *(c.name for c in cohorts)])
        quota = max(0, round(whole / pick.randint(1, 4)) - pick.randint(0, 2))
        limits = {}
        if pick.random() < 0.3:
            limits["limit"] = {GPU: quota + pick.choice([0, 0, 4])}
        if parent and pick.random() < 0.3:
            limits["lending_limit"] = {GPU: pick.randint(0, 4)}
        if parent and pick.random() < 0.3:
            limits["borrowing_limit"] = {GPU: pick.randint(0, 8)}
        name = f"q{i}"
        if pick.random() < 0.3:
            queues.append(QueueFacts(name, parent, {GPU: quota}, created=i, **limits))
            part = pick.randint(0, quota)
            queues += [
                QueueFacts(f"{name}{s}", name, {GPU: n}, created=i) for s, n in (("a", part), ("b", quota - part))
            ]
            leaves += [f"{name}a", f"{name}b"]
        else:
            queues.append(QueueFacts(name, parent, {GPU: quota}, weight=pick.choice([0, 1, 1, 2]), created=i, **limits))
            leaves.append(name)
    return cohorts, queues, leaves
