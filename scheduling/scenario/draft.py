"""A scenario while it is read and changed: the facts by name, and where in the file each of them was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pools.domain.amounts import Amount, Number
from pools.domain.errors import Violation
from pools.domain.quota import cycles_of
from scheduling.domain.engine.facts import Cohort, Facts, Gang, Node, Queue, TaskState, Unit

from .fields import Fault, Faults


@dataclass(slots=True)
class Draft:
    """`paths` says where each queue, cohort and gang stands (`queues[2]`); `notes` are broken rules of the house that
    do not keep the scenario from being run."""

    faults: Faults = field(default_factory=Faults)
    nodes: dict[str, Node] | None = None
    capacity: Mapping[str, Amount] | None = None
    cohorts: dict[str, Cohort] = field(default_factory=dict)
    queues: dict[str, Queue] = field(default_factory=dict)
    gangs: dict[str, Gang] = field(default_factory=dict)
    usage: dict[str, Mapping[str, Number]] = field(default_factory=dict)
    demand: dict[str, Mapping[str, Number]] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    gang_paths: dict[str, str] = field(default_factory=dict)
    notes: list[Violation] = field(default_factory=list)
    placed: int = 0
    """How many queues were written, and workloads submitted: the default of `created` and `submitted`."""
    submitted: Number = 0
    tasks: int = 0
    most_tasks: int = 500_000
    """Over the whole scenario; `count` makes it easy to write more than any machine could hold."""
    allowed: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
    """By queue, the only nodes that a new workload there may stand on; all of them where nothing is said."""
    units: Mapping[str, Unit] = field(default_factory=dict)

    def facts(self) -> Facts:
        """What the engine is told."""
        return Facts(
            queues=tuple(self.queues.values()),
            cohorts=tuple(self.cohorts.values()),
            gangs=tuple(self.gangs.values()),
            nodes=None if self.nodes is None else tuple(self.nodes.values()),
            capacity=self.capacity,
            usage={name: held for name, held in self.usage.items() if name in self.queues},
            demand={name: wanted for name, wanted in self.demand.items() if name in self.queues},
            units=self.units,
        )

    def check_tree(self, path_of: Mapping[str, str]) -> None:
        """Parents exist, cohorts stand above queues, nobody above himself; `path_of` says where a parent was named."""
        everything: list[Queue | Cohort] = [*self.cohorts.values(), *self.queues.values()]
        index = {node.name: x for x, node in enumerate(everything)}
        for node in everything:
            if node.parent is None or node.name not in path_of:
                continue
            if node.parent not in index:
                message = f"There is no queue or cohort '{node.parent}'."
                self.faults.note(path_of[node.name], Fault.UNKNOWN_NAME, message)
            elif isinstance(node, Cohort) and node.parent in self.queues:
                message = (
                    f"Cohort '{node.name}' may not stand below the queue '{node.parent}'; cohorts are above queues."
                )
                self.faults.note(path_of[node.name], Fault.BAD_VALUE, message)
        for cycle in cycles_of([index.get(node.parent, -1) if node.parent else -1 for node in everything]):
            names = [everything[x].name for x in cycle]
            message = f"The parents run in a circle: {' → '.join([*names, names[0]])}."
            at = next((path_of[name] for name in names if name in path_of), "")
            self.faults.note(at, Fault.CYCLE, message)

    def remove(self, name: str) -> None:
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

    def finish(self, name: str) -> None:
        """The work ends and holds nothing any more."""
        gang = self.gangs[name]
        ended = tuple(replace(task, state=TaskState.FINISHED, node=None) for task in gang.tasks)
        self.gangs[name] = replace(gang, tasks=ended)
