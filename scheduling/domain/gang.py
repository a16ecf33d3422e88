"""The tree of a gang: which pods start together, which are surplus, and in which order both start and are given up.

Definitions (design, K6; differences from KAI are named):

* A leaf counts its active pods (running or bound) against `minMember`; an inner group counts its satisfied children
  against `minSubGroup`, or against all of them when that is not set. A group is *satisfied* when its count reaches its
  threshold, and *ready* when it would be if every waiting pod were active.
* Order of children, first served first: those below their threshold, in the order of the spec; then satisfied ones by
  count / threshold, threshold 0 last, ties in the order of the spec.
* Next attempt: below its threshold a group takes **as many** children as it still needs (KAI takes `threshold` many, so
  that an optional replica which cannot be placed holds back one that can). A satisfied group takes the first child that
  yields something: one whole optional child, or one pod.
* Giving up goes step by step: surplus pods, then optional children that are not satisfied, then whole surplus children,
  each from the end of the order; at last all remaining pods at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pools.domain.quota.tree import children_first_order

ROOT = 0
DEFAULT_SUB_GROUP = "default"


@dataclass(frozen=True, slots=True)
class SubGroup:
    """One SubGroup as written. :mod:`scheduling.domain.judgement.podgroup_rules` has checked that names are unique,
    that parents exist, and that there is no cycle."""

    name: str
    parent: str | None = None
    min_member: int | None = None
    min_sub_group: int | None = None


class GangTree:
    """Node 0 is the PodGroup; node i is `groups[i − 1]`. Counts are lists with one number for each node."""

    __slots__ = (
        "_children_first", "children", "has_optional_children", "index", "is_single_leaf", "names", "parents",
        "thresholds",
    )  # fmt: skip

    def __init__(
        self, min_member: int | None = None, min_sub_group: int | None = None, groups: Sequence[SubGroup] = ()
    ) -> None:
        """A missing minimum means all children of an inner group, 1 pod of a PodGroup without groups, and else none."""
        self.names = [DEFAULT_SUB_GROUP, *(group.name for group in groups)]
        self.index = {group.name: x for x, group in enumerate(groups, start=1)}
        self.parents = [-1, *(ROOT if group.parent is None else self.index[group.parent] for group in groups)]
        self.children: list[list[int]] = [[] for _ in self.names]
        for x, parent in enumerate(self.parents[1:], start=1):
            self.children[parent].append(x)
        if not groups:
            self.index = {DEFAULT_SUB_GROUP: ROOT}
            min_member = 1 if min_member is None else min_member
        members = [min_member, *(group.min_member for group in groups)]
        sub_groups = [min_sub_group, *(group.min_sub_group for group in groups)]
        self.thresholds = [
            self._threshold(x, member, sub_group)
            for x, (member, sub_group) in enumerate(zip(members, sub_groups, strict=True))
        ]
        self._children_first = children_first_order(self.parents)[0]
        self.has_optional_children = any(
            self.thresholds[x] < len(below) for x, below in enumerate(self.children) if below
        )
        """Whether some group needs fewer than all of its children."""
        self.is_single_leaf = len(self.names) == 1
        """Whether it is a PodGroup without groups: the root is its only leaf."""

    def _threshold(self, x: int, min_member: int | None, min_sub_group: int | None) -> int:
        if not self.children[x]:
            return max(0, min_member or 0)
        return len(self.children[x]) if min_sub_group is None else max(0, min_sub_group)

    def is_leaf(self, x: int) -> bool:
        """Whether pods belong to it."""
        return not self.children[x]

    def counts(self, pods: Sequence[int]) -> list[int]:
        """For each node its count (compared with its threshold), given the pods of each leaf."""
        counts = list(pods)
        for x in self._children_first:
            if self.children[x]:
                counts[x] = sum(counts[child] >= self.thresholds[child] for child in self.children[x])
        return counts

    def leaf_of(self, sub_group: str) -> int:
        """The leaf of a pod, by the SubGroup name in its row; the empty name means the only leaf of a plain gang."""
        return self.index[sub_group or DEFAULT_SUB_GROUP]

    def is_satisfied(self, pods: Sequence[int]) -> bool:
        """Whether the PodGroup has its minimum with these pods."""
        if len(self.names) == 1:
            return pods[ROOT] >= self.thresholds[ROOT]
        return self.counts(pods)[ROOT] >= self.thresholds[ROOT]

    def serving_order(self, x: int, counts: Sequence[int]) -> list[int]:
        """The children of x, first served first. Quotients of counts below 2²⁶ are equal only if the fractions are."""

        def key(child: int) -> tuple[int, float, int]:
            threshold, count = self.thresholds[child], counts[child]
            if count < threshold:
                return 0, 0, child
            return (1, count / threshold, child) if threshold else (2, count, child)

        return sorted(self.children[x], key=key)

    def needed_children(self, x: int, counts: Sequence[int], ready: Sequence[int]) -> list[int]:
        """The children that x needs now to reach its threshold; children that can be satisfied come first."""
        missing = self.thresholds[x] - counts[x]
        if missing <= 0:
            return []
        below = [child for child in self.serving_order(x, counts) if counts[child] < self.thresholds[child]]
        below.sort(key=lambda child: ready[child] < self.thresholds[child])
        return below[:missing]

    def min_pods(self, x: int = ROOT) -> int:
        """The pods that a new gang needs to run at all, and never gives up singly: 10 in the training-job of
        docs/elastic-gangs.md."""
        if self.is_leaf(x):
            return self.thresholds[x]
        return sum(self.min_pods(child) for child in self.children[x][: self.thresholds[x]])

    def min_amount(self, amounts: Mapping[int, int], x: int = ROOT) -> int:
        """The least amount that satisfies the gang; `amounts` is the request of one pod of each leaf."""
        if self.is_leaf(x):
            return self.thresholds[x] * amounts.get(x, 0)
        return sum(sorted(self.min_amount(amounts, child) for child in self.children[x])[: self.thresholds[x]])

    def give_up_step(self, active: Sequence[int], completed: Sequence[int] | None = None) -> list[tuple[int, int]]:
        """The next step of giving up: (leaf, number of its active pods) pairs. Empty when nothing is active. Pods that
        have `completed` count for the minimums and cannot be given up."""
        counts = self.counts(active if completed is None else [a + c for a, c in zip(active, completed, strict=True)])
        if counts[ROOT] >= self.thresholds[ROOT] and (step := self._surplus(ROOT, active, counts)):
            return step
        return self._all_active_pods(ROOT, active)

    def _surplus(self, x: int, active: Sequence[int], counts: Sequence[int]) -> list[tuple[int, int]]:
        """The least preferred pods that x, which is satisfied, can lose and stay satisfied."""
        if self.is_leaf(x):
            return [(x, 1)] if active[x] and counts[x] > self.thresholds[x] else []
        order = self.serving_order(x, counts)
        order.reverse()
        kept = [child for child in order if counts[child] >= self.thresholds[child]]
        for child in kept:
            if step := self._surplus(child, active, counts):
                return step
        for child in order:
            if counts[child] < self.thresholds[child] and (step := self._all_active_pods(child, active)):
                return step
        if len(kept) > self.thresholds[x]:
            for child in kept:
                if step := self._all_active_pods(child, active):
                    return step
        return []

    def _all_active_pods(self, x: int, active: Sequence[int]) -> list[tuple[int, int]]:
        if self.is_leaf(x):
            return [(x, active[x])] if active[x] else []
        return [part for child in reversed(self.children[x]) for part in self._all_active_pods(child, active)]


def tree_to_json(min_member: int | None, min_sub_group: int | None, groups: Sequence[SubGroup]) -> dict[str, Any]:
    """The tree as a row stores it: the fields as written, and nothing that follows from them.

    `{"min_member": n}` for a tree of one leaf; else `{"min_sub_group": n, "sub_groups": [{"name", "parent",
    "min_member", "min_sub_group"}]}`. A missing minimum or parent is left out. So is the `min_member` of a group with
    children (0, or ignored), which some clusters refuse. The keys are those of `gang` in a scenario
    file.
    """
    if not groups:
        return _without_none({"min_member": min_member})
    parents = {group.parent for group in groups}
    return _without_none({"min_sub_group": min_sub_group}) | {
        "sub_groups": [
            _without_none(
                {
                    "name": group.name,
                    "parent": group.parent,
                    "min_member": None if group.name in parents else group.min_member,
                    "min_sub_group": group.min_sub_group,
                }
            )
            for group in groups
        ]
    }


def _without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def tree_from_json(tree: Mapping[str, Any] | None, pods: int) -> GangTree:
    """The tree from :func:`tree_to_json`; None gives the tree of a gang whose `pods` start together or not at all."""
    if tree is None:
        return GangTree(pods)
    groups = [
        SubGroup(sub["name"], sub.get("parent"), sub.get("min_member"), sub.get("min_sub_group"))
        for sub in tree.get("sub_groups", ())
    ]
    return GangTree(tree.get("min_member"), tree.get("min_sub_group"), groups)


class Growth:
    """One attempt to start the next pods of a gang, all or nothing. An optional child that does not fit is skipped for
    the next one. If too few children fit, a second attempt takes the cheapest children first: of children with 4, 3 and
    1 GPUs, two fit into 4 GPUs that way.

    `place(leaf, n)` tries to place n more waiting pods of a leaf and returns whether that succeeded; `mark()` and
    `undo(mark)` undo all placements since. A caller that only needs the structure lets `place` always succeed.
    `cost(leaf, n)`: the least request of n more pods of the leaf, scarcest resource first; without it there is only one
    attempt.
    """

    def __init__(
        self,
        tree: GangTree,
        active: Sequence[int],
        waiting: Sequence[int],
        place: Callable[[int, int], bool],
        *,
        mark: Callable[[], int] = lambda: 0,
        undo: Callable[[int], object] = lambda _mark: None,
        cost: Callable[[int, int], Sequence[int | Fraction]] | None = None,
    ) -> None:
        self.tree, self.active, self.waiting = tree, active, waiting
        self.place, self.mark, self.undo, self.cost = place, mark, undo, cost
        self._costs: dict[int, list[int | Fraction]] | None = None
        """The costs of groups, filled by the attempt with the cheapest children first; None before."""
        self.counts = tree.counts(active)
        self.ready = tree.counts([a + w for a, w in zip(active, waiting, strict=True)])

    @property
    def is_satisfied(self) -> bool:
        """Whether the gang already has its minimum, so that the attempt is for surplus pods."""
        return self.counts[ROOT] >= self.tree.thresholds[ROOT]

    @property
    def is_possible(self) -> bool:
        """Whether enough pods exist for the minimum of the gang."""
        return self.ready[ROOT] >= self.tree.thresholds[ROOT]

    def attempt(self) -> bool:
        """Place the next pods. Returns False, with nothing placed, when they do not fit or there are none."""
        return self._next() or (self.cost is not None and self.tree.has_optional_children and self.attempt_cheapest())

    def attempt_cheapest(self) -> bool:
        """The same attempt with the cheapest children first."""
        self._costs = {}
        return self._next()

    def _next(self) -> bool:
        if self.is_satisfied:
            return self._extend(ROOT)
        return self.is_possible and self._try_satisfy(ROOT)

    def _try_satisfy(self, x: int) -> bool:
        before = self.mark()
        if self._satisfy(x):
            return True
        self.undo(before)
        return False

    def _satisfy(self, x: int) -> bool:
        tree = self.tree
        missing = tree.thresholds[x] - self.counts[x]
        if tree.is_leaf(x):
            return missing <= self.waiting[x] and self.place(x, missing)
        children = [
            child for child in tree.serving_order(x, self.counts) if self._is_below(child) and self._can_satisfy(child)
        ]
        if self._costs is not None:
            children.sort(key=self._cost_of)
        for child in children:
            if missing <= 0:
                break
            if self._try_satisfy(child):
                missing -= 1
        return missing <= 0

    def _cost_of(self, x: int) -> list[int | Fraction]:
        """The least cost that would satisfy x, which can be satisfied."""
        if self._costs is None or self.cost is None:
            return []
        known = self._costs.get(x)
        if known is None:
            missing = self.tree.thresholds[x] - self.counts[x]
            if self.tree.is_leaf(x):
                known = list(self.cost(x, missing))
            else:
                below = [child for child in self.tree.children[x] if self._is_below(child) and self._can_satisfy(child)]
                known = [sum(parts) for parts in zip(*sorted(map(self._cost_of, below))[:missing], strict=True)]
            self._costs[x] = known
        return known

    def _extend(self, x: int) -> bool:
        tree = self.tree
        if tree.is_leaf(x):
            return self.waiting[x] > 0 and self.place(x, 1)
        return any(
            (self._can_satisfy(child) and self._try_satisfy(child)) if self._is_below(child) else self._extend(child)
            for child in tree.serving_order(x, self.counts)
        )

    def _is_below(self, x: int) -> bool:
        return self.counts[x] < self.tree.thresholds[x]

    def _can_satisfy(self, x: int) -> bool:
        return self.ready[x] >= self.tree.thresholds[x]
