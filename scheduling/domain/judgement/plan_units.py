"""The units of a plan: steps that are applied together or not at all, and the checks that a unit still applies.

A plan is made from a snapshot and applied a little later, unit by unit. A unit that no longer applies is dropped, and
later units that needed its result find no free capacity (:class:`NodeCapacity`). An eviction was judged by the numbers
of certain queues; when those numbers have changed, it must be judged again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from pools.domain.quota.tree import Shortfall
from pools.domain.values.amounts import Amount, Number
from scheduling.domain.engine.facts import ClusterFacts, TaskState
from scheduling.domain.engine.steps import Step, StepAction
from scheduling.domain.judgement.admission import Gate, StartRefusal, start_verdict
from scheduling.domain.judgement.tree_gates import TreeGates
from scheduling.domain.priorities import Priority

VICTIM_ACTIONS = frozenset({StepAction.RECLAIM, StepAction.PREEMPT, StepAction.MOVE})


@dataclass(frozen=True, slots=True)
class PlanUnit:
    """A start with all evictions and moves for it, a start alone, or a give-up alone. Steps are in the plan's order."""

    steps: tuple[Step, ...]

    @property
    def is_plain_start(self) -> bool:
        """Whether no other gang loses or moves tasks for the start."""
        return len(self.steps) == 1 and self.steps[0].action is StepAction.START

    @property
    def ends_attempts(self) -> bool:
        """Whether a gang loses or moves tasks in it."""
        return any(step.action is not StepAction.START for step in self.steps)

    @property
    def gangs(self) -> set[str]:
        """The names of all gangs with a step in the unit."""
        return {step.gang for step in self.steps}


def split_plan(steps: Iterable[Step]) -> Iterator[PlanUnit]:
    """The units of a plan. The evictions and moves for a gang come right before its start."""
    pending: list[Step] = []
    for step in steps:
        pending.append(step)
        if step.action not in VICTIM_ACTIONS:
            yield PlanUnit(tuple(pending))
            pending = []


class NodeCapacity:
    """Free capacity of the nodes while a plan is applied: the snapshot and the units applied since. Work may have ended
    since the snapshot, so at least this much is free."""

    def __init__(self, facts: ClusterFacts) -> None:
        self._requests: dict[str, dict[str, Mapping[str, Number]]] = {}
        self._node_of: dict[tuple[str, str], str] = {}
        self._free = {node.name: dict(node.resources) for node in facts.nodes or ()}
        self._journal: list[tuple[tuple[str, str], str | None, str | None]] = []
        for gang in facts.gangs:
            self._requests[gang.name] = {task.name: task.request for task in gang.tasks}
            for task in gang.tasks:
                if task.node is not None and task.state is TaskState.RUNNING:
                    self._put((gang.name, task.name), task.node)
        self._journal.clear()

    def book(self, unit: PlanUnit) -> bool:
        """Apply the unit to the nodes and return True; if they lack capacity, change nothing and return False."""
        before = self.mark()
        requested = set()
        for step in unit.steps:
            for i, task in enumerate(step.tasks):
                node = step.nodes[i] if step.nodes else None
                self._put((step.gang, task), node)
                if node is not None:
                    requested |= {(node, name) for name, amount in self._requests[step.gang][task].items() if amount}
        # A node that was made smaller may be overfull in one resource; tasks that do not request it still fit.
        if all(self._free.get(node, {}).get(name, -1) >= 0 for node, name in requested):
            return True
        self.undo(before)
        return False

    def mark(self) -> int:
        """The current position of the journal, for `undo`."""
        return len(self._journal)

    def undo(self, mark: int) -> None:
        """Undo all bookings since the mark."""
        while len(self._journal) > mark:
            key, old, _new = self._journal.pop()
            self._put(key, old)
            self._journal.pop()

    def _put(self, key: tuple[str, str], node: str | None) -> None:
        """Move a task to this node; None removes it from its node."""
        request, old = self._requests[key[0]][key[1]], self._node_of.get(key)
        self._journal.append((key, old, node))
        for name_of_node, sign in ((old, 1), (node, -1)):
            if name_of_node is not None and name_of_node in self._free:
                free = self._free[name_of_node]
                for name, amount in request.items():
                    free[name] = free.get(name, 0) + sign * amount
        if node is None:
            self._node_of.pop(key, None)
        else:
            self._node_of[key] = node


GatePath = tuple[Gate, ...]
"""The gates that a start passes, from the leaf to the root. Gates with equal names are one gate."""


class Gates:
    """Quotas and usage of some leaves and of the nodes above them, while work starts and stops."""

    def __init__(self, paths: Mapping[int, GatePath], tree: TreeGates | None = None) -> None:
        """`paths` by the id of the leaf; `tree` holds the cohorts above their pools."""
        self._tree = tree or TreeGates()
        self._names = {leaf: tuple(gate.name for gate in path) for leaf, path in paths.items()}
        self._gates = {gate.name: gate for path in paths.values() for gate in path}

    def path(self, leaf: int) -> GatePath:
        """The gates on the path from a leaf to the root; empty for a leaf that no longer exists."""
        return tuple(self._gates[name] for name in self._names.get(leaf, ()))

    def leaf_numbers(self, leaf: int) -> tuple[GatePath, tuple[Amount, ...]]:
        """All numbers that a leaf is judged by: the gates on its path, and the balances of the cohorts above it."""
        return self.path(leaf), self._tree.balances(leaf)

    def verdict(self, leaf: int, priority: Priority, gpus: int) -> StartRefusal | Shortfall | None:
        """Why these GPUs may not start on this leaf, or None if they may."""
        wait = start_verdict(self.path(leaf), priority=priority, gpus=gpus)
        return wait or self._tree.shortfall(leaf, gpus)

    def add_usage(self, leaf: int, priority: Priority, gpus: int) -> None:
        """Count GPUs of work that starts there, or (below 0) of work that stops."""
        self._tree.add_usage(leaf, gpus)
        firm = 0 if priority.is_preemptible else gpus
        for gate in self.path(leaf):
            used, total = gate.used + firm, gate.total_usage + gpus
            self._gates[gate.name] = replace(gate, used=used, total_usage=total)
