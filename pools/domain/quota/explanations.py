"""Explanations of the numbers of the quota tree: the terms that each number is computed from.

    available to the node (serve) 10  =  0 unused own quota  +  the least of: 11 available to the parent (prod), ...

The terms of an explanation add up to the number on the page. If a number is the least of several amounts, the
explanation has all of them and marks the deciding ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pools.domain.numbers import TREE_NUMBERS
from pools.domain.quota.node_numbers import node_numbers, weighted_share
from pools.domain.quota.node_totals import NodeTotals
from pools.domain.quota.tree import QuotaTree, ResourceColumn
from pools.domain.values.amounts import UNLIMITED, Amount, Number, resource_of


@dataclass(frozen=True, slots=True)
class ExplanationTerm:
    """One part of a number. `node` and `number` name its source if it is itself a number of a node.

    `least_of`: the term is the least of these parts. `sum_of`: the term is the sum of these parts, at least 0.
    `is_deciding` marks the parts of a `least_of` that are equal to the least.
    """

    amount: Amount
    text: str
    node: str | None = None
    number: str | None = None
    sign: int = 1
    least_of: tuple[ExplanationTerm, ...] = ()
    sum_of: tuple[ExplanationTerm, ...] = ()
    is_deciding: bool = False

    @property
    def signed_amount(self) -> Amount:
        """The amount that the term adds to the number; negative for a subtraction."""
        return self.sign * self.amount if self.amount else 0


NO_NEW_WORK = ExplanationTerm(0, "no new work starts here: it drains, or is in maintenance or offline")


@dataclass(frozen=True, slots=True)
class NumberExplanation:
    """A number and the terms that add up to it. `rule` is its definition; `is_floored`: a sum below 0 counts as 0."""

    number: str
    amount: Amount
    rule: str
    terms: tuple[ExplanationTerm, ...]
    is_floored: bool = False

    @property
    def total(self) -> Amount:
        """The sum of the terms."""
        found = _sum(self.terms)
        return max(0, found) if self.is_floored else found


def explain_node(tree: QuotaTree, key: str, node: str) -> list[NumberExplanation]:
    """Every number of a node; each number comes after the numbers that it follows from. `key`: flavor and resource."""
    explainer = _NodeExplainer(tree, key, tree.index[node])
    return [explain() for explain in explainer.numbers()]


def explain_totals(tree: QuotaTree, key: str, node: str, totals: Mapping[str, NodeTotals]) -> list[NumberExplanation]:
    """The numbers of a node that have everything below it: quota, total in use, and what may start now."""
    x, here = tree.index[node], totals[node]
    children = [name for name in tree.names if tree.nodes[name].parent == node]

    def below(number: str, words: str) -> tuple[ExplanationTerm, ...]:
        return tuple(ExplanationTerm(getattr(totals[name], number), words, name, number) for name in children)

    column = tree.columns[key]
    own_quota = [ExplanationTerm(column.nominal[x], "nominal quota", node, "nominal")] if column.nominal[x] else []
    quota_terms = (*own_quota, *below("quota", "quota")) if children else ()
    own_use = [ExplanationTerm(column.own[x], "work of this node itself")] if column.own[x] or not children else []
    available = node_numbers(tree, key)[node].available

    def start_terms(number: str, at_a_leaf: ExplanationTerm | None) -> tuple[ExplanationTerm, ...]:
        amount = getattr(here, number)
        if children:
            terms = below(number, TREE_NUMBERS[number].term)
            excess = _sum(terms) - amount if amount != UNLIMITED else 0
            return (*terms, ExplanationTerm(excess, "not at the same time", sign=-1)) if excess else terms
        reach = ExplanationTerm(available, TREE_NUMBERS["available"].term, node, "available")
        bounds = [reach, *([at_a_leaf] if at_a_leaf else []), *([NO_NEW_WORK] if here.is_closed else [])]
        if len(bounds) == 1:
            return (reach,)
        least = tuple(replace(each, is_deciding=each.amount == amount) for each in bounds)
        return (ExplanationTerm(amount, "the least of these", least_of=least),)

    return [
        NumberExplanation("quota", here.quota, TREE_NUMBERS["quota"].meaning, quota_terms),
        NumberExplanation(
            "total_usage",
            here.total_usage,
            TREE_NUMBERS["total_usage"].meaning,
            (*own_use, *below("total_usage", "total in use")),
        ),
        NumberExplanation(
            "can_start_now",
            here.can_start_now,
            TREE_NUMBERS["can_start_now"].meaning,
            start_terms("can_start_now", ExplanationTerm(here.guaranteed_free, "guaranteed free")),
        ),
        NumberExplanation(
            "low_can_start_now",
            here.low_can_start_now,
            TREE_NUMBERS["low_can_start_now"].meaning,
            start_terms("low_can_start_now", None),
        ),
    ]


class _NodeExplainer:
    def __init__(self, tree: QuotaTree, key: str, x: int) -> None:
        self._tree, self._key, self._x = tree, key, x
        self._column: ResourceColumn = tree.columns[key]
        self._children = [c for c, parent in enumerate(tree.parents) if parent == x]
        self._parent = tree.parents[x]
        self._all = node_numbers(tree, key)
        self._here = self._all[tree.names[x]]

    def numbers(self) -> Sequence[Callable[[], NumberExplanation]]:
        """For each number the function that explains it."""
        return (
            self._explain_subtree_quota,
            self._explain_usage,
            self._explain_balance,
            self._explain_available,
            self._explain_potential,
            self._explain_borrowed,
            self._explain_lent,
            self._explain_lendable,
            self._explain_debt,
        )

    def _term(
        self, x: int, number: str, amount: Amount, words: str, *, sign: int = 1, decides: bool = False
    ) -> ExplanationTerm:
        return ExplanationTerm(amount, words, self._tree.names[x], number, sign, is_deciding=decides)

    def _explain_subtree_quota(self) -> NumberExplanation:
        column, x = self._column, self._x
        terms = [self._term(x, "nominal", column.nominal[x], "nominal quota")]
        for child in self._children:
            visible, whole = column.visible[child], column.subtree[child]
            words = "effective quota" if visible == whole else "effective quota, capped by the lending limit"
            terms.append(self._term(child, "subtree_quota", visible, words))
        return NumberExplanation(
            "subtree_quota", column.subtree[x], TREE_NUMBERS["subtree_quota"].meaning, tuple(terms)
        )

    def _explain_usage(self) -> NumberExplanation:
        column, x = self._column, self._x
        terms = (
            [ExplanationTerm(column.own[x], "work of this node itself")] if column.own[x] or not self._children else []
        )
        for child in self._children:
            over = max(0, column.usage[child] - column.local[child])
            words = "counted use" if not column.local[child] else "counted use beyond the quota that is not lendable"
            terms.append(self._term(child, "usage", over, words))
        return NumberExplanation(
            "usage",
            column.usage[x],
            "Work of this node plus the use of each child beyond its quota that is not lendable.",
            tuple(terms),
        )

    def _explain_balance(self) -> NumberExplanation:
        terms = [
            self._term(self._x, "subtree_quota", self._here.subtree_quota, "effective quota"),
            self._term(self._x, "usage", self._here.usage, "counted use", sign=-1),
        ]
        return NumberExplanation(
            "t",
            self._here.t,
            TREE_NUMBERS["t"].meaning,
            tuple(terms),
        )

    def _explain_available(self) -> NumberExplanation:
        x, names = self._x, self._tree.names
        rule = TREE_NUMBERS["available"].meaning
        if not self._tree.is_active(names[x]):
            return NumberExplanation("available", 0, "Nothing starts here, because the parents form a cycle.", ())
        if self._parent < 0:
            return NumberExplanation("available", self._here.available, rule, (self._balance_term(),), is_floored=True)
        column = self._column
        own = max(0, column.local[x] - column.usage[x])
        above = self._parent_term()
        terms = [ExplanationTerm(own, "unused quota that is not lendable")] if own else []
        return NumberExplanation("available", self._here.available, rule, (*terms, above), is_floored=True)

    def _balance_term(self) -> ExplanationTerm:
        return self._term(self._x, "t", self._here.t, "balance; the node has no parent")

    def _parent_term(self) -> ExplanationTerm:
        """The amount available from the parent, as far as the borrowing limit of the node allows it."""
        column, x, parent = self._column, self._x, self._parent
        from_parent = column.available(parent)
        limit = column.borrowing[x]
        if limit == UNLIMITED:
            return self._term(parent, "available", from_parent, "available to the parent")
        by_limit = column.visible[x] + limit + min(0, column.local[x] - column.usage[x])
        least = min(from_parent, by_limit)
        return ExplanationTerm(
            least,
            "from the parent: the least of these",
            least_of=(
                self._term(parent, "available", from_parent, "available to the parent", decides=from_parent == least),
                self._term(
                    x,
                    "borrowing_limit",
                    by_limit,
                    "unused lendable quota plus borrowing limit",
                    decides=by_limit == least,
                ),
            ),
        )

    def _explain_potential(self) -> NumberExplanation:
        column, x = self._column, self._x
        rule = TREE_NUMBERS["potential_available"].meaning
        whole = self._here.potential_available
        if self._parent < 0:
            return NumberExplanation(
                "potential_available", whole, rule, (self._term(x, "subtree_quota", whole, "effective quota"),)
            )
        from_parent = column.local[x] + column.potential(self._parent)
        by_limit = column.subtree[x] + column.borrowing[x]
        words = "potential of the parent" + (" plus quota that is not lendable" if column.local[x] else "")
        term = ExplanationTerm(
            whole,
            "the least of these",
            least_of=(
                self._term(self._parent, "potential_available", from_parent, words, decides=from_parent == whole),
                self._term(
                    x, "borrowing_limit", by_limit, "effective quota plus borrowing limit", decides=by_limit == whole
                ),
            ),
        )
        return NumberExplanation("potential_available", whole, rule, (term,))

    def _explain_borrowed(self) -> NumberExplanation:
        terms = [
            self._term(self._x, "usage", self._here.usage, "counted use"),
            self._term(self._x, "subtree_quota", self._here.subtree_quota, "effective quota", sign=-1),
        ]
        return NumberExplanation(
            "borrowed", self._here.borrowed, TREE_NUMBERS["borrowed"].meaning, tuple(terms), is_floored=True
        )

    def _explain_lent(self) -> NumberExplanation:
        rule = (
            f"{TREE_NUMBERS['lent'].meaning} "
            "Borrowers use the quota of the parent first, then the quota of its children in order."
        )
        if self._parent < 0:
            return NumberExplanation("lent", 0, "The node has no parent, so it lends nothing.", ())
        return NumberExplanation("lent", self._here.lent, rule, (self._lending_term(),))

    def _lending_term(self) -> ExplanationTerm:
        """The smaller of the amount that others want to borrow and the unused lendable quota."""
        demand = self._demand_terms()
        wanted, unused = max(0, _sum(demand)), self._unused_lendable()
        return ExplanationTerm(
            self._here.lent,
            "the least of these",
            least_of=(
                ExplanationTerm(wanted, "demand of others", sum_of=demand, is_deciding=wanted <= unused),
                ExplanationTerm(unused, "unused lendable quota", is_deciding=unused <= wanted),
            ),
        )

    def _demand_terms(self) -> tuple[ExplanationTerm, ...]:
        """The amounts that siblings borrow and the parent lends out, minus the amounts that others lend first."""
        names, column, parent = self._tree.names, self._column, self._parent
        above = self._all[names[parent]]
        found = [
            self._term(parent, "lent", above.lent, "lent out by the parent"),
            self._term(parent, "borrowed", above.borrowed, "borrowed by the parent", sign=-1),
            self._term(parent, "nominal", column.nominal[parent], "nominal quota of the parent, used first", sign=-1),
        ]
        for x in (x for x, up in enumerate(self._tree.parents) if up == parent):
            there = self._all[names[x]]
            found.append(self._term(x, "borrowed", there.borrowed, "borrowed by a child of the same parent"))
            if x < self._x:
                found.append(
                    self._term(x, "lent", there.lent, "lent out by an earlier child of the same parent", sign=-1)
                )
        return tuple(term for term in found if term.amount)

    def _unused_lendable(self) -> Amount:
        column, x = self._column, self._x
        return max(0, column.visible[x] - max(0, column.usage[x] - column.local[x]))

    def _explain_lendable(self) -> NumberExplanation:
        rule = TREE_NUMBERS["lendable"].meaning
        if self._parent < 0:
            return NumberExplanation("lendable", 0, "The node has no parent, so it lends nothing.", ())
        terms = (
            ExplanationTerm(self._unused_lendable(), "unused lendable quota"),
            self._term(self._x, "lent", self._here.lent, "lent out", sign=-1),
        )
        return NumberExplanation("lendable", self._here.lendable, rule, terms)

    def _explain_debt(self) -> NumberExplanation:
        column, x = self._column, self._x
        rule = TREE_NUMBERS["debt"].meaning
        allowed = column.borrowing[x] if self._parent >= 0 else 0
        if allowed == UNLIMITED:
            return NumberExplanation("debt", 0, "The node has no borrowing limit.", ())
        terms = (
            self._term(x, "t", column.balance(x), "balance", sign=-1),
            self._term(x, "borrowing_limit", allowed, "borrowing limit", sign=-1),
        )
        return NumberExplanation("debt", self._here.debt, rule, terms, is_floored=True)


def _sum(terms: Sequence[ExplanationTerm]) -> Amount:
    return sum((term.sign * term.amount for term in terms if term.amount), start=0)


@dataclass(frozen=True, slots=True)
class ShareExplanation:
    """`reported` is `borrowed`·1000 / `lendable` / `weight`, rounded up, of the resource with the highest such value.
    `resource` is None if the node borrows nothing; `parent` is None for a root."""

    reported: int | str
    resource: str | None
    borrowed: Amount
    lendable: Amount
    weight: Number
    parent: str | None


def explain_share(tree: QuotaTree, node: str) -> ShareExplanation:
    """The weighted share of a node with the numbers that it is computed from."""
    found, x = weighted_share(tree, node), tree.index[node]
    parent = tree.parents[x]
    borrowed: Amount = 0
    lendable: Amount = 0
    for key, column in tree.columns.items():
        if parent >= 0 and resource_of(key) == found.dominant_resource:
            borrowed = borrowed + max(0, column.usage[x] - column.subtree[x])
            lendable = lendable + column.potential(parent)
    above = tree.names[parent] if parent >= 0 else None
    return ShareExplanation(
        found.reported_share, found.dominant_resource, borrowed, lendable, tree.nodes[node].weight, above
    )
