"""The tree of quotas for people: every node with its numbers (design, A4).

Users see the pools on which they have a role, and the cohorts above them; platform viewers see all (design, D10).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypedDict

from django.db.models import BigIntegerField, F, Q, QuerySet, Sum, Value
from django.db.models.functions import Greatest

from pools.domain.errors import NotFound
from pools.domain.names import SHARED_QUEUE, canonical_name, split_name
from pools.domain.people.roles import Actor
from pools.domain.quota.forest import PoolQuotaFacts, build_forest, cohort_key, display_name, is_pool_key, pool_key
from pools.domain.quota.node_numbers import NodeNumbers, WeightedShare, add_numbers, node_numbers, weighted_share
from pools.domain.quota.node_totals import NodeTotals, add_totals, node_totals
from pools.domain.quota.outline import Outline, OutlineNode, build_outline, keep_subtree, keep_with_ancestors
from pools.domain.quota.pool_balance import PoolBalance
from pools.domain.quota.tree import QuotaTree
from pools.domain.values.amounts import DEFAULT_FLAVOR, GPU, Amount, gpu_key, is_gpu
from pools.models import Cohort, Pool, Reservation
from pools.models.pool import PoolQuerySet
from pools.selectors.quotas.backend_capacity import read_part_flavors
from pools.selectors.quotas.pool_balance import read_balances
from pools.selectors.quotas.quota_facts import (
    cohort_ids_below,
    cohort_roots,
    pool_facts_with_leaves,
    read_cohort_facts,
)

NO_FLAVOR = DEFAULT_FLAVOR
"""In a view whose pools name flavors, the key of what is in none: `default/gpu` has the sums there."""


class CycleCondition(TypedDict):
    """Why a node is not active: its parents form this cycle, or it is below one."""

    type: str
    status: str
    reason: str
    message: str
    cycle: list[str]


@dataclass(frozen=True, slots=True)
class QuotaView:
    """Nodes in the order of display, parents before their children, with their numbers.

    `numbers`, `totals` and `pending`, the GPUs that pending work needs below a node, are by (flavor, resource) and
    node. Where pools name flavors, those of `default/gpu` are the sums of all flavors; `orders` has the keys of the
    flavors of each such pool, in its order. `parts` are the flavors that count parts of shared GPUs on the cluster of a
    pool or of one below a cohort, by its key, and with the key "" on some cluster.
    """

    tree: QuotaTree
    nodes: Outline
    numbers: Mapping[str, Mapping[str, NodeNumbers]]
    totals: Mapping[str, Mapping[str, NodeTotals]]
    pending: Mapping[str, Mapping[str, int]]
    has_flavors: bool = False
    orders: Mapping[str, Sequence[str]] = field(default_factory=dict)
    parts: Mapping[str, Collection[str]] = field(default_factory=dict)

    def parts_of(self, node: str = "") -> Collection[str]:
        """The flavors that count parts of shared GPUs at or below a node, or anywhere."""
        of_pool = pool_key(split_name(display_name(node)).parent)
        return self.parts.get(of_pool if is_pool_key(node) else node, ())

    def flavor_keys(self, node: str | None = None) -> list[str]:
        """The keys of the GPUs of each flavor in the order of the pool of this node, NO_FLAVOR last; none where no pool
        names one."""
        named = self.in_order((key for key in self.tree.keys if is_gpu(key) and key != GPU), node)
        return [*named, *(key for key in (NO_FLAVOR,) if key in self.totals)] if self.has_flavors else []

    def keys_for(self, node: OutlineNode) -> list[str]:
        """The (flavor, resource) pairs that a node uses or has a quota of, and always its GPUs."""
        x, own = self.tree.index[node.key], self.tree.nodes[node.key].quotas
        columns = self.tree.columns
        found = (key for key in columns if key == GPU or key in own or columns[key].subtree[x] or columns[key].usage[x])
        return self.in_order(found, node.key)

    def in_order(self, keys: Iterable[str], node: str | None = None) -> list[str]:
        """The keys by name, flavors last: in the order of the pool of this node, then in that of the first pool that
        has them."""
        if not self.orders:
            return sorted(keys)
        own = self.orders.get(split_name(display_name(node)).parent, ()) if node is not None else ()
        places = {key: place for place, key in enumerate(dict.fromkeys(chain(own, *self.orders.values())))}
        return sorted(keys, key=lambda key: (places.get(key, -1), key))

    def debt(self, node: OutlineNode, key: str) -> Amount:
        """The use of a node beyond its limits; outside a cohort the only limit is the maximum of a pool."""
        held = self.numbers[key][node.key]
        if node.is_in_cohort_tree:
            return held.debt
        return 0 if key != GPU else max(0, held.usage - node.maximum)

    def share(self, node: OutlineNode) -> WeightedShare:
        """The weighted share of a node in the amounts that it could borrow."""
        return weighted_share(self.tree, node.key)

    def condition(self, node: OutlineNode) -> CycleCondition | None:
        """The condition of a node on or below a cycle of parents; None for any other node."""
        return cycle_condition([display_name(key) for key in self.tree.cycle_of(node.key)])


def cycle_condition(cycle: Sequence[str]) -> CycleCondition | None:
    """The condition of a node on this cycle of parents or below it; None without a cycle."""
    if not cycle:
        return None
    path_text = " → ".join([*cycle, cycle[0]])
    message = f"The parents form a cycle: {path_text}. No new work starts below it; running work continues."
    return {"type": "Active", "status": "False", "reason": "Cycle", "message": message, "cycle": list(cycle)}


def read_quota_view(actor: Actor, *, root: str | None = None) -> QuotaView:
    """The nodes that `actor` may see; with `root` only this cohort or pool and the nodes below it.

    The numbers of a node depend on its whole tree, so the whole tree is always read. The number of queries does not
    depend on the number of nodes. Raises NotFound for a root that does not exist or is not visible.
    """
    visible = _visible_roots(actor)
    start = _find_start(root, visible) if root is not None else None
    return _view(actor, visible, start, *_read_needed_rows(actor, visible, start))


def read_cohort_trees(actor: Actor) -> tuple[QuotaView, int]:
    """The nodes in trees of cohorts that `actor` may see, and the number of visible pools outside of cohorts, which are
    not read."""
    visible = _visible_roots(actor)
    cohorts, rows = _read_needed_rows(actor, visible.exclude(cohort=None), None, outside_cohorts=False)
    return _view(actor, visible, None, cohorts, rows), visible.filter(cohort=None).count()


def read_tree_around(actor: Actor, kind: str, name: str) -> QuotaView:
    """The nodes that `actor` may see of the tree of a cohort (`kind` cohort), a pool or a subpool (`kind` pool). The
    view has no nodes if no such tree exists."""
    visible = _visible_roots(actor)
    if kind == "cohort":
        cohort = Cohort.objects.filter(name=name).first()
        start = None if cohort is None else _TreeStart(name, cohort_key(name), cohort.pk, None)
    else:
        pool = visible.filter(name=split_name(name).parent).first()
        start = None if pool is None else _TreeStart(pool.name, pool_key(pool.name), pool.cohort_id, pool.pk)
    needed = (Cohort.objects.none(), []) if start is None else _read_needed_rows(actor, visible, start)
    return _view(actor, visible, None, *needed)


def _visible_roots(actor: Actor) -> PoolQuerySet:
    return Pool.objects.visible_to(actor).roots().filter(archived=False)


def _view(
    actor: Actor, visible: PoolQuerySet, start: _TreeStart | None, cohorts: QuerySet[Cohort], rows: Sequence[Pool]
) -> QuotaView:
    balances = read_balances(rows)
    facts, pools = read_cohort_facts(cohorts), _pool_facts(rows, balances)
    tree = build_forest(facts, pools)
    only_named = set(cohorts.filter(explicit=False).values_list("name", flat=True))
    nodes = build_outline(tree, facts, pools, implicit_cohorts=only_named)
    if not actor.can_read_all:
        nodes = keep_with_ancestors(tree, nodes, {pool_key(name) for name in visible.values_list("name", flat=True)})
    if start is not None:
        nodes = keep_subtree(nodes, start.key)
    if start is not None and not nodes:
        raise _no_such_root(start.name)
    numbers = {key: node_numbers(tree, key) for key in tree.keys}
    totals = {key: node_totals(tree, balances.values(), key, numbers[key]) for key in tree.keys}
    if has_flavors := any(each.kinds for each in balances.values()):
        if any(each.quota or each.total_usage for each in totals.get(GPU, {}).values()):
            totals[NO_FLAVOR], numbers[NO_FLAVOR] = totals[GPU], numbers[GPU]
        totals[GPU] = add_totals([totals[key] for key in tree.keys if is_gpu(key)])
        numbers[GPU] = add_numbers([numbers[key] for key in tree.keys if is_gpu(key)])
    pending = {GPU: _pending_gpus_by_node(tree, {leaf.name: leaf.pending for pool in pools for leaf in pool.leaves})}
    if has_flavors:
        pending |= {key: _pending_gpus_by_node(tree, of_leaves) for key, of_leaves in _pending_by_flavor(rows).items()}
    orders = {
        each.name: [gpu_key(flavor) for flavor in each.kinds if flavor != DEFAULT_FLAVOR]
        for each in balances.values()
        if each.kinds
    }
    parts = _parts_by_node(tree, rows) if has_flavors else {}
    return QuotaView(tree, nodes, numbers, totals, pending, has_flavors, orders, parts)


def _parts_by_node(tree: QuotaTree, rows: Iterable[Pool]) -> dict[str, set[str]]:
    of_clusters = read_part_flavors()
    found: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        parts = of_clusters.get(row.backend_id or 0, frozenset()).intersection(row.gpu_flavors)
        x = tree.index[pool_key(row.name)] if parts else -1
        if parts:
            found[""] |= parts
        while x >= 0:
            found[tree.names[x]] |= parts
            x = tree.parents[x]
    return found


@dataclass(frozen=True, slots=True)
class _TreeStart:
    """The requested root of the view: a cohort or a pool."""

    name: str
    key: str
    cohort_id: int | None
    pool_id: int | None


def _find_start(name: str, visible: PoolQuerySet) -> _TreeStart:
    if (cohort := Cohort.objects.filter(name=name).first()) is not None:
        return _TreeStart(name, cohort_key(name), cohort.pk, None)
    if (pool := visible.filter(name=name).first()) is not None:
        return _TreeStart(name, pool_key(name), pool.cohort_id, pool.pk)
    raise _no_such_root(name)


def _no_such_root(name: str) -> NotFound:
    return NotFound(f"There is no cohort or pool {name[:80]}, or you have no role on anything in it.")


def _read_needed_rows(
    actor: Actor, visible: PoolQuerySet, start: _TreeStart | None, *, outside_cohorts: bool = True
) -> tuple[QuerySet[Cohort], list[Pool]]:
    """Read the cohorts and pools on which the shown numbers depend."""
    rows = Pool.objects.roots().filter(archived=False).select_related("cohort").order_by("name")
    if not outside_cohorts:
        rows = rows.exclude(cohort=None)
    if start is None and actor.can_read_all:
        return Cohort.objects.all(), list(rows)
    if start is None:
        members = set(visible.exclude(cohort=None).values_list("cohort_id", flat=True))
        wanted = Q(pk__in=visible)
    else:
        members = {start.cohort_id} if start.cohort_id else set()
        wanted = Q(pk=start.pool_id)
    cohorts = Cohort.objects.filter(pk__in=cohort_ids_below(set(cohort_roots(members).values())))
    return cohorts, list(rows.filter(wanted | Q(cohort__in=cohorts)))


def _pool_facts(rows: Sequence[Pool], balances: Mapping[int, PoolBalance]) -> list[PoolQuotaFacts]:
    waiting = _pending_gpus_by_leaf(rows)
    return [pool_facts_with_leaves(row, balances[row.pk], waiting) for row in rows]


def _pending_gpus_by_leaf(rows: Sequence[Pool]) -> dict[str, int]:
    """GPUs that live work needs beyond those it holds, by the name of its leaf."""
    more = Greatest(F("needed_gpus") - F("held_gpus"), Value(0), output_field=BigIntegerField())
    ids = [row.pk for row in rows]
    found = Reservation.objects.filter(Q(pool__in=ids) | Q(pool__parent__in=ids), needed_gpus__gt=F("held_gpus"))
    return dict(found.order_by().values_list("pool__name").annotate(total=Sum(more)))


def _pending_by_flavor(rows: Sequence[Pool]) -> dict[str, dict[str, int]]:
    """The same by flavor: work that has no flavor yet needs its GPUs in each one that it may use."""
    ids = [row.pk for row in rows]
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    waiting = Reservation.objects.filter(Q(pool__in=ids) | Q(pool__parent__in=ids), needed_gpus__gt=F("held_gpus"))
    columns = ("pool__name", "pool__parent", "by_flavor", "held_gpus", "needed_gpus")
    for name, parent, by_flavor, *counts in waiting.order_by().values_list(*columns):
        leaf = canonical_name(name, SHARED_QUEUE) if parent is None else name
        for flavor, (held, needed) in (by_flavor or {DEFAULT_FLAVOR: counts}).items():
            found[NO_FLAVOR if flavor == DEFAULT_FLAVOR else gpu_key(flavor)][leaf] += max(0, needed - held)
    return found


def _pending_gpus_by_node(tree: QuotaTree, of_leaves: Mapping[str, int]) -> dict[str, int]:
    """The pending GPUs at and below each node that has any."""
    sums: dict[str, int] = defaultdict(int)
    for name, pending in of_leaves.items():
        x = tree.index[pool_key(name)] if pending else -1
        while x >= 0:
            sums[tree.names[x]] += pending
            x = tree.parents[x]
    return sums
