"""From the steps of a plan to deeds: what is done together or not at all, and whether it can still be done.

A plan is made from what was seen; it is carried out a while later, deed by deed. A deed that cannot be done any more is
dropped, and those that counted on it find no room (:class:`Room`). What a taking rests on are the numbers of the queues
it was judged by: when they moved, it has to be judged again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from pools.domain.amounts import Amount, Number
from pools.domain.quota.tree import Shortfall
from scheduling.domain.admission import Gate, StartRefusal, start_verdict
from scheduling.domain.engine.facts import ClusterFacts, TaskState
from scheduling.domain.engine.steps import Step, StepAction
from scheduling.domain.priorities import Priority
from scheduling.domain.tree_gates import TreeGates

VICTIM_ACTIONS = frozenset({StepAction.RECLAIM, StepAction.PREEMPT, StepAction.MOVE})


@dataclass(frozen=True, slots=True)
class PlanUnit:
    """A start with everything that is taken or moved for it; or a start, or a giving up, alone. In the plan's order."""

    steps: tuple[Step, ...]

    @property
    def is_plain_start(self) -> bool:
        """Nobody loses anything by it."""
        return len(self.steps) == 1 and self.steps[0].action is StepAction.START

    @property
    def gangs(self) -> set[str]:
        """Everybody whom it concerns."""
        return {step.gang for step in self.steps}


def split_plan(steps: Iterable[Step]) -> Iterator[PlanUnit]:
    """The steps of a plan, put together: what is taken for somebody stands right before that gang's start."""
    pending: list[Step] = []
    for step in steps:
        pending.append(step)
        if step.action not in VICTIM_ACTIONS:
            yield PlanUnit(tuple(pending))
            pending = []


class NodeCapacity:
    """What is free on the nodes while a plan is carried out: as it was seen, with the deeds done since. Somebody may
    have left meanwhile, so there is at least as much."""

    def __init__(self, facts: ClusterFacts) -> None:
        self._requests: dict[str, dict[str, Mapping[str, Number]]] = {}
        self._place: dict[tuple[str, str], str] = {}
        self._free = {node.name: dict(node.resources) for node in facts.nodes or ()}
        self._journal: list[tuple[tuple[str, str], str | None, str | None]] = []
        for gang in facts.gangs:
            self._requests[gang.name] = {task.name: task.request for task in gang.tasks}
            for task in gang.tasks:
                if task.node is not None and task.state is TaskState.RUNNING:
                    self._put((gang.name, task.name), task.node)
        self._journal.clear()

    def book(self, unit: PlanUnit) -> bool:
        """Do it to the nodes if they have the room; else nothing is changed and the answer is False."""
        before = self.mark()
        asked = set()
        for step in unit.steps:
            for i, task in enumerate(step.tasks):
                node = step.nodes[i] if step.nodes else None
                self._put((step.gang, task), node)
                if node is not None:
                    asked |= {(node, name) for name, amount in self._requests[step.gang][task].items() if amount}
        # A node that was made smaller may be overfull in something; who does not ask for that may stand there.
        if all(self._free.get(node, {}).get(name, -1) >= 0 for node, name in asked):
            return True
        self.undo(before)
        return False

    def mark(self) -> int:
        """Where things stand; give it to `undo`."""
        return len(self._journal)

    def undo(self, mark: int) -> None:
        """Take back what was booked since the mark."""
        while len(self._journal) > mark:
            key, old, _new = self._journal.pop()
            self._put(key, old)
            self._journal.pop()

    def _put(self, key: tuple[str, str], node: str | None) -> None:
        """Let a task stand on this node, or nowhere."""
        request, old = self._requests[key[0]][key[1]], self._place.get(key)
        self._journal.append((key, old, node))
        for place, sign in ((old, 1), (node, -1)):
            if place is not None and place in self._free:
                free = self._free[place]
                for name, amount in request.items():
                    free[name] = free.get(name, 0) + sign * amount
        if node is None:
            self._place.pop(key, None)
        else:
            self._place[key] = node


GatePath = tuple[Gate, ...]
"""The gates a start passes, from the leaf to the root. Gates of one name are one gate."""


class Gates:
    """Quotas and use of some leaves and of what stands above them, while work starts and loses its places."""

    def __init__(self, paths: Mapping[int, GatePath], tree: TreeGates | None = None) -> None:
        """`paths` by the id of the leaf; `tree` are the cohorts above their pools."""
        self._tree = tree or TreeGates()
        self._names = {leaf: tuple(gate.name for gate in path) for leaf, path in paths.items()}
        self._gates = {gate.name: gate for path in paths.values() for gate in path}

    def path(self, leaf: int) -> GatePath:
        """The numbers on the way from a leaf to the root; empty for a leaf that is gone."""
        return tuple(self._gates[name] for name in self._names.get(leaf, ()))

    def leaf_numbers(self, leaf: int) -> tuple[GatePath, tuple[Amount, ...]]:
        """All numbers by which a leaf is judged: those on its path, and how the cohorts above it stand."""
        return self.path(leaf), self._tree.balances(leaf)

    def verdict(self, leaf: int, priority: Priority, gpus: int) -> StartRefusal | Shortfall | None:
        """Why so many GPUs may not start there, or None if they may."""
        wait = start_verdict(self.path(leaf), priority=priority, gpus=gpus)
        return wait or self._tree.shortfall(leaf, gpus)

    def add_usage(self, leaf: int, priority: Priority, gpus: int) -> None:
        """Work starts there, or (below 0) loses its places."""
        self._tree.add_usage(leaf, gpus)
        firm = 0 if priority.is_preemptible else gpus
        for gate in self.path(leaf):
            used, total = gate.used + firm, gate.total_usage + gpus
            self._gates[gate.name] = replace(gate, used=used, total_usage=total)
