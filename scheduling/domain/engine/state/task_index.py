"""The waiting and the running tasks of one gang, leaf by leaf, in the order of the spec.

The next task to start is at one end and the first to be given up at the other, so that a gang of many thousand elastic
pods grows and shrinks one by one at constant cost.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from scheduling.domain.engine.state.nodes import Request

_WORD_MASK = 2**64 - 1


class TaskIndex:
    """Tasks are numbers. `waiting_digest` is equal for equal sets of waiting tasks, independent of earlier changes."""

    __slots__ = ("_need_counts", "_running", "_waiting", "waiting_digest")

    def __init__(self, leaves: int) -> None:
        # Waiting tasks are in reverse order, so that the first one leaves from the end.
        self._waiting: list[list[int]] = [[] for _ in range(leaves)]
        self._running: list[list[int]] = [[] for _ in range(leaves)]
        self._need_counts: list[dict[Request, int]] = [{} for _ in range(leaves)]
        self.waiting_digest = 0

    def add_waiting(self, i: int, leaf: int, need: Request) -> None:
        """Add a waiting task."""
        insort(self._waiting[leaf], i, key=_reverse_key)
        self._need_counts[leaf][need] = self._need_counts[leaf].get(need, 0) + 1
        self.waiting_digest ^= _scatter(i)

    def remove_waiting(self, i: int, leaf: int, need: Request) -> None:
        """Remove a waiting task."""
        tasks, counts = self._waiting[leaf], self._need_counts[leaf]
        del tasks[bisect_left(tasks, -i, key=_reverse_key)]
        counts[need] -= 1
        if not counts[need]:
            del counts[need]
        self.waiting_digest ^= _scatter(i)

    def add_running(self, i: int, leaf: int) -> None:
        """Add a running task."""
        insort(self._running[leaf], i)

    def remove_running(self, i: int, leaf: int) -> None:
        """Remove a running task."""
        tasks = self._running[leaf]
        del tasks[bisect_left(tasks, i)]

    def waiting_tasks(self, leaf: int) -> list[int]:
        """All waiting tasks in order."""
        return self._waiting[leaf][::-1]

    def first_waiting(self, leaf: int, count: int) -> list[int]:
        """The first waiting tasks."""
        return self._waiting[leaf][: -count - 1 : -1]

    def last_running(self, leaf: int, count: int) -> list[int]:
        """The last running tasks, in the order of the spec."""
        tasks = self._running[leaf]
        return tasks[max(0, len(tasks) - count) :]

    def has_unlike_waiting(self, leaf: int) -> bool:
        """Whether waiting tasks have different needs."""
        return len(self._need_counts[leaf]) > 1


def _reverse_key(i: int) -> int:
    return -i


def _scatter(i: int) -> int:
    """A number of 64 bits for each task, so that different sets have different digests (the finisher of splitmix64)."""
    x = (i + 1) * 0x9E3779B97F4A7C15 & _WORD_MASK
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _WORD_MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & _WORD_MASK
    return x ^ x >> 31
