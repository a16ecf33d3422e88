"""Why a number of the tree of quotas is what it is: the terms it is made of, each a number of some node.

    available(serve) 10  =  0 of its own unused  +  the least of: 11 available to prod, ...

Every explanation adds up to the very number that is shown; where a number is the least of several, all are told and the
ones that decide are marked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pools.domain.amounts import UNLIMITED, Amount, Number, resource_of
from pools.domain.quota.node_numbers import node_numbers, weighted_share
from pools.domain.quota.tree import QuotaTree, ResourceColumn


@dataclass(frozen=True, slots=True)
class ExplanationTerm:
    """One part of a number. `node` and `number` say where it comes from, if it is a number of a node itself.

    `least_of` are the parts of which it is the least, `sum_of` those that make it (less than 0 is 0); `decides` marks
    those of the first that it comes from.
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
        """What it adds."""
        return self.sign * self.amount if self.amount else 0


@dataclass(frozen=True, slots=True)
class NumberExplanation:
    """A number and its terms, which add up to it; `floor` where less than 0 is told as 0. `rule` is its definition."""

    number: str
    amount: Amount
    rule: str
    terms: tuple[ExplanationTerm, ...]
    is_floored: bool = False

    @property
    def total(self) -> Amount:
        """What the terms add up to."""
        found = _sum(self.terms)
        return max(0, found) if self.is_floored else found


def explain_node(tree: QuotaTree, key: str, node: str) -> list[NumberExplanation]:
    """Every number of a node, in the order in which one follows from the other. `key` is the flavor and resource."""
    told = _Teller(tree, key, tree.index[node])
    return [each() for each in told.numbers()]


class _Teller:
    def __init__(self, tree: QuotaTree, key: str, x: int) -> None:
        self._tree, self._key, self._x = tree, key, x
        self._column: ResourceColumn = tree.columns[key]
        self._children = [c for c, parent in enumerate(tree.parents) if parent == x]
        self._parent = tree.parents[x]
        self._all = node_numbers(tree, key)
        self._here = self._all[tree.names[x]]

    def numbers(self) -> Sequence[Callable[[], NumberExplanation]]:
        """The explanations, one for each number."""
        return (
            self._subtree_quota, self._usage, self._t, self._available, self._potential, self._borrowed, self._lent,
            self._lendable, self._debt,
        )  # fmt: skip

    def _of(
        self, x: int, number: str, amount: Amount, words: str, *, sign: int = 1, decides: bool = False
    ) -> ExplanationTerm:
        return ExplanationTerm(amount, words, self._tree.names[x], number, sign, is_deciding=decides)

    def _subtree_quota(self) -> NumberExplanation:
        column, x = self._column, self._x
        terms = [self._of(x, "nominal", column.nominal[x], "its own quota")]
        for child in self._children:
            visible, whole = column.visible[child], column.subtree[child]
            words = "everything below it" if visible == whole else "what its lending limit lets through"
            terms.append(self._of(child, "subtree_quota", visible, words))
        return NumberExplanation(
            "subtree_quota", column.subtree[x], "Its own quota, and what everything below it may lend.", tuple(terms)
        )

    def _usage(self) -> NumberExplanation:
        column, x = self._column, self._x
        terms = [ExplanationTerm(column.own[x], "work of its own")] if column.own[x] or not self._children else []
        for child in self._children:
            over = max(0, column.usage[child] - column.local[child])
            words = "its use" if not column.local[child] else "its use beyond what it keeps for itself"
            terms.append(self._of(child, "usage", over, words))
        return NumberExplanation(
            "usage", column.usage[x], "What runs here, and what those below use beyond what they keep.", tuple(terms)
        )

    def _t(self) -> NumberExplanation:
        terms = [
            self._of(self._x, "subtree_quota", self._here.subtree_quota, "what it owns"),
            self._of(self._x, "usage", self._here.usage, "what it uses", sign=-1),
        ]
        return NumberExplanation(
            "t", self._here.t, "What it owns less what it uses; below zero it borrows that much.", tuple(terms)
        )

    def _available(self) -> NumberExplanation:
        x, names = self._x, self._tree.names
        rule = "What may still start here."
        if not self._tree.is_active(names[x]):
            return NumberExplanation("available", 0, "Nothing starts where the parents run in a circle.", ())
        if self._parent < 0:
            return NumberExplanation("available", self._here.available, rule, (self._balance(),), is_floored=True)
        column = self._column
        own = max(0, column.local[x] - column.usage[x])
        above = self._above()
        terms = [ExplanationTerm(own, "unused of what it keeps for itself")] if own else []
        return NumberExplanation("available", self._here.available, rule, (*terms, above), is_floored=True)

    def _balance(self) -> ExplanationTerm:
        return self._of(self._x, "t", self._here.t, "its balance: nobody stands above it")

    def _above(self) -> ExplanationTerm:
        """What comes from above: what the parent has, as far as the own borrowing limit lets it through."""
        column, x, parent = self._column, self._x, self._parent
        theirs = column.available(parent)
        limit = column.borrowing[x]
        if limit == UNLIMITED:
            return self._of(parent, "available", theirs, "available above it")
        mine = column.visible[x] + limit + min(0, column.local[x] - column.usage[x])
        least = min(theirs, mine)
        return ExplanationTerm(
            least,
            "from above, the least of these",
            least_of=(
                self._of(parent, "available", theirs, "available above it", decides=theirs == least),
                self._of(
                    x, "borrowing_limit", mine, "left of its own part and its borrowing limit", decides=mine == least
                ),
            ),
        )

    def _potential(self) -> NumberExplanation:
        column, x = self._column, self._x
        rule = "The most that could ever run here, were everything else idle."
        whole = self._here.potential_available
        if self._parent < 0:
            return NumberExplanation(
                "potential_available", whole, rule, (self._of(x, "subtree_quota", whole, "what it owns"),)
            )
        theirs = column.local[x] + column.potential(self._parent)
        mine = column.subtree[x] + column.borrowing[x]
        words = "what the one above could have" + (", and what it keeps for itself" if column.local[x] else "")
        term = ExplanationTerm(
            whole,
            "the least of these",
            least_of=(
                self._of(self._parent, "potential_available", theirs, words, decides=theirs == whole),
                self._of(x, "borrowing_limit", mine, "what it owns and may borrow", decides=mine == whole),
            ),
        )
        return NumberExplanation("potential_available", whole, rule, (term,))

    def _borrowed(self) -> NumberExplanation:
        terms = [
            self._of(self._x, "usage", self._here.usage, "what it uses"),
            self._of(self._x, "subtree_quota", self._here.subtree_quota, "what it owns", sign=-1),
        ]
        return NumberExplanation(
            "borrowed", self._here.borrowed, "What it uses beyond what it owns.", tuple(terms), is_floored=True
        )

    def _lent(self) -> NumberExplanation:
        rule = "What others use of it; quota above is used first, then that of the others in their order."
        if self._parent < 0:
            return NumberExplanation("lent", 0, "There is nobody above it to lend to.", ())
        return NumberExplanation("lent", self._here.lent, rule, (self._lending(),))

    def _lending(self) -> ExplanationTerm:
        """As much as the others still want, as far as there is something unused."""
        wants = self._wants()
        wanted, unused = max(0, _sum(wants)), self._unused()
        return ExplanationTerm(
            self._here.lent,
            "the least of these",
            least_of=(
                ExplanationTerm(wanted, "wanted by others", sum_of=wants, is_deciding=wanted <= unused),
                ExplanationTerm(unused, "unused of what it may lend", is_deciding=unused <= wanted),
            ),
        )

    def _wants(self) -> tuple[ExplanationTerm, ...]:
        """What its siblings borrow and those above lend on, less what was found elsewhere before it is asked."""
        names, column, parent = self._tree.names, self._column, self._parent
        above = self._all[names[parent]]
        found = [
            self._of(parent, "lent", above.lent, "lent on by the one above"),
            self._of(parent, "borrowed", above.borrowed, "borrowed by the one above", sign=-1),
            self._of(parent, "nominal", column.nominal[parent], "quota of the one above, used first", sign=-1),
        ]
        for x in (x for x, up in enumerate(self._tree.parents) if up == parent):
            there = self._all[names[x]]
            found.append(self._of(x, "borrowed", there.borrowed, "borrowed beside it"))
            if x < self._x:
                found.append(self._of(x, "lent", there.lent, "lent by another one before", sign=-1))
        return tuple(term for term in found if term.amount)

    def _unused(self) -> Amount:
        column, x = self._column, self._x
        return max(0, column.visible[x] - max(0, column.usage[x] - column.local[x]))

    def _lendable(self) -> NumberExplanation:
        rule = "What it could still lend."
        if self._parent < 0:
            return NumberExplanation("lendable", 0, "There is nobody above it to lend to.", ())
        terms = (
            ExplanationTerm(self._unused(), "unused of what it may lend"),
            self._of(self._x, "lent", self._here.lent, "lent out already", sign=-1),
        )
        return NumberExplanation("lendable", self._here.lendable, rule, terms)

    def _debt(self) -> NumberExplanation:
        column, x = self._column, self._x
        rule = "How far it is beyond its limits; work that ends pays it back."
        allowed = column.borrowing[x] if self._parent >= 0 else 0
        if allowed == UNLIMITED:
            return NumberExplanation("debt", 0, "Its borrowing has no limit of its own.", ())
        terms = (
            self._of(x, "t", column.balance(x), "its balance", sign=-1),
            self._of(x, "borrowing_limit", allowed, "what it may borrow", sign=-1),
        )
        return NumberExplanation("debt", self._here.debt, rule, terms, is_floored=True)


def _sum(terms: Sequence[ExplanationTerm]) -> Amount:
    return sum((term.sign * term.amount for term in terms if term.amount), start=0)


@dataclass(frozen=True, slots=True)
class ShareExplanation:
    """`reported` is `borrowed`·1000 / `lendable` / `weight`, rounded up, of the resource in which that is most; None
    where it borrows nothing, or stands at the top."""

    reported: int | str
    resource: str | None
    borrowed: Amount
    lendable: Amount
    weight: Number
    parent: str | None


def explain_share(tree: QuotaTree, node: str) -> ShareExplanation:
    """What the weighted share of a node is made of."""
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
