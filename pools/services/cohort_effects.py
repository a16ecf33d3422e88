"""Trying a change of a cohort, or of a pool in one: done, looked at, rolled back, with what it means for the tree."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from pools.domain import names
from pools.domain.amounts import as_json
from pools.domain.quota.borrowers import newly_exposed
from pools.domain.quota.debts import Debt, changed_debts
from pools.domain.quota.forest import COHORT, shown
from pools.domain.quota.pool_balance import UNLIMITED
from pools.domain.quota.tree import QuotaTree
from pools.domain.roles import Actor
from pools.locking import cohort_tops
from pools.models import Cohort, Pool, Reservation
from pools.models.usage import PREEMPTIBLE
from pools.representations.cohort import cohort_body
from pools.representations.quota_tree import tree_nodes
from pools.selectors.pool_balance import balances
from pools.selectors.quota_facts import verdict_tree
from pools.selectors.quota_tree import quota_view
from pools.services.dry_run import effect_of


def effect_on_cohort(actor: Actor, name: str, deed: Callable[[], object]) -> dict[str, Any]:
    """What `deed` would do: the cohort before and after, each with the `nodes` of the tree in which it stands. The rest
    as in :func:`effect_with_debts`."""
    return effect_with_debts(deed, read=lambda: _picture(actor, name), actor=actor)


def effect_with_debts(
    deed: Callable[[], object],
    *,
    read: Callable[[], Any],
    read_after: Callable[[], Any] | None = None,
    actor: Actor,
) -> dict[str, Any]:
    """As :func:`pools.services.dry_run.effect_of`, and of the trees of cohorts the `debts` that come, go, grow or
    shrink, and the running LOW work that `becomes_reclaimable` for more lenders than before, whether or not one of them
    wants it now. For those who read the house, since both name whatever is in it."""
    trees: list[QuotaTree] = []
    exposed: list[str] = []

    def with_trees(look: Callable[[], Any]) -> Callable[[], Any]:
        def both() -> Any:
            trees.append(verdict_tree(Cohort.objects.filter(parent=None).values_list("pk", flat=True)))
            exposed[:] = _low_work(newly_exposed(trees[0], trees[-1]))
            return look()

        return both

    effect = effect_of(deed, read=with_trees(read), read_after=with_trees(read_after or read), actor=actor)
    debts = [_debt_body(debt) for debt in changed_debts(trees[0], trees[-1])]
    return effect | {"debts": debts, "becomes_reclaimable": exposed}


def _low_work(nodes: Collection[str]) -> list[str]:
    """The LOW workflows that run on those leaves of these pools that hold more than their quota."""
    rows = Pool.objects.roots().filter(name__in=[shown(node) for node in nodes])
    over = []
    for balance in balances(rows).values():
        if _is_over(balance.shared_scheduling_quota, balance.shared_usage.total_usage):
            over.append(balance.name)
        over += [
            names.canonical(balance.name, part.name)
            for part in balance.slices
            if _is_over(part.scheduling_quota, part.usage.total_usage)
        ]
    held = Reservation.objects.filter(pool__name__in=over, priority=PREEMPTIBLE, held_gpus__gt=0)
    return list(held.order_by("created_at", "workflow_name").values_list("workflow_name", flat=True))


def _is_over(quota: int, used: int) -> bool:
    return quota != UNLIMITED and used > quota


def _picture(actor: Actor, name: str) -> dict[str, Any] | None:
    """The cohort and its tree, None if there is none."""
    row = Cohort.objects.filter(name=name).first()
    if row is None:
        return None
    top = Cohort.objects.get(pk=cohort_tops([row.pk])[row.pk])
    return cohort_body(row) | {"nodes": tree_nodes(quota_view(actor, root=top.name))}


def _debt_body(debt: Debt) -> dict[str, Any]:
    flavor, _, resource = debt.key.partition("/")
    return {
        "name": shown(debt.node),
        "kind": "cohort" if debt.node.startswith(COHORT) else "pool",
        "flavor": flavor,
        "resource": resource,
        "before": as_json(debt.before),
        "after": as_json(debt.after),
    }
