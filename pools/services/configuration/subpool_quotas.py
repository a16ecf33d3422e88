"""Quotas of many subpools, of one pool or of several, in one change: all of them or none.

Together they are checked as they will be, so that GPUs move from one subpool to another in one step, in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pools.database.transactions import change
from pools.domain.approvals import ApprovalNeeded
from pools.domain.changes.subpools import ResizeSubpools
from pools.domain.configuration.pool_flavors import FlavorsAsked, read_subpool_quota, sums_violations
from pools.domain.errors import BadInput, Conflict, Fault, Violation, joined_messages
from pools.domain.names import split_name
from pools.domain.people.roles import Actor, Permission
from pools.domain.quota.pool_balance import PoolBalance
from pools.domain.quota.stored_quotas import gpus_by_flavor
from pools.domain.subpool_lifecycle import SubpoolState
from pools.locking import lock_pool_trees
from pools.models import Pool
from pools.permissions import get_visible_root, require_permission
from pools.selectors.quotas.pool_balance import read_balances
from pools.services.changes.approval_check import require_no_subpool_approval
from pools.services.changes.dry_run import EffectAnswer, read_effect, read_pool_tree
from pools.services.changes.seen_state import require_as_seen
from pools.services.configuration.subpools import SubpoolResult, read_result

MAX_QUOTAS = 1000
"""The most subpools of one change; a larger file is applied in parts."""
_STATE_CODES = frozenset({Fault.ARCHIVED, Fault.WRONG_STATE})


@dataclass(frozen=True, slots=True)
class QuotasResult:
    """The subpools whose quota changed, by name, and the warnings about them."""

    changed: tuple[SubpoolResult, ...]
    warnings: tuple[str, ...] = ()


def resize_subpools(command: ResizeSubpools, *, actor: Actor, description: str = "") -> QuotasResult:
    """Give ACTIVE subpools these quotas (canonical name → quota as of `resize_subpool`), all of them or none.

    A subpool that has its quota already is left alone, with the end of a temporary quota; a changed quota is lasting.
    Raises NotFound or Forbidden for a pool, Stale, BadInput or Conflict with every
    fault of every subpool (path `quotas.NAME`), and Conflict for a quota that needs the approval of a second person:
    such changes are requested one by one.
    """
    quotas = command.quotas
    _check_request(quotas)
    roots = []
    for parent in sorted({split_name(name).parent for name in quotas}):
        require_permission(actor, Permission.POOL_PARTITION, parent)
        roots.append(get_visible_root(actor, parent))
    with change(actor=actor, description=description):
        locked = {row.name: row for row in lock_pool_trees({root.pk for root in roots})}
        rows = {
            row.name: row
            for row in Pool.objects.filter(parent__in=locked.values(), name__in=quotas).select_related("usage")
        }
        require_as_seen()
        balances = {balance.name: balance for balance in read_balances(locked.values()).values()}
        parsed, faults = _read_quotas(quotas, locked, rows, balances)
        if faults:
            raise (Conflict if all(fault.code in _STATE_CODES for fault in faults) else BadInput).of(faults)
        different = {name: quota for name, quota in parsed.items() if _differs(rows[name], quota)}
        _require_no_approvals(locked, rows, different)
        # Lower quotas first: at no moment do the quotas of a pool sum to more than before and after.
        for name, quota in sorted(different.items(), key=lambda item: item[1].gpus - (rows[item[0]].last_quota or 0)):
            row = rows[name]
            row.last_quota, row.flavors = quota.gpus, quota.stored
            row.quota_until, row.quota_after, row.flavors_after = None, None, []
            row.save(update_fields=["last_quota", "flavors", "quota_until", "quota_after", "flavors_after"])
        results = tuple(read_result(rows[name]) for name in sorted(different))
        warnings = (f"{name}: {warning}" for name, quota in different.items() for warning in quota.warnings)
        return QuotasResult(results, tuple(warnings))


def _differs(row: Pool, quota: FlavorsAsked) -> bool:
    return quota.gpus != row.last_quota or gpus_by_flavor(quota.stored) != gpus_by_flavor(row.flavors)


def effect_on_quotas(command: ResizeSubpools, operation: Callable[[], object], actor: Actor) -> EffectAnswer:
    """The effect of such a change as :func:`pools.services.changes.dry_run.read_effect` answers it; `before` and
    `after` have the tree of each pool by its name."""
    roots = sorted({split_name(name).parent for name in command.quotas})

    return read_effect(operation, read_state=lambda: {name: read_pool_tree(name) for name in roots}, actor=actor)


def _check_request(quotas: Mapping[str, object]) -> None:
    """Raise BadInput for no quotas, too many, and names that are not those of subpools."""
    if not 0 < len(quotas) <= MAX_QUOTAS:
        message = f"quotas has {len(quotas):,} entries; give 1 to {MAX_QUOTAS:,} subpools with their quotas."
        raise BadInput.of([Violation("quotas", Fault.BAD_VALUE, message, numbers=(("most", MAX_QUOTAS),))])
    faults = [
        Violation(f"quotas.{name}", Fault.NOT_A_SUBPOOL, "A key of `quotas` is the name of a subpool, such as team--a.")
        for name in quotas
        if not split_name(name).parent or not split_name(name).subpool
    ]
    if faults:
        raise BadInput.of(faults)


def _read_quotas(
    quotas: Mapping[str, object],
    roots: Mapping[str, Pool],
    rows: Mapping[str, Pool],
    balances: Mapping[str, PoolBalance],
) -> tuple[dict[str, FlavorsAsked], list[Violation]]:
    """The quotas in GPUs by name, and every fault."""
    parsed: dict[str, FlavorsAsked] = {}
    faults: list[Violation] = []
    for name, requested in quotas.items():
        path, parent = f"quotas.{name}", split_name(name).parent
        row, root = rows.get(name), roots.get(parent)
        if row is None or root is None:
            faults.append(
                Violation(path, Fault.UNKNOWN_SUBPOOL, f"Pool {parent} has no subpool {split_name(name).subpool}.")
            )
            continue
        if state := _state_violation(root, row, path):
            faults.append(state)
            continue
        alone, by_flavor = (None, requested) if isinstance(requested, Mapping) else (requested, None)
        present = gpus_by_flavor(row.flavors)
        quota = read_subpool_quota(alone, by_flavor, balances[parent], present=present, path=path, paths=path)
        if isinstance(quota, list):
            faults += quota
        else:
            parsed[name] = quota
    return parsed, faults or list(_sum_violations(parsed, roots, balances))


def _state_violation(root: Pool, row: Pool, path: str) -> Violation | None:
    if root.archived:
        return Violation(path, Fault.ARCHIVED, f"Pool {root.name} is archived. Put it again to bring it back.")
    if row.subpool_state != SubpoolState.ACTIVE:
        message = f"Subpool {row.name} is {row.subpool_state}; only the quota of an ACTIVE subpool can change."
        return Violation(path, Fault.WRONG_STATE, message)
    return None


def _sum_violations(
    parsed: Mapping[str, FlavorsAsked], roots: Mapping[str, Pool], balances: Mapping[str, PoolBalance]
) -> Iterator[Violation]:
    for parent in sorted({split_name(name).parent for name in parsed}):
        own = {split_name(name).subpool or "": quota for name, quota in parsed.items() if _is_of(name, parent)}
        yield from sums_violations(balances[parent], own, roots[parent].part_flavors)


def _is_of(name: str, parent: str) -> bool:
    return split_name(name).parent == parent


def _require_no_approvals(
    roots: Mapping[str, Pool], rows: Mapping[str, Pool], quotas: Mapping[str, FlavorsAsked]
) -> None:
    refused: list[Violation] = []
    for name, quota in sorted(quotas.items()):
        try:
            require_no_subpool_approval(roots[split_name(name).parent], name, row=rows[name], asked=quota)
        except ApprovalNeeded as need:
            refused += need.violations
    if refused:
        advice = "Such changes are requested for one subpool at a time. Nothing was changed."
        raise Conflict(f"{joined_messages(refused)} {advice}", refused)
