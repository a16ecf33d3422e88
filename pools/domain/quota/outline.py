"""The quota tree as an outline: every node once, parents before their children; and selections from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pools.domain import names
from pools.domain.quota.forest import CohortQuotaFacts, PoolQuotaFacts, cohort_key, display_name, pool_key
from pools.domain.quota.tree import QuotaTree
from pools.domain.values.amounts import UNLIMITED, Gpus


class NodeKind(StrEnum):
    """The kinds of nodes of the tree."""

    COHORT = "cohort"
    POOL = "pool"
    SHARED = "shared"
    SUBPOOL = "subpool"


@dataclass(frozen=True, slots=True)
class OutlineNode:
    """One node of the outline. `key` and `parent` are keys of the tree, `name` is the displayed name; `maximum` is that
    of a pool, in GPUs.

    `is_in_cohort_tree`: the node is a cohort or is below one, so that limits of the tree apply to it. `is_explicit` is
    False for a cohort that is only named by others and has no configuration.
    """

    key: str
    name: str
    kind: NodeKind
    parent: str | None
    depth: int
    is_in_cohort_tree: bool
    is_explicit: bool = True
    maximum: Gpus = UNLIMITED

    @property
    def label(self) -> str:
        """Its name below its parent."""
        return names.REMAINDER_LABEL if self.kind is NodeKind.SHARED else self.name

    @property
    def title(self) -> str:
        """Its name alone."""
        return names.readable_name(self.name)


Outline = Sequence[OutlineNode]


def build_outline(
    tree: QuotaTree,
    cohorts: Sequence[CohortQuotaFacts],
    pools: Sequence[PoolQuotaFacts],
    *,
    implicit_cohorts: Collection[str] = (),
) -> Outline:
    """All nodes in the order of the facts: a cohort, its cohorts, its pools, their leaves. Nodes on a cycle, or below
    one, are at the top. `implicit_cohorts` are names of cohorts without a configuration."""
    kinds = {cohort_key(cohort.name): NodeKind.COHORT for cohort in cohorts}
    implicit = {cohort_key(name) for name in implicit_cohorts}
    maxima = {}
    for pool in pools:
        kinds[pool_key(pool.name)], maxima[pool_key(pool.name)] = NodeKind.POOL, pool.maximum
        for leaf in pool.leaves:
            is_shared = leaf.name.endswith(names.SEPARATOR + names.SHARED_QUEUE)
            kinds[pool_key(leaf.name)] = NodeKind.SHARED if is_shared else NodeKind.SUBPOOL
    below: dict[int, list[str]] = defaultdict(list)
    for key in kinds:
        below[tree.parents[tree.index[key]]].append(key)
    nodes: list[OutlineNode] = []
    stack = [(key, 0, False) for key in reversed(below[-1])]
    while stack:
        key, depth, in_cohort_tree = stack.pop()
        parent = tree.nodes[key].parent
        in_cohort_tree = in_cohort_tree or NodeKind.COHORT in {kinds[key], kinds.get(parent or "")}
        nodes.append(
            OutlineNode(
                key,
                display_name(key),
                kinds[key],
                parent,
                depth,
                in_cohort_tree,
                key not in implicit,
                maxima.get(key, UNLIMITED),
            )
        )
        stack += [(child, depth + 1, in_cohort_tree) for child in reversed(below[tree.index[key]])]
    return nodes


def keep_with_ancestors(tree: QuotaTree, nodes: Outline, pools: Collection[str]) -> Outline:
    """Only these pools with their leaves and all their ancestors; `pools` are keys of the tree."""
    kept = {node.key for node in nodes if node.key in pools or node.parent in pools}
    for key in pools:
        x = tree.index.get(key, -1)
        while x >= 0:
            kept.add(tree.names[x])
            x = tree.parents[x]
    return [node for node in nodes if node.key in kept]


def keep_subtree(nodes: Outline, root: str) -> Outline:
    """Only this node and all nodes below it; empty if the node is not in the outline."""
    kept: set[str] = set()
    for node in nodes:  # parents come before their children
        if node.key == root or node.parent in kept:
            kept.add(node.key)
    return [node for node in nodes if node.key in kept]
