"""The GPU flavor of a gang that goes to a cluster, from the room on nodes of each flavor, as far as nodes are known.

The scheduler of a cluster knows no flavors, so the choice is made here, by the rules of the engine (design, K8).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduling.domain.engine.facts import WhenCanBorrow, WhenCanPreempt

Places = tuple[tuple[str, int, int], ...]
"""The flavor, the free GPUs of a node, and the GPUs that a task takes of them, for each task."""


@dataclass(frozen=True, slots=True)
class FlavorChance:
    """What a gang finds in one of its choices, whose quotas and limits let it start: whether it stays inside the quota
    of its leaf, and whether nodes have room for it, as they are or without the LOW work that would leave them."""

    is_inside_quota: bool
    has_room: bool
    could_have_room: bool

    @property
    def why_passed(self) -> str:
        """Why a gang got a later choice, in a few words."""
        if not self.has_room:
            return "no node had room for it" if not self.could_have_room else "other work would have had to leave"
        return "it would have borrowed there"


def choose_flavor(
    chances: Sequence[FlavorChance], when_can_borrow: WhenCanBorrow, when_can_preempt: WhenCanPreempt
) -> int:
    """The place of the choice that a gang gets: the first with room, else the first where other work can make room,
    else the first. With `when_can_borrow: next` those inside the quota come first; with `when_can_preempt: preempt`
    room that other work makes is room."""
    places = list(range(len(chances)))
    if when_can_borrow == WhenCanBorrow.NEXT:
        places.sort(key=lambda n: not chances[n].is_inside_quota)
    with_room = [n for n in places if chances[n].has_room]
    could = [n for n in places if chances[n].has_room or chances[n].could_have_room]
    if when_can_preempt == WhenCanPreempt.PREEMPT:
        with_room = could
    return (with_room or could or places)[0]


class FlavorRoom:
    """Free GPUs by node. A task needs all of its GPUs on one node; tasks with many GPUs are placed first, each on the
    fullest node that has room for it."""

    def __init__(self, nodes: Iterable[tuple[str, int]]) -> None:
        """`nodes` has the flavor and the free GPUs of each node."""
        self._nodes: defaultdict[str, Counter[int]] = defaultdict(Counter)
        """By flavor: the number of nodes by their free GPUs."""
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
