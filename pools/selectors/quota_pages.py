"""What the browser shows of the tree of quotas: its rows, and the page of one node. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from pools.domain.amounts import GPU, UNLIMITED, Amount, text_of
from pools.domain.errors import NotFound
from pools.domain.quota.explanations import ShareWhy, Term, Why, share_why, why
from pools.domain.quota.forest import COHORT, shown
from pools.domain.quota.node_numbers import NodeNumbers
from pools.domain.quota.outline import NodeKind, OutlineNode
from pools.domain.quota.tree import NOTHING
from pools.domain.roles import Actor
from pools.selectors.quota_tree import QuotaView, quota_view

LONGEST_TREE = 60
"""Nodes above which a tree is first shown with its pools closed."""


@dataclass(frozen=True, slots=True)
class Limits:
    """A node's own row of one resource, in words; empty where there is none."""

    nominal: str
    borrowing: str
    lending: str


@dataclass(frozen=True, slots=True)
class TreeRow:
    """One line of the tree. `parent` is the key of the line above it, None for a top, whose `depth` is 0; `closed`:
    what is below it is hidden at first."""

    node: OutlineNode
    parent: str | None
    depth: int
    has_children: bool
    closed: bool
    limits: Limits
    numbers: NodeNumbers
    debt: Amount
    pending: int
    share: str
    active: bool

    @property
    def sort(self) -> str:
        """The first half of its address."""
        return sort_of(self.node.key)

    @property
    def free(self) -> Amount:
        """What of its own nobody uses and nobody has borrowed."""
        unused = self.numbers.subtree_quota - self.numbers.usage
        return max(0, unused - self.numbers.lent) if unused != UNLIMITED else UNLIMITED

    @property
    def inside(self) -> Amount:
        """What it uses of its own."""
        return min(self.numbers.usage, self.numbers.subtree_quota)


@dataclass(frozen=True, slots=True)
class TreePage:
    """The tree for one resource; `keys` are the ones that there are, `alone` counts pools outside any cohort,
    `circles` are those in which parents run."""

    rows: Sequence[TreeRow]
    key: str
    keys: Sequence[str]
    alone: int
    circles: Sequence[str]
    root: str | None

    @property
    def query(self) -> str:
        """What keeps the resource in the address of another page."""
        return _query(self.key)


@dataclass(frozen=True, slots=True)
class NumberLine:
    """A number of a node with what it is made of, as a page writes it."""

    number: str
    title: str
    amount: Amount
    rule: str
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class NodePage:
    """One node with all its numbers of one resource."""

    row: TreeRow
    keys: Sequence[str]
    key: str
    lines: Sequence[NumberLine]
    share: ShareWhy
    above: Sequence[OutlineNode]
    below: Sequence[TreeRow]
    condition: str

    @property
    def query(self) -> str:
        """What keeps the resource in the address of another page."""
        return _query(self.key)

    @property
    def waiting(self) -> Sequence[TreeRow]:
        """Those right below it where something waits."""
        return [row for row in self.below if row.pending]


TITLES = {
    "subtree_quota": "Subtree quota",
    "usage": "Used",
    "t": "Balance",
    "available": "Available",
    "potential_available": "Could ever have",
    "borrowed": "Borrowed",
    "lent": "Lent out",
    "lendable": "Still lendable",
    "debt": "Debt",
}


def _query(key: str) -> str:
    return "" if key == GPU else f"?{urlencode({'resource': key})}"


def sort_of(key: str) -> str:
    """`cohort` or `pool`: which of the two name spaces a node's name belongs to."""
    return "cohort" if key.startswith(COHORT) else "pool"


def tree_page(actor: Actor, *, root: str | None = None, key: str = "") -> TreePage:
    """The cohorts that `actor` may see with everything below them. Raises NotFound for an unknown root."""
    view = quota_view(actor, root=root)
    nodes = [node for node in view.nodes if node.governed] if root is None else list(view.nodes)
    chosen = _chosen(view, key)
    alone = sum(node.kind is NodeKind.POOL and not node.governed for node in view.nodes)
    circles = {" → ".join(shown(each) for each in [*cycle, cycle[0]]) for cycle in view.tree.cycles}
    return TreePage(_rows(view, nodes, chosen), chosen, _keys(view), alone, sorted(circles), root)


def _keys(view: QuotaView) -> list[str]:
    """The resources that the tree knows, GPUs first."""
    return sorted(view.tree.keys, key=lambda key: (key != GPU, key))


def _chosen(view: QuotaView, key: str) -> str:
    return key if key in view.tree.columns else GPU


def _rows(view: QuotaView, nodes: Sequence[OutlineNode], key: str) -> list[TreeRow]:
    there = {node.key for node in nodes}
    parents = {node.parent for node in nodes if node.depth}
    base = min((node.depth for node in nodes), default=0)
    # A pool that no one has cut has one leaf, which says what the pool says.
    cut = {node.parent for node in nodes if node.kind is NodeKind.SUBPOOL}
    rows = []
    for node in nodes:
        own = view.tree.nodes[node.key].quotas.get(key, NOTHING)
        is_pool = node.kind is NodeKind.POOL
        rows.append(
            TreeRow(
                node=node,
                parent=node.parent if node.depth and node.parent in there else None,
                depth=node.depth - base,
                has_children=node.key in parents,
                closed=is_pool and (len(nodes) > LONGEST_TREE or node.key not in cut),
                limits=Limits(text_of(own.nominal), _limit(own.borrowing_limit), _limit(own.lending_limit)),
                numbers=view.numbers[key][node.key],
                debt=view.debt(node, key),
                pending=view.pending.get(node.key, 0) if key == GPU else 0,
                share=str(view.share(node).reported),
                active=view.tree.active(node.key),
            )
        )
    return rows


def _limit(limit: Amount) -> str:
    return "" if limit == UNLIMITED else text_of(limit)


def node_page(actor: Actor, sort: str, name: str, *, key: str = "") -> NodePage:
    """One node of the tree. Raises NotFound where `actor` may not see it."""
    view = quota_view(actor)
    wanted = f"{sort}/{name}"
    node = next((node for node in view.nodes if node.key == wanted), None)
    if node is None:
        raise NotFound(f"There is no {sort} {name[:80]}, or you have no role on anything in it.")
    chosen = _chosen(view, key)
    rows = {row.node.key: row for row in _rows(view, view.nodes, chosen)}
    by_key = {each.key: each for each in view.nodes}
    above, up = [], node.parent
    while up in by_key and by_key[up] not in above:
        above.append(by_key[up])
        up = by_key[up].parent
    condition = view.condition(node)
    return NodePage(
        row=rows[node.key],
        keys=_keys(view),
        key=chosen,
        lines=[_line(each, view, node, chosen, by_key) for each in why(view.tree, chosen, node.key)],
        share=share_why(view.tree, node.key),
        above=above[::-1],
        below=[row for row in rows.values() if row.node.parent == node.key],
        condition=condition["message"] if condition else "",
    )


def _line(told: Why, view: QuotaView, node: OutlineNode, key: str, seen: Collection[str]) -> NumberLine:
    amount, terms = told.amount, _veiled(told.terms, seen)
    if told.number == "debt" and not node.governed:
        amount, terms = view.debt(node, key), ()
    return NumberLine(told.number, TITLES[told.number], amount, told.rule, terms)


def _veiled(terms: Sequence[Term], seen: Collection[str]) -> tuple[Term, ...]:
    """The terms as their reader may know them: numbers of nodes that he may not see are told in one sum."""
    known: list[Term] = []
    hidden: list[Term] = []
    for term in terms:
        inner = replace(term, least_of=_veiled(term.least_of, seen), sum_of=_veiled(term.sum_of, seen))
        (known if term.node is None or term.node in seen else hidden).append(inner)
    if not hidden:
        return tuple(known)
    rest = sum((term.sign * term.amount for term in hidden), start=0)
    return (*known, Term(abs(rest), "of others, whom you may not see", sign=1 if rest >= 0 else -1))
