"""A changed copy of a tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pools.domain.quota.tree import QuotaNode, QuotaTree
from pools.domain.values.amounts import Number


def changed_tree(
    tree: QuotaTree,
    *nodes: QuotaNode,
    removed: Iterable[str] = (),
    usage: Mapping[str, Mapping[str, Number]] | None = None,
) -> QuotaTree:
    """The tree after these nodes are added or replaced and others removed; children of a removed node become roots.

    `usage` replaces the usage of the named nodes. The usage of a removed node is removed with it.
    """
    gone = set(removed)
    kept = {name: node for name, node in tree.nodes.items() if name not in gone}
    kept.update({node.name: node for node in nodes})
    orphaned = [
        replace(node, parent=None) if node.parent in gone and node.parent not in kept else node
        for node in kept.values()
    ]
    return QuotaTree(orphaned, {**tree._usage, **(usage or {})})
