"""The room for gangs on nodes of each GPU flavor, as far as nodes are known."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

Places = tuple[tuple[str, int, int], ...]
"""The flavor, the free GPUs of a node, and the GPUs that a task takes of them, for each task."""


class FlavorRoom:
    """Free GPUs by node. A task needs all of its GPUs on one node; tasks with many GPUs are placed first, each on the
    fullest node that has room for it."""

    def __init__(self, nodes: Iterable[tuple[str, int]]) -> None:
        """`nodes` has the flavor and the free GPUs of each node."""
        self._nodes: defaultdict[str, Counter[int]] = defaultdict(Counter)
        """By flavor: the number of nodes with so many free GPUs."""
        for flavor, free in nodes:
            self._nodes[flavor][free] += 1

    def find(self, tasks: Iterable[tuple[str, int]]) -> Places | None:
        """Places for tasks, each given by its flavor and its GPUs, or None if they do not fit together."""
        found: list[tuple[str, int, int]] = []
        for flavor, gpus in sorted(tasks, key=lambda task: -task[1]):
            nodes = self._nodes[flavor]
            free = min((each for each, number in nodes.items() if number and each >= gpus), default=None)
            if free is None:
                self.release(found)
                return None
            self._move(flavor, free, free - gpus)
            found.append((flavor, free, gpus))
        self.release(found)
        return tuple(found)

    def take(self, places: Places) -> None:
        """Fill these places."""
        for flavor, free, gpus in places:
            self._move(flavor, free, free - gpus)

    def release(self, places: Sequence[tuple[str, int, int]]) -> None:
        """Free these places, the last one first."""
        for flavor, free, gpus in reversed(places):
            self._move(flavor, free - gpus, free)

    def _move(self, flavor: str, old: int, new: int) -> None:
        self._nodes[flavor][old] -= 1
        self._nodes[flavor][new] += 1
