"""Random installations in which work waits, and the trial of what is said about it: the lines are obeyed on the facts,
all other waiting work is taken away, and the engine runs again."""

from __future__ import annotations

import random
from dataclasses import replace

from pools.domain.configuration.backend_config import VictimRule
from pools.domain.values.amounts import UNLIMITED
from scheduling.domain.engine.cycle import run_cycle
from scheduling.domain.engine.facts import (
    HIGH,
    LOW,
    NORMAL,
    ClusterFacts,
    CohortFacts,
    NodeFacts,
    PolicyFacts,
    QueueFacts,
    TaskState,
)
from scheduling.domain.engine.outcome import facts_after
from scheduling.domain.gang import GangTree
from tests.unit.engine.sample_clusters import GPU, gang

HOUR = 3600
NOW = 4 * HOUR
MACHINE = {TaskState.RUNNING, TaskState.RELEASING}


def random_installation(seed):
    """The settled facts of a random installation: preemptible work came first and settled, then work of all
    priorities; a quarter of it is elastic, and half of the installations have a policy."""
    pick = random.Random(seed)
    nodes = [NodeFacts(f"n{i}", {GPU: pick.choice([2, 4, 8, 8])}) for i in range(pick.randint(1, 4))]
    whole = sum(node.resources[GPU] for node in nodes)
    cohorts, queues, leaves = _tree(pick, whole)
    policy = PolicyFacts(HOUR, HOUR, pick.choice([None, 2 * HOUR])) if pick.random() < 0.5 else None
    start = ClusterFacts(tuple(queues), tuple(cohorts), nodes=tuple(nodes), policy=policy)
    early = [_work(pick, f"l{i}", leaves, LOW, at=i) for i in range(pick.randint(4, 10))]
    start = facts_after(run_cycle(replace(start, gangs=tuple(early))))
    late = [
        _work(pick, f"f{i}", leaves, pick.choice([LOW, LOW, NORMAL, NORMAL, HIGH]), at=100 + 100 * i)
        for i in range(pick.randint(3, 10))
    ]
    for now in (HOUR, NOW):
        policy = start.policy and replace(start.policy, now=now)
        known = {each.name for each in start.gangs}
        new = [each for each in late if each.name not in known and pick.random() < (0.6 if now == HOUR else 1)]
        start = facts_after(run_cycle(replace(start, gangs=(*start.gangs, *new), policy=policy)))
    return start


def _work(pick, name, leaves, priority, at):
    gpus, count = pick.choice([(1, 1), (1, 1), (1, 2), (2, 1), (2, 1), (3, 1), (4, 1), (1, 3), (2, 2), (6, 1)])
    tree = None
    if pick.random() < 0.25:
        count += pick.randint(1, 2)
        tree = GangTree(pick.randint(1, count - 1))
    fact = gang(name, pick.choice(leaves), priority, gpus=gpus, count=count, at=at, tree=tree)
    limit = pick.choice([None, None, HOUR, 10 * HOUR])
    return replace(fact, time_limit=limit)


def _tree(pick, whole):
    cohorts = []
    for i in range(pick.randint(0, 3)):
        parent = pick.choice([None, *(c.name for c in cohorts)])
        limits = _limits(pick) if parent else {}
        cohorts.append(CohortFacts(f"c{i}", parent, {GPU: pick.choice([0, 0, 1, 3])}, **limits))
    queues, leaves = [], []
    for i in range(pick.randint(1, 4)):
        parent = pick.choice([None, *(c.name for c in cohorts), *(c.name for c in cohorts)])
        quota = pick.randint(1, max(2, whole * 2 // 3))
        limits = _limits(pick) if parent else {}
        if pick.random() < 0.4:
            limits["limit"] = {GPU: quota + pick.choice([0, 1, 2, 4])}
        weight = pick.choice([0, 1, 1, 2])
        queues.append(QueueFacts(f"q{i}", parent, {GPU: quota}, weight=weight, created=i, **limits))
        if pick.random() < 0.2:
            part = pick.randint(0, quota)
            queues += [
                QueueFacts(f"q{i}{s}", f"q{i}", {GPU: n}, created=i) for s, n in (("a", part), ("b", quota - part))
            ]
            leaves += [f"q{i}a", f"q{i}b"]
        else:
            leaves.append(f"q{i}")
    return cohorts, queues, leaves


def _limits(pick):
    found = {}
    if pick.random() < 0.4:
        found["lending_limit"] = {GPU: pick.randint(0, 3)}
    if pick.random() < 0.4:
        found["borrowing_limit"] = {GPU: pick.randint(0, 5)}
    return found


# -- kinds of GPU ----------------------------------------------------------------------------------------------------


def random_kinds(seed):
    """An installation with one to four kinds of GPU and no work yet, and the work that comes: each gang may use some of
    the kinds, in an order of its own."""
    pick = random.Random(seed)
    kinds = [f"k{i}/gpu" for i in range(pick.randint(1, 4))]
    nodes = [NodeFacts(f"n{i}", {pick.choice(kinds): pick.choice([2, 4, 8, 8])}) for i in range(pick.randint(2, 6))]
    cohorts, queues, leaves = _tree(pick, sum(sum(node.resources.values()) for node in nodes))
    queues = [_of_kinds(pick, each, kinds, ("quota", "limit", "lending_limit", "borrowing_limit")) for each in queues]
    above = {each.parent for each in queues}
    switches = {"when_can_borrow": ("borrow", "next"), "when_can_preempt": ("next", "preempt")}
    queues = [
        replace(
            each,
            quota=None if each.name in above else each.quota,
            **{key: pick.choice(words) for key, words in switches.items()},
        )
        for each in queues
    ]
    cohorts = [_of_kinds(pick, each, kinds, ("quota", "lending_limit", "borrowing_limit")) for each in cohorts]
    victims = pick.choice([*VictimRule])
    ageing = pick.choice([None, 2 * HOUR])
    policy = PolicyFacts(HOUR, HOUR, ageing, victims=victims) if pick.random() < 0.5 else None
    start = ClusterFacts(tuple(queues), tuple(cohorts), nodes=tuple(nodes), policy=policy)
    works = []
    for i in range(pick.randint(8, 20)):
        priority = pick.choice([LOW, LOW, LOW, 60, NORMAL, NORMAL, HIGH])
        work = _work(pick, f"w{i}", leaves, priority, at=100 * i)
        works.append(with_kinds(pick, work, pick.sample(kinds, pick.randint(1, len(kinds)))))
    return start, works


def _of_kinds(pick, node, kinds, fields):
    """The queue or cohort with amounts of each kind in place of those of GPUs."""

    def spread(amounts):
        return {kind: pick.choice([n, n, n // 2, 0]) for kind in kinds for n in (amounts or {}).values()}

    return replace(node, **{field: spread(getattr(node, field)) for field in fields})


def with_kinds(pick, work, kinds):
    """The gang with a choice for each of these kinds, which may need another number of GPUs in each."""
    first, *others = [
        tuple(replace(task, request={kind: task.request[GPU] * times}) for task in work.tasks)
        for kind in kinds
        for times in (pick.choice([1, 1, 1, 2]),)
    ]
    return replace(work, tasks=first, alternatives=tuple(others))


# -- trials ----------------------------------------------------------------------------------------------------------


def alone(facts, name, *, besides=()):
    """The facts without other waiting work: gangs, and optional pods of gangs that run. `besides`: gangs that go on
    waiting."""

    def left_of(each):
        if each.name == name or each.name in besides:
            return each
        return replace(each, tasks=tuple(task for task in each.tasks if task.state in MACHINE))

    left = map(left_of, facts.gangs)
    return replace(facts, gangs=tuple(each for each in left if each.tasks))


def starts(facts, name):
    """Whether the gang runs after a cycle on these facts."""
    return run_cycle(facts).world.gang_of[name].is_running


def obeyed(facts, blockers):
    """The facts after the lines of these blockers were obeyed. More is free on a node without more to divide."""
    whole = sum(node.resources.get(GPU, 0) for node in facts.nodes)
    facts = replace(facts, capacity=facts.capacity or {GPU: whole})
    for blocker in blockers:
        if blocker.limit == "nodes":
            more = {short.node: short.missing[0][1] for short in blocker.node_shortages}
            nodes = tuple(replace(n, resources={GPU: n.resources[GPU] + more.get(n.name, 0)}) for n in facts.nodes)
            facts = replace(facts, nodes=nodes)
        else:
            facts = raised(facts, blocker.node, blocker.limit, blocker.missing[GPU])
    return facts


def raised(facts, name, limit, amount):
    """The facts with a higher number of one queue or cohort."""

    def change(each):
        if each.name != name:
            return each
        now = dict(getattr(each, limit) or {})
        now[GPU] = UNLIMITED if amount is None else now.get(GPU, 0 if limit == "quota" else UNLIMITED) + amount
        return replace(each, **{limit: now})

    names = {each.name for each in (*facts.queues, *facts.cohorts)}
    cohorts = facts.cohorts if name in names else (*facts.cohorts, CohortFacts(name))
    return replace(facts, queues=tuple(map(change, facts.queues)), cohorts=tuple(map(change, cohorts)))
