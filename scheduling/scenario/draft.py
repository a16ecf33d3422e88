"""A scenario while it is read and changed: the facts by name, and the path of each in the file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pools.domain.errors import Fault, Violation
from pools.domain.quota.tree import find_cycles
from pools.domain.shortage.degraded import DegradedRule
from pools.domain.structured_input import Faults
from pools.domain.values.amounts import Amount, Number
from scheduling.domain.engine.facts import (
    ClusterFacts,
    CohortFacts,
    DisplayUnit,
    GangFacts,
    NodeBar,
    NodeFacts,
    PolicyFacts,
    QueueFacts,
    TaskState,
)
from scheduling.scenario.bounds import FILE_BOUNDS, ScenarioBounds, find_broken_bounds

MAX_NAMES_IN_MESSAGE = 20
"""The number of names of a cycle that a message lists."""


@dataclass(slots=True)
class ScenarioDraft:
    """`paths` has the path of each queue, cohort and gang (`queues[2]`); `rule_violations` are broken rules that
    do not keep the scenario from being run."""

    faults: Faults = field(default_factory=Faults)
    nodes: dict[str, NodeFacts] | None = None
    capacity: Mapping[str, Amount] | None = None
    cohorts: dict[str, CohortFacts] = field(default_factory=dict)
    queues: dict[str, QueueFacts] = field(default_factory=dict)
    gangs: dict[str, GangFacts] = field(default_factory=dict)
    usage: dict[str, Mapping[str, Number]] = field(default_factory=dict)
    demand: dict[str, Mapping[str, Number]] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    gang_paths: dict[str, str] = field(default_factory=dict)
    rule_violations: list[Violation] = field(default_factory=list)
    queue_count: int = 0
    """The number of queues written, and of workloads submitted: the default of `created` and `submitted`."""
    last_submitted: Number = 0
    task_count: int = 0
    bounds: ScenarioBounds = FILE_BOUNDS
    """How large it may become; `count` makes it easy to write more than any machine could hold."""
    allowed_nodes: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
    bars: Mapping[str, tuple[NodeBar, ...]] = field(default_factory=dict)
    """By queue, the only nodes that a new workload there may use; all nodes for a queue that is not named."""
    flavors: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By queue, the GPU flavors of its pool, where it names some."""
    units: Mapping[str, DisplayUnit] = field(default_factory=dict)
    policy: PolicyFacts | None = None
    parts: frozenset[str] = frozenset()
    degraded: DegradedRule = DegradedRule.PROPORTIONAL
    platforms: Mapping[str, frozenset[str]] = field(default_factory=dict)
    backend: str | None = None
    """The cluster of live facts; a file has none."""
    nameable_nodes: Collection[str] | None = None
    """The only nodes that the asker may name; None for all."""
    lost_nodes: dict[str, NodeFacts] = field(default_factory=dict)
    resized_nodes: dict[str, NodeFacts] = field(default_factory=dict)
    """Nodes that changes took away, and nodes of another size as they were before."""
    lost_gangs: dict[str, GangFacts] = field(default_factory=dict)
    """Work that lost a node, as it was before."""

    def may_name(self, node: str) -> bool:
        """Whether the asker may name this node."""
        return self.nameable_nodes is None or node in self.nameable_nodes

    def to_facts(self) -> ClusterFacts:
        """The facts for the engine."""
        return ClusterFacts(
            queues=tuple(self.queues.values()),
            cohorts=tuple(self.cohorts.values()),
            gangs=tuple(self.gangs.values()),
            nodes=None if self.nodes is None else tuple(self.nodes.values()),
            capacity=self.capacity,
            usage={name: held for name, held in self.usage.items() if name in self.queues},
            demand={name: demand for name, demand in self.demand.items() if name in self.queues},
            units=self.units,
            policy=self.policy,
            parts=self.parts,
        )

    def check_tree(self, path_of: Mapping[str, str]) -> None:
        """Parents exist, cohorts are above queues, and no node is above itself; `path_of` has the path of each
        parent."""
        everything: list[QueueFacts | CohortFacts] = [*self.cohorts.values(), *self.queues.values()]
        index = {node.name: x for x, node in enumerate(everything)}
        for node in everything:
            if node.parent is None or node.name not in path_of:
                continue
            if node.parent not in index:
                message = "There is no queue or cohort of this name."
                self.faults.add(path_of[node.name], Fault.UNKNOWN_NAME, message)
            elif isinstance(node, CohortFacts) and node.parent in self.queues:
                self._note_cohort_below(node, path_of[node.name])
        for cycle in find_cycles([index.get(node.parent, -1) if node.parent else -1 for node in everything]):
            names = [everything[x].name for x in cycle]
            self._note_cycle(names, next((path_of[name] for name in names if name in path_of), ""))

    def check_parent(self, name: str, path: str) -> None:
        """Check the parent that a change gave to this queue or cohort: it exists, may be a parent, and makes no
        cycle."""
        node = self._node(name)
        above = None if node is None or node.parent is None else self._node(node.parent)
        if node is None or node.parent is None:
            return
        if above is None:
            self.faults.add(path, Fault.UNKNOWN_NAME, "There is no queue or cohort of this name.")
        elif isinstance(node, CohortFacts) and isinstance(above, QueueFacts):
            self._note_cohort_below(node, path)
        path_to_root = {name: None}
        while above is not None and above.name not in path_to_root:
            path_to_root[above.name] = None
            above = None if above.parent is None else self._node(above.parent)
        if above is not None and above.name == name:
            self._note_cycle([*path_to_root], path)

    def _node(self, name: str) -> QueueFacts | CohortFacts | None:
        return self.queues.get(name) or self.cohorts.get(name)

    def _note_cohort_below(self, cohort: CohortFacts, path: str) -> None:
        message = f"Cohort '{cohort.name}' may not be below the queue '{cohort.parent}'; cohorts are above queues."
        self.faults.add(path, Fault.BAD_VALUE, message)

    def _note_cycle(self, names: Sequence[str], path: str) -> None:
        named = [*names[:MAX_NAMES_IN_MESSAGE], "…"] if len(names) > MAX_NAMES_IN_MESSAGE else names
        message = f"The parents form a cycle: {' → '.join([*named, names[0]])}."
        self.faults.add(path, Fault.CYCLE, message)

    def check_size(self, ignored_paths: Collection[str] = ()) -> None:
        """Note the bounds that the scenario breaks, except at the ignored paths."""
        found = find_broken_bounds(self.to_facts(), self.bounds, self.gang_paths)
        self.faults.violations.extend(fault for fault in found if fault.path not in ignored_paths)

    def remove_node(self, name: str) -> None:
        """Take a queue or cohort away; its children become roots."""
        self.queues.pop(name, None)
        self.cohorts.pop(name, None)
        self.queues = {
            key: replace(queue, parent=None) if queue.parent == name else queue for key, queue in self.queues.items()
        }
        self.cohorts = {
            key: replace(cohort, parent=None) if cohort.parent == name else cohort
            for key, cohort in self.cohorts.items()
        }

    def finish_workload(self, name: str) -> None:
        """The work ends and uses nothing afterwards."""
        gang = self.gangs[name]
        ended = tuple(replace(task, state=TaskState.FINISHED, node=None) for task in gang.tasks)
        self.gangs[name] = replace(gang, tasks=ended, alternatives=(), choice=0)
