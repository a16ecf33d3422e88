"""The tasks of one gang that wait and that run, leaf by leaf, in the order of the spec.

The next to start stands at one end and the first to be given up at the other, so that a gang of many thousand elastic
pods grows and shrinks one by one at no cost for each but its own.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from scheduling.domain.engine.nodes import Request

_WORD_MASK = 2**64 - 1


class TaskIndex:
    """Tasks are numbers. `waits` is a digest of who waits: equal for equal sets, whatever way led there."""

    __slots__ = ("_kinds", "_running", "_waiting", "waits")

    def __init__(self, leaves: int) -> None:
        # Waiting tasks stand backwards, so that the first one leaves from the end.
        self._waiting: list[list[int]] = [[] for _ in range(leaves)]
        self._running: list[list[int]] = [[] for _ in range(leaves)]
        self._kinds: list[dict[Request, int]] = [{} for _ in range(leaves)]
        self.waits = 0

    def add_waiting(self, i: int, leaf: int, need: Request) -> None:
        """A task waits from now on."""
        insort(self._waiting[leaf], i, key=_reverse_key)
        self._kinds[leaf][need] = self._kinds[leaf].get(need, 0) + 1
        self.waits ^= _scatter(i)

    def remove_waiting(self, i: int, leaf: int, need: Request) -> None:
        """A task waits no more."""
        line, kinds = self._waiting[leaf], self._kinds[leaf]
        del line[bisect_left(line, -i, key=_reverse_key)]
        kinds[need] -= 1
        if not kinds[need]:
            del kinds[need]
        self.waits ^= _scatter(i)

    def add_running(self, i: int, leaf: int) -> None:
        """A task runs from now on."""
        insort(self._running[leaf], i)

    def remove_running(self, i: int, leaf: int) -> None:
        """A task runs no more."""
        line = self._running[leaf]
        del line[bisect_left(line, i)]

    def waiting_tasks(self, leaf: int) -> list[int]:
        """All that wait, first in line first."""
        return self._waiting[leaf][::-1]

    def first_waiting(self, leaf: int, count: int) -> list[int]:
        """The first in line."""
        return self._waiting[leaf][: -count - 1 : -1]

    def last_running(self, leaf: int, count: int) -> list[int]:
        """The last that run, in the order of the spec."""
        line = self._running[leaf]
        return line[max(0, len(line) - count) :]

    def has_unlike_waiting(self, leaf: int) -> bool:
        """Whether those that wait need unlike things."""
        return len(self._kinds[leaf]) > 1


def _reverse_key(i: int) -> int:
    return -i


def _scatter(i: int) -> int:
    """A number of 64 bits for each task, so that sets of them have unlike sums (the finisher of splitmix64)."""
    x = (i + 1) * 0x9E3779B97F4A7C15 & _WORD_MASK
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _WORD_MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & _WORD_MASK
    return x ^ x >> 31
