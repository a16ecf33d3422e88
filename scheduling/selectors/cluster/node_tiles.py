"""The map of nodes as tiles: one cell for each GPU, coloured by the pool, user or priority of the work on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from zlib import crc32

from pools.domain.names import split_name
from scheduling.domain.priorities import Priority
from scheduling.selectors.cluster.node_map import MappedNode, NodeWork

HUES = 8
"""Colours that people can tell apart; the smaller users of a cluster share one more."""
OTHERS = "hue-0"


class ColourBy(StrEnum):
    """What the colour of a cell says."""

    POOL = "pool"
    USER = "user"
    PRIORITY = "priority"


@dataclass(frozen=True, slots=True)
class TileShade:
    """An entry of the legend: the class of its cells, its meaning, and the whole GPUs that have it on all shown nodes;
    `parts` are those of nodes that share their GPUs."""

    name: str
    label: str
    gpus: int
    parts: int = 0


@dataclass(frozen=True, slots=True)
class NodeTile:
    """A node with the shade and the number of its cells, in the order of the legend."""

    node: MappedNode
    cells: Sequence[tuple[str, int]]

    @property
    def title(self) -> str:
        """The node in one sentence, for those who do not see the cells."""
        use = self.node.usage
        held = [f"{each.workflow} × {each.gpus}" for each in self.node.work] + self.other_texts
        states = (("suspect", use.failures), ("shared", use.is_shared), (use.state, not use.ready))
        state = "".join(f"{word}; " for word, holds in states if holds)
        return f"{use.name}: {state}{use.free_gpus} of {use.size_text} free{': ' * bool(held)}{', '.join(held)}"

    @property
    def other_texts(self) -> list[str]:
        """The GPUs that no visible workflow uses and that are not free."""
        node = self.node
        amounts = (
            (node.unseen_gpus, "of other pools"),
            (node.usage.ending_gpus, "of pods that end or start"),
            (node.usage.other_gpus, "outside OSMO Admin"),
            (node.closed_gpus, "unusable now"),
        )
        return [f"{gpus} {words}" for gpus, words in amounts if gpus]


@dataclass(frozen=True, slots=True)
class TileMap:
    """The tiles, and the legend of the shades on them."""

    colour_by: ColourBy
    tiles: Sequence[NodeTile]
    legend: Sequence[TileShade]


_PRIORITIES = (
    (Priority.HIGH, "high", "HIGH"),
    (Priority.NORMAL, "inside", "NORMAL"),
    (Priority.LOW, "low", "LOW (preemptible)"),
)
_STATES = (
    ("unseen", "work that you may not see"),
    ("ending", "pods that end or start"),
    ("other", "pods outside OSMO Admin"),
    ("closed", "unusable now"),
    ("free", "free"),
)


def draw_tiles(nodes: Sequence[MappedNode], colour_by: ColourBy, parts: Collection[str] = ()) -> TileMap:
    """The tiles of the nodes, in their order; `parts` are the flavors that count parts of GPUs."""
    held: defaultdict[str, int] = defaultdict(int)
    for node in nodes:
        for work in node.work:
            held[_owner(work, colour_by)] += work.gpus
    if colour_by is ColourBy.PRIORITY:
        shades = {str(priority): shade for priority, shade, _ in _PRIORITIES}
        legend = [(shade, label) for priority, shade, label in _PRIORITIES if held[priority]]
    else:
        shades = choose_hues(held)
        legend = [(shades[name], name) for name in sorted(held) if shades[name] != OTHERS]
        if others := len(held) - len(legend):
            legend.append((OTHERS, f"{others} other{'s' if others > 1 else ''}"))
    order = {shade: place for place, (shade, _) in enumerate((*legend, *_STATES))}
    tiles = [NodeTile(node, _cells(node, colour_by, shades, order)) for node in nodes]
    sums: defaultdict[tuple[str, bool], int] = defaultdict(int)
    for tile in tiles:
        for shade, gpus in tile.cells:
            sums[shade, tile.node.usage.flavor in parts] += gpus
    counted = [TileShade(shade, label, sums[shade, False], sums[shade, True]) for shade, label in (*legend, *_STATES)]
    shown = [shade for shade in counted if shade.gpus or shade.parts]
    return TileMap(colour_by, tiles, shown)


def choose_hues(gpus: Mapping[str, int]) -> dict[str, str]:
    """The shade of each name: the largest have a colour each. A name keeps its colour while the same names are the
    largest, and mostly also when others come and go."""
    largest = sorted(gpus, key=lambda name: (-gpus[name], name))[:HUES]
    left = list(range(HUES))
    found = dict.fromkeys(gpus, OTHERS)
    for name in sorted(largest):
        wanted = crc32(name.encode()) % HUES
        hue = min(left, key=lambda each: (each - wanted) % HUES)
        left.remove(hue)
        found[name] = f"hue-{hue + 1}"
    return found


def _owner(work: NodeWork, colour_by: ColourBy) -> str:
    if colour_by is ColourBy.POOL:
        return split_name(work.pool)[0]
    return work.user if colour_by is ColourBy.USER else work.priority


def _cells(
    node: MappedNode, colour_by: ColourBy, shades: Mapping[str, str], order: Mapping[str, int]
) -> list[tuple[str, int]]:
    amounts: Iterable[tuple[str, int]] = (
        *((shades[_owner(work, colour_by)], work.gpus) for work in node.work),
        ("unseen", node.unseen_gpus),
        ("ending", node.usage.ending_gpus),
        ("other", node.usage.other_gpus),
        ("closed", node.closed_gpus),
        ("free", node.usage.free_gpus),
    )
    rows = sorted((each for each in amounts if each[1] > 0), key=lambda each: order[each[0]])
    return [(shade, sum(gpus for _, gpus in same)) for shade, same in groupby(rows, key=itemgetter(0))]
