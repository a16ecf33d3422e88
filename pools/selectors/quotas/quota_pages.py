"""The data of the pages on the tree of quotas: its rows, and the page of one node."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from pools.domain.errors import NotFound
from pools.domain.numbers import TREE_NUMBERS
from pools.domain.people.roles import Actor
from pools.domain.quota.explanations import (
    ExplanationTerm,
    NumberExplanation,
    ShareExplanation,
    explain_node,
    explain_share,
    explain_totals,
)
from pools.domain.quota.forest import COHORT_PREFIX, display_name
from pools.domain.quota.node_numbers import NodeNumbers
from pools.domain.quota.node_totals import NodeTotals
from pools.domain.quota.outline import NodeKind, OutlineNode
from pools.domain.quota.tree import LIMIT_KEYS, NO_QUOTA
from pools.domain.quota.usage_bar import FlavorUse
from pools.domain.values.amounts import GPU, UNLIMITED, Amount, amount_text, flavor_of
from pools.selectors.quotas.quota_tree import NO_FLAVOR, QuotaView, read_cohort_trees, read_quota_view, read_tree_around

MAX_OPEN_NODES = 60
"""A tree with more nodes is first shown with its pools collapsed."""

ROW_NUMBERS = (
    "quota", "total_usage", "borrowed", "lent", "can_start_now", "low_can_start_now", "pending", "subtree_quota",
    "usage", "available", "lendable", "debt",
)  # fmt: skip
"""The keys in `TREE_NUMBERS` of the numbers of a row, as pages and files order them."""


@dataclass(frozen=True, slots=True)
class LimitTexts:
    """The quota and limits of a node for one resource, as texts; empty for none."""

    nominal: str
    borrowing: str
    lending: str

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        """The key, the term and the text of each limit."""
        texts = zip(LIMIT_KEYS, (self.borrowing, self.lending), strict=True)
        return [(key, TREE_NUMBERS[key].term, text) for key, text in texts]


@dataclass(frozen=True, slots=True)
class QuotaTreeRow:
    """One row of the tree. `parent` is the key of the parent's row, None for a root, whose `depth` is 0. With
    `is_collapsed` the rows below are hidden at first."""

    node: OutlineNode
    parent: str | None
    depth: int
    has_children: bool
    is_collapsed: bool
    limits: LimitTexts
    numbers: NodeNumbers
    totals: NodeTotals
    debt: Amount
    pending: int
    share: str
    is_active: bool
    flavors: tuple[FlavorUse, ...] = ()
    parts: Collection[str] = ()
    """The flavors that count parts of shared GPUs there."""

    @property
    def has_numbers(self) -> bool:
        """Whether the node has, holds or waits for anything."""
        return any((self.totals.quota, self.totals.total_usage, self.numbers.subtree_quota, self.pending))

    @property
    def amounts(self) -> Mapping[str, Amount]:
        """Its numbers by :data:`ROW_NUMBERS`."""
        held, total = self.numbers, self.totals
        values = (
            total.quota, total.total_usage, held.borrowed, held.lent, total.can_start_now, total.low_can_start_now,
            self.pending, held.subtree_quota, held.usage, held.available, held.lendable, self.debt,
        )  # fmt: skip
        return dict(zip(ROW_NUMBERS, values, strict=True))

    @property
    def kind_segment(self) -> str:
        """The first part of the address of the node's page."""
        return kind_segment_of(self.node.key)


@dataclass(frozen=True, slots=True)
class QuotaTreePage:
    """The tree for one resource. `keys` are all resources, `pools_without_cohort` counts pools outside any cohort,
    `cycles` are the cycles of parents as texts, and `parts` the flavors that count parts of shared GPUs."""

    rows: Sequence[QuotaTreeRow]
    key: str
    keys: Sequence[str]
    pools_without_cohort: int
    cycles: Sequence[str]
    root: str | None
    parts: Collection[str] = ()

    def matching(self, text: str) -> QuotaTreePage:
        """The nodes whose names contain the text, with the nodes above and below them, all expanded."""
        by_key = {row.node.key: row for row in self.rows}
        named = {row.node.key for row in self.rows if text in f"{row.node.name} {row.node.title.lower()}"}
        kept = set(named)
        for row in self.rows:  # parents come before their children
            if row.parent in named:
                named.add(row.node.key)
            if row.node.key in named:
                above: str | None = row.node.key
                while above is not None and above in by_key:
                    kept.add(above)
                    above = by_key[above].parent
        return replace(self, rows=[replace(row, is_collapsed=False) for row in self.rows if row.node.key in kept])

    @property
    def query(self) -> str:
        """The query string that keeps the resource in the address of another page."""
        return _resource_query(self.key)


@dataclass(frozen=True, slots=True)
class NumberExplanationRow:
    """A number of a node and the terms of its sum, as a page writes them."""

    number: str
    title: str
    amount: Amount
    rule: str
    terms: tuple[ExplanationTerm, ...]


@dataclass(frozen=True, slots=True)
class QuotaNodePage:
    """One node with all its numbers of one resource. Of the sums of several flavors there are no `explanations`: each
    of `by_flavor` has its own, on the page of its key."""

    row: QuotaTreeRow
    keys: Sequence[str]
    key: str
    explanations: Sequence[NumberExplanationRow]
    share: ShareExplanation
    above: Sequence[OutlineNode]
    below: Sequence[QuotaTreeRow]
    condition: str
    by_flavor: Sequence[tuple[str, QuotaTreeRow]] = ()
    parts: Collection[str] = ()

    @property
    def query(self) -> str:
        """The query string that keeps the resource in the address of another page."""
        return _resource_query(self.key)

    @property
    def rows_with_pending(self) -> Sequence[QuotaTreeRow]:
        """The children of the node that have pending work."""
        return [row for row in self.below if row.pending]


def _resource_query(key: str) -> str:
    return "" if key == GPU else f"?{urlencode({'resource': key})}"


def kind_segment_of(key: str) -> str:
    """`cohort` or `pool`: which of the two name spaces a node's name belongs to."""
    return "cohort" if key.startswith(COHORT_PREFIX) else "pool"


def quota_tree_page(actor: Actor, *, root: str | None = None, key: str = "") -> QuotaTreePage:
    """The cohorts that `actor` may see with everything below them. Raises NotFound for an unknown root."""
    view, pools_without_cohort = read_cohort_trees(actor) if root is None else (read_quota_view(actor, root=root), 0)
    nodes = [node for node in view.nodes if node.is_in_cohort_tree] if root is None else list(view.nodes)
    chosen = _choose_key(view, key)
    cycle_texts = {" → ".join(display_name(each) for each in [*cycle, cycle[0]]) for cycle in view.tree.cycles}
    return QuotaTreePage(
        _rows(view, nodes, chosen),
        chosen,
        _keys(view),
        pools_without_cohort,
        sorted(cycle_texts),
        root,
        view.parts_of(),
    )


def _keys(view: QuotaView) -> list[str]:
    """The resources that the tree knows, GPUs first."""
    return sorted(view.in_order(view.tree.keys), key=lambda key: key != GPU)


def _choose_key(view: QuotaView, key: str) -> str:
    return key if key in view.tree.columns else GPU


def _rows(view: QuotaView, nodes: Sequence[OutlineNode], key: str) -> list[QuotaTreeRow]:
    there = {node.key for node in nodes}
    parents = {node.parent for node in nodes if node.depth}
    base = min((node.depth for node in nodes), default=0)
    # A pool that no one has cut has one leaf, which says what the pool says.
    cut = {node.parent for node in nodes if node.kind is NodeKind.SUBPOOL}
    rows = []
    for node in nodes:
        is_pool = node.kind is NodeKind.POOL
        rows.append(
            QuotaTreeRow(
                node=node,
                parent=node.parent if node.depth and node.parent in there else None,
                depth=node.depth - base,
                has_children=node.key in parents,
                is_collapsed=is_pool and (len(nodes) > MAX_OPEN_NODES or node.key not in cut),
                limits=_limits(view, node.key, key),
                numbers=view.numbers[key][node.key],
                totals=view.totals[key][node.key],
                debt=view.debt(node, key),
                pending=view.pending.get(key, {}).get(node.key, 0),
                share=str(view.share(node).reported_share),
                is_active=view.tree.is_active(node.key),
                flavors=_uses(view, node.key) if key == GPU else (),
                parts=view.parts_of(node.key),
            )
        )
    return rows


def _uses(view: QuotaView, node: str) -> tuple[FlavorUse, ...]:
    """The use by flavor; nothing for a node that has GPUs without a flavor alone."""
    found = [
        (key, each) for key in view.flavor_keys(node) if (each := view.totals[key][node]).total_usage or each.quota
    ]
    if [key for key, _ in found] == [NO_FLAVOR]:
        return ()
    return tuple(
        FlavorUse(flavor := flavor_of(key), int(each.total_usage), each.quota, flavor in view.parts_of(node))
        for key, each in found
    )


def _limits(view: QuotaView, node: str, key: str) -> LimitTexts:
    """Those of one flavor; beside sums of flavors the sum of the quotas, and the limits of each flavor that has one."""
    named = {flavor_of(each): each for each in view.flavor_keys(node) if each != NO_FLAVOR} if key == GPU else {}
    quotas = view.tree.nodes[node].quotas
    own = {flavor: quotas.get(each, NO_QUOTA) for flavor, each in ({"": key} | named).items()}
    nominal = [each.nominal for each in own.values()]
    limits = [
        ", ".join(
            f"{amount_text(limit)} {flavor}".strip()
            for flavor, each in own.items()
            if (limit := getattr(each, name)) != UNLIMITED
        )
        for name in LIMIT_KEYS
    ]
    return LimitTexts(amount_text(UNLIMITED if UNLIMITED in nominal else sum(nominal)), *limits)


def quota_node_page(actor: Actor, kind_segment: str, name: str, *, key: str = "") -> QuotaNodePage:
    """One node of the tree. Raises NotFound where `actor` may not see it."""
    view = read_tree_around(actor, kind_segment, name)
    wanted = f"{kind_segment}/{name}"
    node = next((node for node in view.nodes if node.key == wanted), None)
    if node is None:
        raise NotFound(f"There is no {kind_segment} {name[:80]}, or you have no role on anything in it.")
    chosen = _choose_key(view, key)
    rows = {row.node.key: row for row in _rows(view, view.nodes, chosen)}
    by_key = {each.key: each for each in view.nodes}
    above, parent_key = [], node.parent
    while parent_key in by_key and by_key[parent_key] not in above:
        above.append(by_key[parent_key])
        parent_key = by_key[parent_key].parent
    condition = view.condition(node)
    of_flavors = view.flavor_keys(node.key) if chosen == GPU else []
    return QuotaNodePage(
        row=rows[node.key],
        keys=_keys(view),
        key=chosen,
        explanations=[] if of_flavors else _explanations(view, node, chosen, by_key),
        share=explain_share(view.tree, node.key),
        above=above[::-1],
        below=[row for row in rows.values() if row.node.parent == node.key],
        condition=condition["message"] if condition else "",
        by_flavor=[(key, row) for key in of_flavors if (row := _rows(view, [node], key)[0]).has_numbers],
        parts=view.parts_of(node.key),
    )


def _explanations(view: QuotaView, node: OutlineNode, key: str, seen: Collection[str]) -> list[NumberExplanationRow]:
    found = (*explain_totals(view.tree, key, node.key, view.totals[key]), *explain_node(view.tree, key, node.key))
    return [_explanation_row(each, view, node, key, seen) for each in found]


def _explanation_row(
    explanation: NumberExplanation, view: QuotaView, node: OutlineNode, key: str, seen: Collection[str]
) -> NumberExplanationRow:
    amount, terms = explanation.amount, _redact_terms(explanation.terms, seen)
    if explanation.number == "debt" and not node.is_in_cohort_tree:
        amount, terms = view.debt(node, key), ()
    return NumberExplanationRow(
        explanation.number, TREE_NUMBERS[explanation.number].label, amount, explanation.rule, terms
    )


def _redact_terms(terms: Sequence[ExplanationTerm], seen: Collection[str]) -> tuple[ExplanationTerm, ...]:
    """The terms that the reader may see; the numbers of hidden nodes become one sum."""
    known: list[ExplanationTerm] = []
    hidden: list[ExplanationTerm] = []
    for term in terms:
        inner = replace(term, least_of=_redact_terms(term.least_of, seen), sum_of=_redact_terms(term.sum_of, seen))
        (known if term.node is None or term.node in seen else hidden).append(inner)
    if not hidden:
        return tuple(known)
    rest = sum((term.sign * term.amount for term in hidden), start=0)
    return (*known, ExplanationTerm(abs(rest), "of pools that you may not see", sign=1 if rest >= 0 else -1))
