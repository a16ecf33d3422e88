"""Sampled futures, read for work that comes later: it waits as long as the work with as many GPUs before it.

One set of futures answers for many gangs, which would each need futures of their own otherwise. `before` is the number
of GPUs of the work that comes first in the queue. Times are seconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pools.domain.values.amounts import Number, gpus_in, is_gpu
from scheduling.domain.engine.facts import GangFacts
from scheduling.history.forecast.baseline import size_class
from scheduling.history.forecast.futures import NEVER

YOUNG = 400.0
"""Seconds for which a set of futures is always young enough."""
AGE = 0.2
"""An older one may have this part of the middle wait as its age."""
BEYOND = 1.3
"""The GPUs before work that reads a set, as a multiple of those before any work of the set, are at most this."""


def is_young(age: float, middle: float) -> bool:
    """Whether futures of this age, in which the last work waits for this time, may be read."""
    return age <= max(YOUNG, AGE * middle)


def is_within(before: int, most: int) -> bool:
    """Whether work with these GPUs before it may be read from work with at most those."""
    return before <= BEYOND * most + 2


@dataclass(slots=True)
class Line:
    """The waits of one queue's work in one future, by the GPUs before it in its queue, ascending."""

    before: list[int]
    waits: list[float]

    def add(self, before: int, wait: float) -> None:
        """The wait of work with more GPUs before it than all added before."""
        if not self.before or self.before[-1] < before:
            self.before.append(before)
            self.waits.append(max(wait, self.waits[-1] if self.waits else 0.0))

    def wait(self, before: int, gpus: int) -> float:
        """The wait with these GPUs before it, linear between two; beyond them in proportion."""
        at = bisect_left(self.before, before)
        if at < len(self.before) and self.before[at] == before:
            return self.waits[at]
        if at == 0:
            return self.waits[0] * (before + gpus) / (self.before[0] + gpus)
        if at == len(self.before):
            return self.waits[-1] * (before + gpus) / (self.before[-1] + gpus)
        low, high = self.before[at - 1], self.before[at]
        return self.waits[at - 1] + (self.waits[at] - self.waits[at - 1]) * (before - low) / (high - low)


@dataclass(frozen=True, slots=True)
class KeptWaits:
    """The waits of one gang in futures that were made before; None where it did not start."""

    before: int
    waits: Sequence[float | None]


def read_waits(kept: Sequence[KeptWaits], before: int, gpus: int) -> list[float]:
    """The waits of work with these GPUs before it, in each of the futures. `kept`: at least one gang of its queue."""
    ordered = sorted(kept, key=lambda gang: gang.before)
    return [_read_one(ordered, number, before, gpus) for number in range(min(len(gang.waits) for gang in ordered))]


def _read_one(ordered: Sequence[KeptWaits], number: int, before: int, gpus: int) -> float:
    line = Line([], [])
    for gang in ordered:
        wait = gang.waits[number]
        if wait is None:
            if before > (line.before[-1] if line.before else -1):
                return NEVER
            break
        line.add(gang.before, wait)
    return min(line.wait(before, gpus), NEVER)


def is_like(new: GangFacts, other: GangFacts) -> bool:
    """Whether new work waits like another gang that has as many GPUs before it: it is as large and may be preempted as
    that one, it may use the same flavors, it does not come before it, and no task of it needs more of a resource, or
    other nodes."""
    if (new.queue, new.preemptible, new.tree is None) != (other.queue, other.preemptible, other.tree is None):
        return False
    if other.priority < new.priority or size_class(gang_gpus(new)) != size_class(gang_gpus(other)):
        return False
    if _flavors(new) != _flavors(other):
        return False
    if any(task.allowed_nodes not in {each.allowed_nodes for each in other.tasks} for task in new.tasks):
        return False
    most = _largest(other)
    return all(amount <= most.get(key, 0) for key, amount in _largest(new).items())


def _flavors(gang: GangFacts) -> set[frozenset[str]]:
    """The keys of the GPUs of each of its choices."""
    return {frozenset(key for task in tasks for key in task.request if is_gpu(key)) for tasks in gang.choices}


def gang_gpus(gang: GangFacts) -> int:
    """The GPUs of all tasks."""
    return int(sum(gpus_in(task.request) for task in gang.tasks))


def _largest(gang: GangFacts) -> Mapping[str, Number]:
    """The largest request of a task, for each resource."""
    most: dict[str, Number] = {}
    for task in gang.tasks:
        for key, amount in task.request.items():
            most[key] = max(amount, most.get(key, 0))
    return most
