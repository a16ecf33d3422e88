"""The order in which queues are written while a live scheduler reads them.

Between any two writes these rules hold: a child has its parent; the GPU quotas of the children of a queue sum up to at
most its own; a queue with children is not deleted. So deletions and reductions come before increases, children are
deleted before their parents and created after them. Each queue is written once, with all its differences.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar

from scheduling.domain.queues.desired import DesiredQueue, is_unlimited
from scheduling.domain.queues.observed import ObservedQueue, Ownership, QueueDifference

AnyPlannedStep = TypeVar("AnyPlannedStep", bound="PlannedStep")


class QueueAction(StrEnum):
    """The kinds of writes."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class QueueStep:
    """One write; `differences` are its reason. `ancestors` are the current and the future queues above it, except the
    root, which all queues share. `is_terminating`: the queue is being deleted already, so the step only waits for its
    end, and so do the later steps with a common name: its quota still counts."""

    action: QueueAction
    name: str
    queue: DesiredQueue | None
    uid: str = ""
    ancestors: tuple[str, ...] = ()
    differences: tuple[QueueDifference, ...] = ()
    is_terminating: bool = False

    @property
    def affected_names(self) -> tuple[str, ...]:
        """The names that order it. Steps with a common name keep their order, and a failed step blocks the later ones;
        other steps are independent."""
        return (self.name, *self.ancestors)

    @property
    def description(self) -> str:
        """The step as a text."""
        if self.is_terminating:
            return f"wait for the deletion of {self.name}"
        if self.action is QueueAction.CREATE:
            assert self.queue is not None
            return f"create {self.name}: {_gpus_text(self.queue.quota)} below {self.queue.parent or 'nothing'}"
        if self.action is QueueAction.DELETE:
            return f"delete {self.name}"
        changes = [f"{each.field}: {_value_text(each.theirs)} → {_value_text(each.ours)}" for each in self.differences]
        return f"update {self.name}: {', '.join(changes) or 'take over'}"


@dataclass(frozen=True, slots=True)
class Untouched:
    """An object of others that blocks a write or is below our queues; we do not change it."""

    name: str
    note: str


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """The writes in their order, and the untouched objects with the reason."""

    steps: tuple[QueueStep, ...]
    untouched: tuple[Untouched, ...] = ()


def plan_queues(desired: Mapping[str, DesiredQueue], observed: Mapping[str, ObservedQueue]) -> QueuePlan:
    """The writes that bring the queues of a cluster from `observed` to `desired`, which lists parents before
    children."""
    in_the_way = {name: each.note for name, each in observed.items() if each.ownership is Ownership.OTHERS}
    for name, queue in desired.items():
        if queue.parent in in_the_way and name not in in_the_way:
            in_the_way[name] = f"{queue.parent} above it is not ours"
    mine = {name: queue for name, queue in desired.items() if name not in in_the_way}
    guests: dict[str, list[str]] = defaultdict(list)
    for each in observed.values():
        if each.ownership in {Ownership.UNKNOWN, Ownership.OTHERS} and each.parent is not None:
            guests[each.parent].append(each.name)
    going = {name for name, each in observed.items() if each.ownership is Ownership.OURS and name not in desired}
    staying = {name for host in guests for name in _ancestors(host, observed, going)}
    untouched = [Untouched(name, note) for name, note in in_the_way.items()]
    untouched += [
        Untouched(name, "it should be deleted, but a queue of others is below it") for name in sorted(staying)
    ]
    untouched += [
        Untouched(guest, f"a queue of others below our {host}; its quota is in none of our sums")
        for host in mine
        for guest in guests.get(host, ())
    ]
    deletes = [
        QueueStep(
            QueueAction.DELETE,
            name,
            None,
            observed[name].uid,
            _above(desired, observed[name].parent),
            is_terminating=observed[name].is_terminating,
        )
        for name in sorted(going - staying)
    ]
    return QueuePlan(tuple(_order_steps(mine, observed, deletes)), tuple(untouched))


def _ancestors(name: str | None, observed: Mapping[str, ObservedQueue], within: set[str]) -> Iterator[str]:
    """A queue and the queues above it, as far as they are `within`."""
    passed: set[str] = set()
    while name is not None and name in within and name not in passed:
        yield name
        passed.add(name)
        name = observed[name].parent


def _above(desired: Mapping[str, DesiredQueue], *parents: str | None) -> tuple[str, ...]:
    found = [name for name in parents if name and not (name in desired and desired[name].parent is None)]
    return tuple(dict.fromkeys(found))


def _order_steps(
    desired: Mapping[str, DesiredQueue], observed: Mapping[str, ObservedQueue], deletes: list[QueueStep]
) -> Iterator[QueueStep]:
    """Steps that free quota before steps that use it; each step as soon as the tree allows it."""
    order = _QueueTreeState(observed)
    depth = _depths(desired, observed)
    shrinking: list[QueueStep] = []
    growing: list[QueueStep] = []
    for name, queue in desired.items():
        current = observed.get(name)
        if current is None:
            growing.append(QueueStep(QueueAction.CREATE, name, queue, ancestors=_above(desired, queue.parent)))
        elif current.needs_write:
            above = _above(desired, current.parent, queue.parent)
            step = QueueStep(
                QueueAction.UPDATE, name, queue, current.uid, above, current.differences, current.is_terminating
            )
            is_less = current.parent == queue.parent and _size(queue.quota) < _size(current.quota)
            (shrinking if is_less else growing).append(step)
    deletes.sort(key=lambda step: -depth[step.name])
    shrinking.sort(key=lambda step: -depth[step.name])
    waiting = [*deletes, *shrinking, *growing]
    while waiting:
        left: list[QueueStep] = []
        for step in waiting:
            if order.allows(step):
                order.take(step)
                yield step
            else:
                left.append(step)
        if len(left) == len(waiting):
            # Pools that change their cohorts: a sum of containers (never of leaves) is too large until the next step.
            moves = sorted(left, key=lambda step: step not in growing)
            forced = next((step for step in moves if order.keeps_the_tree(step)), left[0])
            order.take(forced)
            yield forced
            left.remove(forced)
        waiting = left


class _QueueTreeState:
    """The tree after the steps so far."""

    def __init__(self, observed: Mapping[str, ObservedQueue]) -> None:
        self._quota: dict[str, float] = {}
        self._parent: dict[str, str | None] = {}
        self._children: dict[str | None, set[str]] = defaultdict(set)
        for each in observed.values():
            if each.ownership in {Ownership.OURS, Ownership.ADOPTED}:
                self._put(each.name, each.parent, each.quota)

    def allows(self, step: QueueStep) -> bool:
        """Whether the rules at the top of this module hold after the step. A sum that is already too large only may not
        grow."""
        if not self.keeps_the_tree(step):
            return False
        if step.queue is None:
            return True
        name, parent, quota = step.name, step.queue.parent, _size(step.queue.quota)
        below, present = self._sum(name), self._quota.get(name, 0)
        if below > quota and not (below > present and quota >= present):
            return False
        if parent is None:
            return True
        most = self._quota[parent]
        return math.isinf(most) or self._sum(parent, without=name) + quota <= max(most, self._sum(parent))

    def keeps_the_tree(self, step: QueueStep) -> bool:
        """Whether every queue has its parent after the step."""
        if step.queue is None:
            return not self._children[step.name]
        return step.queue.parent is None or step.queue.parent in self._quota

    def take(self, step: QueueStep) -> None:
        """Apply the step."""
        if step.name in self._quota:
            self._children[self._parent.pop(step.name)].discard(step.name)
            del self._quota[step.name]
        if step.queue is not None:
            self._put(step.name, step.queue.parent, step.queue.quota)

    def _put(self, name: str, parent: str | None, quota: float) -> None:
        self._quota[name] = _size(quota)
        self._parent[name] = parent
        self._children[parent].add(name)

    def _sum(self, name: str, *, without: str = "") -> float:
        return sum(self._quota[child] for child in self._children[name] if child != without)


def _size(quota: float) -> float:
    return math.inf if is_unlimited(quota) else quota


def _depths(desired: Mapping[str, DesiredQueue], observed: Mapping[str, ObservedQueue]) -> dict[str, int]:
    """The depth of each queue. On a cycle that was written by hand the count ends at its first node."""
    depth: dict[str, int] = {}
    for start in (*desired, *observed):
        path: list[str] = []
        name: str | None = start
        while name is not None and name not in depth and name not in path:
            path.append(name)
            name = observed[name].parent if name in observed else desired[name].parent if name in desired else None
        level = depth.get(name, -1) if name is not None else -1
        for step in reversed(path):
            level += 1
            depth[step] = level
    return depth


def _gpus_text(quota: float) -> str:
    return "unlimited" if is_unlimited(quota) else f"{quota:g} GPUs"


def _value_text(value: object) -> str:
    return "nothing" if value is None or value == "" else str(value)


class PlannedStep(Protocol):
    """A step of any kind, with the names that order it."""

    @property
    def affected_names(self) -> tuple[str, ...]:
        """The names that order the step."""
        ...


def independent_chains(steps: Iterable[AnyPlannedStep]) -> list[list[AnyPlannedStep]]:
    """The steps in parts without common names, each in its order: the parts may run in parallel."""
    top: dict[str, str] = {}

    def find(name: str) -> str:
        top.setdefault(name, name)
        while top[name] != name:
            top[name] = name = top[top[name]]
        return name

    ordered = list(steps)
    for step in ordered:
        first, *rest = step.affected_names
        for name in rest:
            top[find(name)] = find(first)
    parts: dict[str, list[AnyPlannedStep]] = defaultdict(list)
    for step in ordered:
        parts[find(step.affected_names[0])].append(step)
    return list(parts.values())
