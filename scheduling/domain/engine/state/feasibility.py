"""The tasks that a gang could ever start with: of the possible choices for its next attempt, the first one that limits,
quotas and nodes do not rule out permanently, however much other work ends.

A gang that can meet its minimum in more than one way (optional replicas, tasks of different size) requests the chosen
tasks. Otherwise one replica that is too large for every node would block other replicas that fit."""

from __future__ import annotations

from pools.domain.quota.tree import QuotaTree
from pools.domain.values.amounts import Amount, Number
from scheduling.domain.engine.state.nodes import NOWHERE, NodeIndex
from scheduling.domain.engine.state.placement import could_place, place_requests
from scheduling.domain.engine.state.records import (
    RUNNING,
    GangState,
    QueueState,
    Signature,
    place_one_by_one,
    sum_requests,
    task_choices,
)
from scheduling.domain.gang import Growth


class Feasibility:
    """The upper bounds of every queue, and empty nodes."""

    def __init__(self, keys: list[str], tree: QuotaTree, empty: NodeIndex | None) -> None:
        self._keys, self._tree, self.empty = keys, tree, empty
        self._most: dict[tuple[int, bool], list[Amount]] = {}
        self._possible: dict[tuple[int, Signature], bool] = {}

    def feasible_tasks(self, gang: GangState) -> list[int] | None:
        """The tasks of the next attempt, or None if every choice is ruled out."""
        trial = _Trial(self, gang)
        growth = Growth(
            gang.tree, gang.active, gang.waiting, trial.place, mark=trial.mark, undo=trial.undo, cost=gang.min_cost
        )
        found = growth.attempt() or (gang.is_complete and not gang.is_satisfied and trial.at_once())
        chosen = trial.chosen.copy()
        trial.undo(0)
        return chosen if found else None

    def upper_bounds(self, queue: QueueState, *, preemptible: bool) -> list[Amount]:
        """The most of each resource that a gang of the queue could hold without other work."""
        known = self._most.get((queue.index, preemptible))
        if known is None:
            known = [min(above.limit[r] for above in queue.path) for r in range(len(self._keys))]
            for r, key in enumerate(self._keys):
                if not preemptible:
                    known[r] = min(known[r], *(above.quota[r] for above in queue.path))
                if queue.has_cohort_above and not queue.is_cyclic:
                    known[r] = min(known[r], self._tree.columns[key].potential(queue.column))
            self._most[queue.index, preemptible] = known
        return known

    def is_possible_choice(self, gang: GangState, queue: QueueState) -> bool:
        """Whether a gang without alternatives, or with its choice, or a choice that could start if all other work
        ended. The others are not tried: they would only change the place of their leaf in the order."""
        if not gang.choices or gang.holds_something:
            return True
        key = queue.index, gang.signature
        if key not in self._possible:
            self._possible[key] = self.could_start_alone(gang, queue)
        return self._possible[key]

    def could_start_alone(self, gang: GangState, queue: QueueState) -> bool:
        """Whether the gang could start if all other work ended."""
        if not gang.is_complete:
            return False
        most = self.upper_bounds(queue, preemptible=gang.preemptible)
        if any(amount > most[r] for r, amount in gang.next_request):
            return False
        return self.empty is None or could_place(self.empty, [gang.needs[i] for i in gang.next_tasks()]) is not None


class _Trial:
    """One gang alone on empty nodes."""

    def __init__(self, reach: Feasibility, gang: GangState) -> None:
        self._empty, self._gang = reach.empty, gang
        queue = gang.queue
        self._most = None if queue is None else reach.upper_bounds(queue, preemptible=gang.preemptible)
        self._held = dict(sum_requests([gang.requests[i] for i, status in enumerate(gang.status) if status == RUNNING]))
        self._nodes: list[int] = []
        self.chosen: list[int] = []

    def mark(self) -> int:
        """The current position, for `undo`."""
        return len(self.chosen)

    def undo(self, mark: int) -> None:
        """Undo all choices since the mark."""
        while len(self.chosen) > mark:
            i, node = self.chosen.pop(), self._nodes.pop()
            self._hold(i, -1)
            if self._empty is not None:
                self._empty.release(node, self._gang.needs[i])

    def place(self, leaf: int, count: int) -> bool:
        """Choose `count` waiting tasks of the leaf, if all bounds together allow them."""
        if any(self._choose(tasks) for tasks in task_choices(self._gang, leaf, count)):
            return True
        return place_one_by_one(self._gang, leaf, count, lambda i: self._choose([i]), self.mark, self.undo)

    def at_once(self) -> bool:
        """Choose the first tasks together, or the cheapest ones: placed one by one they may block each other."""
        choices = (self._gang.first_tasks(), self._gang.cheapest_tasks())
        return any(self._choose(tasks) for tasks in choices if tasks is not None)

    def _choose(self, tasks: list[int]) -> bool:
        gang = self._gang
        nodes: list[int] | None = [NOWHERE] * len(tasks)
        if self._empty is not None:
            nodes = place_requests(self._empty, [gang.needs[i] for i in tasks])
        if nodes is None:
            return False
        before = self.mark()
        for i, node in zip(tasks, nodes, strict=True):
            self._hold(i, 1)
            self.chosen.append(i)
            self._nodes.append(node)
        if self._most is not None and any(held > self._most[r] for r, held in self._held.items()):
            self.undo(before)
            return False
        return True

    def _hold(self, i: int, sign: int) -> None:
        for r, amount in self._gang.requests[i]:
            held: Number = self._held.get(r, 0)
            self._held[r] = held + sign * amount
