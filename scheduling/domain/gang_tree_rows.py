"""The tree of a gang for pages and answers: for each SubGroup its minimum, its count, and whether it is optional."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from scheduling.domain.gang import ROOT, GangTree


@dataclass(frozen=True, slots=True)
class GangTreeRow:
    """One node. It needs `threshold` of its `size` children (of its pods where it is a `leaf`) and has `count`.

    `optional`: the parent has its minimum, or can reach it, without this node. Of equal nodes the later ones of the
    spec are optional; a SubGroup with its minimum is needed before one without.
    """

    name: str
    parent: str | None
    level: int
    leaf: bool
    threshold: int
    count: int
    size: int
    optional: bool

    @property
    def satisfied(self) -> bool:
        """Whether the node has its minimum."""
        return self.count >= self.threshold

    @property
    def spare(self) -> int:
        """The number of its children, or pods, that are not needed."""
        return max(0, self.size - self.threshold)


def gang_tree_rows(tree: GangTree, name: str, active: Mapping[int, int], pods: Mapping[int, int]) -> list[GangTreeRow]:
    """The rows of a tree, each node before those below it, in the order of the spec; the first is the gang's own.

    `active` and `pods` are by leaf: the number of its pods that run or have completed, and of all its pods.
    """
    counts = tree.counts([active.get(x, 0) for x in range(len(tree.names))])
    rows = []
    stack: list[tuple[int, int, bool]] = [(ROOT, 0, False)]
    while stack:
        x, level, optional = stack.pop()
        parent = tree.parents[x]
        rows.append(
            GangTreeRow(
                name=tree.names[x] if x != ROOT else name,
                parent=tree.names[parent] if parent > ROOT else None,
                level=level,
                leaf=tree.is_leaf(x),
                threshold=tree.thresholds[x],
                count=counts[x],
                size=pods.get(x, 0) if tree.is_leaf(x) else len(tree.children[x]),
                optional=optional,
            )
        )
        spare = _spare(tree, x, counts)
        stack += [(child, level + 1, child in spare) for child in reversed(tree.children[x])]
    return rows


class MinimumAnswer(TypedDict):
    """A minimum and how far it is met: `threshold` of the `size` children (pods of a leaf) are needed."""

    threshold: int
    count: int
    size: int
    satisfied: bool


class SubGroupAnswer(MinimumAnswer):
    """A SubGroup of a gang; an optional one is not needed by its parent."""

    name: str
    parent: str | None
    optional: bool


class GangAnswer(MinimumAnswer):
    """The minimums of a gang."""

    sub_groups: list[SubGroupAnswer]


def gang_body(rows: Sequence[GangTreeRow]) -> GangAnswer | None:
    """The JSON body: the gang's own numbers, and `sub_groups` in their order. None if there are no rows."""
    if not rows:
        return None
    whole, *below = rows
    sub_groups: list[SubGroupAnswer] = [
        {"name": row.name, "parent": row.parent, **_numbers(row), "optional": row.optional} for row in below
    ]
    return {**_numbers(whole), "sub_groups": sub_groups}


def _numbers(row: GangTreeRow) -> MinimumAnswer:
    return {"threshold": row.threshold, "count": row.count, "size": row.size, "satisfied": row.satisfied}


def _spare(tree: GangTree, x: int, counts: Sequence[int]) -> set[int]:
    """The children that x does not need: all but the first `threshold` many, satisfied children first."""
    satisfied_first = sorted(tree.serving_order(x, counts), key=lambda child: counts[child] < tree.thresholds[child])
    return set(satisfied_first[tree.thresholds[x] :])
