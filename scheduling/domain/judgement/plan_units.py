"""The units of a plan: steps that are applied together or not at all, and the checks that a unit still applies.

A plan is made from a snapshot and applied a little later, unit by unit. A unit that no longer applies is dropped, and
later units that needed its result find no free capacity (:class:`NodeCapacity`). An eviction was judged by the numbers
of certain queues; when those numbers have changed, it must be judged again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from pools.domain.quota.tree import Shortfall
from pools.domain.values.amounts import DEFAULT_FLAVOR, Amount, Number, amount_text
from scheduling.domain.engine.facts import ClusterFacts, TaskState
from scheduling.domain.engine.steps import Step, StepAction
from scheduling.domain.judgement.admission import Gate, StartRefusal, start_verdict
from scheduling.domain.judgement.tree_gates import TreeGates
from scheduling.domain.priorities import Priority
from scheduling.domain.reason_codes import LIMIT_OF

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


_Place = tuple[str, Mapping[str, Number]]
"""The node of a task, and what it uses there."""


class NodeCapacity:
    """Free capacity of the nodes while a plan is applied: the snapshot and the units applied since. Work may have ended
    since the snapshot, so at least this much is free."""

    def __init__(self, facts: ClusterFacts) -> None:
        self._requests: dict[str, list[dict[str, Mapping[str, Number]]]] = {}
        self._places: dict[tuple[str, str], _Place] = {}
        self._free = {node.name: dict(node.resources) for node in facts.nodes or ()}
        self._journal: list[tuple[tuple[str, str], _Place | None]] = []
        for gang in facts.gangs:
            self._requests[gang.name] = [{task.name: task.request for task in tasks} for tasks in gang.choices]
            for task in gang.tasks:
                if task.node is not None and task.state is TaskState.RUNNING:
                    self._put((gang.name, task.name), (task.node, task.request))
        self._journal.clear()

    def book(self, unit: PlanUnit) -> bool:
        """Apply the unit to the nodes and return True; if they lack capacity, change nothing and return False."""
        before = self.mark()
        requested = set()
        for step in unit.steps:
            for i, task in enumerate(step.tasks):
                if not step.nodes:
                    self._put((step.gang, task), None)
                    continue
                node, request = step.nodes[i], self._requests[step.gang][step.choice][task]
                self._put((step.gang, task), (node, request))
                requested |= {(node, name) for name, amount in request.items() if amount}
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
            key, old = self._journal.pop()
            self._put(key, old)
            self._journal.pop()

    def _put(self, key: tuple[str, str], place: _Place | None) -> None:
        """Move a task to this place; None removes it from its node."""
        old = self._places.pop(key, None)
        self._journal.append((key, old))
        for at, sign in ((old, 1), (place, -1)):
            if at is not None and at[0] in self._free:
                free = self._free[at[0]]
                for name, amount in at[1].items():
                    free[name] = free.get(name, 0) + sign * amount
        if place is not None:
            self._places[key] = place


GatePath = tuple[Gate, ...]
"""The gates that a start passes in one GPU flavor, from the leaf to the root. Gates with equal names are one gate."""

LeafPaths = Mapping[str, GatePath]
"""The gates of a leaf by flavor; a pool without flavors has `default` alone."""


class Gates:
    """Quotas and usage of some leaves and of the nodes above them, while work starts and stops."""

    def __init__(self, paths: Mapping[int, LeafPaths], tree: TreeGates | None = None) -> None:
        """`paths` by the id of the leaf; `tree` holds the cohorts above their pools."""
        self._tree = tree or TreeGates()
        self._names: dict[tuple[int, str], tuple[str, ...]] = {}
        self._gates: dict[tuple[str, str], Gate] = {}
        for leaf, by_flavor in paths.items():
            for flavor, path in by_flavor.items():
                self._names[leaf, flavor] = tuple(gate.name for gate in path)
                self._gates |= {(flavor, gate.name): gate for gate in path}

    def path(self, leaf: int, flavor: str = DEFAULT_FLAVOR) -> GatePath:
        """The gates on the path from a leaf to the root in one flavor; empty for a leaf that no longer exists, and for
        a flavor of which it has no quota."""
        return tuple(self._gates[flavor, name] for name in self._names.get((leaf, flavor), ()))

    def leaf_numbers(self, leaf: int, flavor: str = DEFAULT_FLAVOR) -> tuple[GatePath, tuple[Amount, ...]]:
        """All numbers that a leaf is judged by in one flavor: the gates on its path, and the balances of the cohorts
        above it."""
        return self.path(leaf, flavor), self._tree.balances(leaf, flavor)

    def verdict(
        self, leaf: int, priority: Priority, gpus: int, flavor: str = DEFAULT_FLAVOR
    ) -> StartRefusal | Shortfall | None:
        """Why these GPUs of a flavor may not start on this leaf, or None if they may."""
        wait = start_verdict(self.path(leaf, flavor), priority=priority, gpus=gpus)
        return wait or self._tree.shortfall(leaf, gpus, flavor)

    def add_usage(self, leaf: int, priority: Priority, gpus: int, flavor: str = DEFAULT_FLAVOR) -> None:
        """Count GPUs of work that starts there, or (below 0) of work that stops."""
        self._tree.add_usage(leaf, gpus, flavor)
        firm = 0 if priority.is_preemptible else gpus
        for gate in self.path(leaf, flavor):
            used, total = gate.used + firm, gate.total_usage + gpus
            self._gates[flavor, gate.name] = replace(gate, used=used, total_usage=total)


def why_not(verdict: StartRefusal | Shortfall | None) -> str:
    """Why a gang does not start in a GPU flavor that comes before the one that it gets, in a few words."""
    if verdict is None:
        return "it would wait, borrow or preempt there"
    if isinstance(verdict, StartRefusal):
        return f"the {LIMIT_OF[verdict.code]} leaves {amount_text(verdict.free)}"
    return f"the cohorts leave {amount_text(max(0, verdict.available))}"
