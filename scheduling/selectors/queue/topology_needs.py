"""The topology levels that waiting work requires on a cluster, for its reasons: KAI places by them, not the engine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pools.models import Backend
from scheduling.domain.cluster.pods.topology import TopologyLevels, topology_tree
from scheduling.domain.engine.facts import TopologyNeed
from scheduling.domain.engine.reasons.node_bars import topology_need
from scheduling.domain.workflow_spec import GroupSpec
from scheduling.models import Group, NodeState
from scheduling.selectors.queue.admitted_specs import UnreadableSpec, find_group_spec, read_admitted_specs
from scheduling.selectors.queue.live_facts import LiveFacts

MAX_READ = 200
"""The files of this number of waiting gangs are read, oldest first: a reason says nothing of the topology of the
others."""

NodeLabels = Mapping[str, Mapping[str, str]]


def read_node_labels(backend: Backend) -> NodeLabels:
    """The labels of the nodes of a cluster, by the name of the node."""
    return dict(NodeState.objects.filter(node__backend=backend).values_list("node__name", "labels"))


def topology_needs(keys: Mapping[str, str], group: GroupSpec, labels: NodeLabels) -> tuple[TopologyNeed, ...]:
    """What the tasks of a group require. `keys`: the topology keys of the pool with their node labels."""
    requests = {task.name: task.topology for task in group.tasks}
    if group.gang is not None or not group.required_topology_keys & keys.keys():
        return ()
    return tuple(_needs(keys, requests, labels))


def _needs(keys: Mapping[str, str], requests: Mapping[str, object], labels: NodeLabels) -> Iterator[TopologyNeed]:
    tree = topology_tree(requests, TopologyLevels("", keys))  # type: ignore[arg-type]
    parents = {group["name"]: group.get("parent", "") for group in tree.sub_groups}
    members: dict[str, set[str]] = defaultdict(set)
    members[""] = set(requests)
    for task, leaf in tree.sub_group_of.items():
        above = leaf
        while above:
            members[above].add(task)
            above = parents[above]
    key_of = {label: key for key, label in keys.items()}
    constraints = [("", tree.constraint), *((g["name"], g.get("topologyConstraint") or {}) for g in tree.sub_groups)]
    for name, constraint in constraints:
        label = constraint.get("requiredTopologyLevel")
        if label is None:
            continue
        domains: dict[str, set[str]] = defaultdict(set)
        for node, has in labels.items():
            if label in has:
                domains[has[label]].add(node)
        ordered = (frozenset(domains[value]) for value in sorted(domains))
        yield topology_need(key_of[label], label, frozenset(members[name]), ordered)


def with_topology(backend: Backend, live: LiveFacts) -> LiveFacts:
    """The facts with what waiting gangs of a cluster require. No query where no pool has topology keys."""
    if backend.kind != Backend.Kind.KUBERNETES or not live.topology_keys or live.facts.nodes is None:
        return live
    roots = {ref.group: ref.root for ref in live.gangs.values() if ref.root in live.topology_keys}
    waiting = Group.objects.filter(pk__in=roots, start_time=None, workflow__spec__contains="topology")
    rows = list(waiting.order_by("workflow__submit_time").values_list("pk", "workflow_id", "name")[:MAX_READ])
    if not rows:
        return live
    labels, specs = read_node_labels(backend), read_admitted_specs({workflow for _pk, workflow, _name in rows})
    found: dict[object, tuple[TopologyNeed, ...]] = {}
    for pk, workflow, name in rows:
        spec = specs.get(workflow)
        group = None if spec is None or isinstance(spec, UnreadableSpec) else find_group_spec(spec, name)
        if group is not None:
            found[pk] = topology_needs(live.topology_keys[roots[pk]], group, labels)
    gangs = tuple(
        replace(gang, topology=needs) if gang.name in live.gangs and (needs := found.get(live.gangs[gang.name].group))
        else gang
        for gang in live.facts.gangs
    )  # fmt: skip
    return replace(live, facts=replace(live.facts, gangs=gangs))
