"""What a change of quotas or of the tree's shape leaves behind: nodes that use more than their limits now allow (D12).

Nothing is taken from anybody by such a change; the debt is shown, and paid back as work ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pools.domain.amounts import Amount, amounts_text
from pools.domain.quota.forest import display_name
from pools.domain.quota.tree import QuotaTree


@dataclass(frozen=True, slots=True)
class Debt:
    """How far a node is beyond its limits, before and after a change; `node` as the tree calls it."""

    node: str
    key: str
    before: Amount
    after: Amount


def all_debts(tree: QuotaTree) -> Iterator[tuple[str, str, Amount]]:
    """(node, flavor/resource, how much) of everything that is in debt."""
    for key in tree.keys:
        column = tree.columns[key]
        for x, name in enumerate(tree.names):
            owed = column.debt(x)
            if owed > 0:
                yield name, key, owed


def changed_debts(before: QuotaTree, after: QuotaTree) -> list[Debt]:
    """Every debt that a change makes, deepens, lessens or pays, by node."""
    old = {(node, key): owed for node, key, owed in all_debts(before)}
    new = {(node, key): owed for node, key, owed in all_debts(after)}
    return [
        Debt(node, key, old.get((node, key), 0), new.get((node, key), 0))
        for node, key in sorted(old | new)
        if old.get((node, key), 0) != new.get((node, key), 0)
    ]


def new_debts(before: QuotaTree, after: QuotaTree) -> list[Debt]:
    """Those that it makes or deepens."""
    return [debt for debt in changed_debts(before, after) if debt.after > debt.before]


def debt_message(debt: Debt) -> str:
    """For people, before and after the fact."""
    owed = amounts_text({debt.key: debt.after})
    return f"{display_name(debt.node)} uses {owed} beyond its limits: nothing is stopped, work that ends pays it back."
