"""Debts after a change of quotas or of the tree's shape: nodes that use more than their limits now allow (design, D12).

Such a change evicts no work; pages show the debt, and it shrinks as work ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from pools.domain.quota.forest import display_name
from pools.domain.quota.tree import QuotaTree
from pools.domain.values.amounts import Amount, amounts_text


@dataclass(frozen=True, slots=True)
class Debt:
    """The usage of a node beyond its limits, before and after a change; `node` is its key in the tree."""

    node: str
    key: str
    before: Amount
    after: Amount


def all_debts(tree: QuotaTree) -> Iterator[tuple[str, str, Amount]]:
    """(node, flavor/resource, amount) of every debt."""
    for key in tree.keys:
        column = tree.columns[key]
        for x, name in enumerate(tree.names):
            debt = column.debt(x)
            if debt > 0:
                yield name, key, debt


def changed_debts(before: QuotaTree, after: QuotaTree) -> list[Debt]:
    """Every debt that a change creates, increases, reduces or ends, by node."""
    old = {(node, key): amount for node, key, amount in all_debts(before)}
    new = {(node, key): amount for node, key, amount in all_debts(after)}
    return [
        Debt(node, key, old.get((node, key), 0), new.get((node, key), 0))
        for node, key in sorted(old | new)
        if old.get((node, key), 0) != new.get((node, key), 0)
    ]


def new_debts(before: QuotaTree, after: QuotaTree) -> list[Debt]:
    """The debts that a change creates or increases."""
    return [debt for debt in changed_debts(before, after) if debt.after > debt.before]


def debt_message(debt: Debt, parts: Collection[str] = ()) -> str:
    """The message about a debt, for use before and after the change. `parts` are the flavors that count parts of shared
    GPUs."""
    amount = amounts_text({debt.key: debt.after}, parts)
    return (
        f"{display_name(debt.node)} uses {amount} beyond its limits: nothing is stopped, work that ends pays it back."
    )
