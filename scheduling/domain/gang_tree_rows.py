"""The tree of a gang as people are shown it: for each SubGroup what it needs, what it has, and what is optional."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduling.domain.gang import ROOT, GangTree


@dataclass(frozen=True, slots=True)
class GangTreeRow:
    """One node. It needs `threshold` of its `size` children, or of its pods where it is a `leaf`, and has `count`.

    `optional`: the node above holds its minimum, or can come to hold it, without this one. Of equals those later in
    the spec are the optional ones; a SubGroup that has its minimum is needed before one that has not.
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
        """Whether it has its minimum."""
        return self.count >= self.threshold

    @property
    def spare(self) -> int:
        """How many of its children, or pods, it can do without."""
        return max(0, self.size - self.threshold)


def gang_tree_rows(tree: GangTree, name: str, active: Mapping[int, int], pods: Mapping[int, int]) -> list[GangTreeRow]:
    """The rows of a tree, each node before those below it, in the order of the spec; the first is the gang's own.

    `active` and `pods` are by leaf: its pods that run or have done their part, and all it has.
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


def gang_body(rows: Sequence[GangTreeRow]) -> dict[str, Any] | None:
    """The rows as programs are told them: the gang's own numbers, and `sub_groups` in their order; None of no rows."""
    if not rows:
        return None
    whole, *below = rows
    sub_groups = [{"name": row.name, "parent": row.parent, **_numbers(row), "optional": row.optional} for row in below]
    return {**_numbers(whole), "sub_groups": sub_groups}


def _numbers(row: GangTreeRow) -> dict[str, Any]:
    return {"threshold": row.threshold, "count": row.count, "size": row.size, "satisfied": row.satisfied}


def _spare(tree: GangTree, x: int, counts: Sequence[int]) -> set[int]:
    """The children that x can do without: all but the first as many as it needs, satisfied ones first."""
    satisfied_first = sorted(tree.serving_order(x, counts), key=lambda child: counts[child] < tree.thresholds[child])
    return set(satisfied_first[tree.thresholds[x] :])
