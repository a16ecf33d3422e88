"""Dry runs of a change of a cohort, or of a pool in a cohort, with the effect on the whole tree."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from pools.domain import names
from pools.domain.configuration.pool_config import editable_body
from pools.domain.field_changes import field_changes
from pools.domain.people.roles import Actor
from pools.domain.quota.borrowers import newly_reclaimable
from pools.domain.quota.debts import Debt, changed_debts
from pools.domain.quota.forest import COHORT_PREFIX, display_name
from pools.domain.quota.neighbours import NeighbourEffect, neighbour_effects
from pools.domain.quota.tree import AMOUNT_KEYS, QuotaTree
from pools.domain.values.amounts import Amount, Gpus, JsonAmount, as_json
from pools.models import Cohort, Pool, Reservation
from pools.models.usage import PREEMPTIBLE_PRIORITY
from pools.representations.cohort import cohort_body
from pools.representations.pool import pool_settings_of
from pools.representations.quota_tree import tree_node_bodies
from pools.representations.subpool import pool_tree_body
from pools.selectors.quotas.pool_balance import read_balances
from pools.selectors.quotas.quota_facts import cohort_roots, read_admission_tree
from pools.selectors.quotas.quota_tree import read_quota_view
from pools.services.changes.dry_run import (
    DebtAnswer,
    EffectAnswer,
    NeighbourAnswer,
    NodeBody,
    NumberChangeBody,
    read_effect,
)


def effect_on_cohort(actor: Actor, name: str, operation: Callable[[], object]) -> EffectAnswer:
    """The effect of `operation`: the cohort before and after, each with the `nodes` of its tree, and everything that
    :func:`effect_with_debts` returns."""
    return effect_with_debts(
        operation,
        read_state=lambda: _cohort_with_tree(actor, name),
        configuration_of=_cohort_configuration,
        actor=actor,
    )


def effect_on_pool(
    name: str, operation: Callable[[], object], *, actor: Actor, renamed_to: str | None = None
) -> EffectAnswer:
    """The effect of a change on a pool: its configuration and tree before and after, and everything that
    :func:`effect_with_debts` returns."""
    return effect_with_debts(
        operation,
        read_state=lambda: pool_snapshot(name),
        read_state_after=lambda: pool_snapshot(renamed_to or name),
        configuration_of=_pool_configuration,
        actor=actor,
    )


def effect_on_pools(operation: Callable[[], object], *, names: Callable[[], list[str]], actor: Actor) -> EffectAnswer:
    """The effect of a change on several pools: the snapshot of each by name, and everything that
    :func:`effect_with_debts` returns. `names` is called before and after the change."""
    return effect_with_debts(
        operation,
        read_state=lambda: {name: pool_snapshot(name) for name in names()},
        configuration_of=lambda state: {name: _pool_configuration(pool) for name, pool in state.items()},
        actor=actor,
    )


def pool_snapshot(name: str) -> dict[str, Any] | None:
    """A pool as dry runs show it, None if there is none."""
    root = Pool.objects.roots().select_related("backend", "cohort").filter(name=name).first()
    if root is None:
        return None
    return pool_tree_body(root) | {"archived": root.archived, "configs": editable_body(pool_settings_of(root))}


def _pool_configuration(state: Any) -> Any:
    return state and state["configs"]


def _cohort_configuration(state: Any) -> Any:
    if state is None:
        return None
    quotas = {f"{row['flavor']}/{row['resource']}": {key: row[key] for key in AMOUNT_KEYS} for row in state["quotas"]}
    return {"parent": state["parent"], "quotas": quotas, "weight": state["weight"]}


def effect_with_debts(
    operation: Callable[[], object],
    *,
    read_state: Callable[[], Any],
    read_state_after: Callable[[], Any] | None = None,
    configuration_of: Callable[[Any], Any],
    actor: Actor,
) -> EffectAnswer:
    """The effect of :func:`pools.services.changes.dry_run.read_effect` with more keys: `changes`, every field of the
    configuration (`configuration_of` a state) that differs; `neighbours`, every node of the cohort trees whose numbers
    differ; the `debts` there; and `becomes_reclaimable`, the running LOW work that more lenders than before may
    reclaim, whether or not they need the GPUs now. Only for platform viewers, since these keys name objects of all
    pools."""
    trees: list[QuotaTree] = []
    exposed: list[str] = []

    def with_trees(read: Callable[[], Any]) -> Callable[[], Any]:
        def read_with_tree() -> Any:
            trees.append(read_admission_tree(Cohort.objects.filter(parent=None).values_list("pk", flat=True)))
            exposed[:] = _reclaimable_workflows(newly_reclaimable(trees[0], trees[-1]))
            return read()

        return read_with_tree

    effect = read_effect(
        operation,
        read_state=with_trees(read_state),
        read_state_after=with_trees(read_state_after or read_state),
        actor=actor,
    )
    is_possible = not effect["violations"]
    fields = field_changes(*map(configuration_of, (effect["before"], effect["after"]))) if is_possible else []
    return {
        **effect,
        "changes": [{"path": each.path, "before": each.before, "after": each.after} for each in fields],
        "neighbours": [_neighbour_body(each) for each in neighbour_effects(trees[0], trees[-1])],
        "debts": [_debt_body(debt) for debt in changed_debts(trees[0], trees[-1])],
        "becomes_reclaimable": exposed,
    }


def _reclaimable_workflows(nodes: Collection[str]) -> list[str]:
    """The LOW workflows that run on those leaves of these pools that hold more than their quota."""
    rows = Pool.objects.roots().filter(name__in=[display_name(node) for node in nodes])
    over = []
    for balance in read_balances(rows).values():
        if _is_over(balance.shared_scheduling_quota, balance.shared_usage.total_usage):
            over.append(balance.name)
        over += [
            names.canonical_name(balance.name, part.name)
            for part in balance.subpools
            if _is_over(part.scheduling_quota, part.usage.total_usage)
        ]
    held = Reservation.objects.filter(pool__name__in=over, priority=PREEMPTIBLE_PRIORITY, held_gpus__gt=0)
    return list(held.order_by("created_at", "workflow_name").values_list("workflow_name", flat=True))


def _is_over(quota: Gpus, used: int) -> bool:
    return used > quota


def _cohort_with_tree(actor: Actor, name: str) -> dict[str, Any] | None:
    """The cohort and its tree, None if there is none."""
    row = Cohort.objects.filter(name=name).first()
    if row is None:
        return None
    top = Cohort.objects.get(pk=cohort_roots([row.pk])[row.pk])
    return cohort_body(row) | {"nodes": tree_node_bodies(read_quota_view(actor, root=top.name))}


def _node_body(node: str, key: str) -> NodeBody:
    flavor, _, resource = key.partition("/")
    kind = "cohort" if node.startswith(COHORT_PREFIX) else "pool"
    return {"name": display_name(node), "kind": kind, "flavor": flavor, "resource": resource}


def _neighbour_body(effect: NeighbourEffect) -> NeighbourAnswer:
    numbers: dict[str, NumberChangeBody] = {
        name: {"before": _amount(number.before), "after": _amount(number.after)}
        for name, number in effect.numbers.items()
    }
    return {**_node_body(effect.node, effect.key), "numbers": numbers}


def _amount(amount: Amount | None) -> JsonAmount | None:
    return None if amount is None else as_json(amount)


def _debt_body(debt: Debt) -> DebtAnswer:
    return {
        **_node_body(debt.node, debt.key),
        "before": as_json(debt.before),
        "after": as_json(debt.after),
    }
