"""The nodes of the cohort trees whose numbers a change moves: the pool or cohort itself, and its neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from pools.domain.quota.node_numbers import NodeNumbers, node_numbers
from pools.domain.quota.tree import QuotaTree
from pools.domain.values.amounts import Amount

COMPARED_NUMBERS = (
    "subtree_quota",
    "available",
    "potential_available",
    "borrowed",
    "lent",
    "lendable",
    "debt",
)


@dataclass(frozen=True, slots=True)
class NumberChange:
    """A number before and after; None where the node is not in a cohort tree."""

    before: Amount | None
    after: Amount | None


@dataclass(frozen=True, slots=True)
class NeighbourEffect:
    """The numbers of one (flavor, resource) of a node that differ, by their names in `COMPARED_NUMBERS`. `node` is the
    key of the node in the tree."""

    node: str
    key: str
    numbers: Mapping[str, NumberChange]


def neighbour_effects(before: QuotaTree, after: QuotaTree) -> list[NeighbourEffect]:
    """Every node of either tree with a number that differs, in the order of the names."""
    found: list[NeighbourEffect] = []
    for key in sorted({*before.keys, *after.keys}):
        old, new = _numbers(before, key), _numbers(after, key)
        for node in sorted({*old, *new}):
            was, becomes = _as_mapping(old.get(node)), _as_mapping(new.get(node))
            changed = {
                number: NumberChange(was.get(number), becomes.get(number))
                for number in COMPARED_NUMBERS
                if was.get(number) != becomes.get(number)
            }
            if changed:
                found.append(NeighbourEffect(node, key, changed))
    return found


def _numbers(tree: QuotaTree, key: str) -> Mapping[str, NodeNumbers]:
    return node_numbers(tree, key) if key in tree.columns else {}


def _as_mapping(numbers: NodeNumbers | None) -> Mapping[str, Amount]:
    return {} if numbers is None else asdict(numbers)
