"""The size limits of scenarios: a scenario that is short to write and slow to work out is refused beforehand.

A file of a few kilobytes can ask for a product: every queue has a number for every resource, every pod of an elastic
gang reads all its sub-groups, every waiting gang may read every queue. Each such product has a bound, so that
memory and time are bounded, too, and the fault names the product.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pools.domain.errors import Fault, Violation
from pools.domain.quota.tree import children_first_order
from scheduling.domain.engine.facts import ClusterFacts, CohortFacts, QueueFacts
from scheduling.domain.engine.state.build import resource_keys


@dataclass(frozen=True, slots=True)
class ScenarioBounds:
    """`tasks`: of all workloads together. `numbers`: resources × (nodes, queues, cohorts and workloads). `levels`: how
    many queues and cohorts are above each queue and cohort, all added up, × resources; `climbs`: the same above each
    workload. `members`: sub-groups × tasks of one gang. `pairs`: queues × workloads."""

    tasks: int
    numbers: int
    levels: int
    climbs: int
    members: int
    pairs: int


FILE_BOUNDS = ScenarioBounds(
    tasks=500_000, numbers=1_000_000, levels=20_000_000, climbs=10_000_000, members=10_000_000, pairs=1_000_000_000
)
"""For files, and for the live state: about a minute and a GiB at worst for each bound."""

WEB_BOUNDS = ScenarioBounds(
    tasks=20_000, numbers=200_000, levels=4_000_000, climbs=400_000, members=1_000_000, pairs=20_000_000
)
"""For the web: a thread may be busy for seconds."""


def find_broken_bounds(
    facts: ClusterFacts, bounds: ScenarioBounds, gang_paths: Mapping[str, str]
) -> Iterator[Violation]:
    """Each bound that the scenario breaks, with the path of the list that matters most."""
    resources = len(resource_keys(facts))
    lists = {
        "nodes": len(facts.nodes or ()),
        "cohorts": len(facts.cohorts),
        "queues": len(facts.queues),
        "workloads": sum(len(gang.choices) if gang.alternatives else 1 for gang in facts.gangs),
    }
    longest = max(lists, key=lambda name: lists[name])
    counted = sum(lists.values())
    if resources * counted > bounds.numbers:
        yield _fault(
            longest,
            f"{counted} nodes, cohorts, queues and workloads with {resources} resources",
            "numbers",
            resources * counted,
            bounds.numbers,
        )
    yield from _tree(facts, bounds, resources)
    if lists["queues"] * lists["workloads"] > bounds.pairs:
        yield _fault(
            "workloads",
            f"{lists['workloads']} workloads in a tree of {lists['queues']} queues",
            "pairs to compare",
            lists["workloads"] * lists["queues"],
            bounds.pairs,
        )
    for gang in facts.gangs:
        groups = 1 if gang.tree is None else len(gang.tree.names)
        if groups * len(gang.tasks) > bounds.members:
            path = f"{gang_paths[gang.name]}.gang.sub_groups"
            what = f"{len(gang.tasks)} tasks in a gang of {groups - 1} sub-groups"
            yield _fault(path, what, "pairs to compare", groups * len(gang.tasks), bounds.members)


def _tree(facts: ClusterFacts, bounds: ScenarioBounds, resources: int) -> Iterator[Violation]:
    nodes: list[CohortFacts | QueueFacts] = [*facts.cohorts, *facts.queues]
    index = {node.name: x for x, node in enumerate(nodes)}
    parents = [-1 if node.parent is None else index.get(node.parent, -1) for node in nodes]
    level = [0] * len(nodes)
    for x in reversed(children_first_order(parents)[0]):
        if parents[x] >= 0:
            level[x] = level[parents[x]] + 1
    deepest = 1 + max(level, default=0)
    if resources * sum(level) > bounds.levels:
        what = f"A tree of {len(nodes)} queues and cohorts, {deepest} levels deep, with {resources} resources"
        yield _fault(_longest_list(facts), what, "steps from each to its root", resources * sum(level), bounds.levels)
    climbs = resources * sum(
        level[index[gang.queue]] * (1 + len(gang.alternatives)) for gang in facts.gangs if gang.queue in index
    )
    if climbs > bounds.climbs:
        what = f"{len(facts.gangs)} workloads in a tree {deepest} levels deep with {resources} resources"
        yield _fault("workloads", what, "steps from each to its root", climbs, bounds.climbs)


def _longest_list(facts: ClusterFacts) -> str:
    return "cohorts" if len(facts.cohorts) > len(facts.queues) else "queues"


def _fault(path: str, what: str, unit: str, count: int, most: int) -> Violation:
    return Violation(path, Fault.BAD_VALUE, f"{what} make {count} {unit}; at most {most} are allowed here.")
