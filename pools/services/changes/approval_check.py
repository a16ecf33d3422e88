"""The check of services that change quotas: whether a second person has to approve (:mod:`pools.domain.approvals`).

It runs under the lock of the pool's tree, after all other checks: only a change that could be made is requested.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from pools.domain.approvals import (
    ApprovalNeeded,
    changes_above,
    loosens_limit,
    moved_limits_above,
    pool_changes_above,
    subpool_amounts,
)
from pools.domain.configuration.flavors import parts_among
from pools.domain.configuration.pool_config import PoolSettings
from pools.domain.configuration.pool_fields import APPROVAL_ABOVE
from pools.domain.configuration.pool_flavors import FlavorsAsked
from pools.domain.errors import Conflict, joined_messages
from pools.domain.quota.pool_balance import FlavorQuota
from pools.domain.quota.stored_quotas import flavor_quotas, gpus_by_flavor
from pools.domain.subpool_lifecycle import SubpoolState
from pools.models import Cohort, Pool
from pools.representations.pool import pool_settings_of

_is_approved: ContextVar[bool] = ContextVar("osmo_is_approved", default=False)


@contextmanager
def approved() -> Iterator[None]:
    """Inside, changes need no further approval: a second person gave it, in a request or in the review of files in
    Git; or only the effect is read and rolled back."""
    mark = _is_approved.set(True)
    try:
        yield
    finally:
        _is_approved.reset(mark)


def approval_limit(root: Pool) -> int | None:
    """`approval_above` of a top-level pool; None: its changes need no approval."""
    found: int | None = root.config.get(APPROVAL_ABOVE)
    return found


def require_no_pool_approval(row: Pool, desired: PoolSettings | None, *, path: str = "") -> None:
    """Raise ApprovalNeeded if this change of a top-level pool needs an approval. `desired` None: the pool goes."""
    limit = approval_limit(row)
    if limit is None or _is_approved.get():
        return
    before = None if row.archived else pool_settings_of(row)
    new_limit = None if desired is None else desired.config.get(APPROVAL_ABOVE)
    changes, is_loosened = pool_changes_above(before, desired, limit), loosens_limit(limit, new_limit)
    if changes or is_loosened:
        raise ApprovalNeeded.for_change(
            subject=row.name,
            version=row.version,
            pool_id=row.pk,
            limit=limit,
            changes=changes,
            is_loosened=is_loosened,
            loosened_to=new_limit,
            path=path,
            **_units(row, () if desired is None else flavor_quotas(desired.flavors)),
        )


def _units(root: Pool, desired: Iterable[FlavorQuota] = ()) -> dict[str, Any]:
    """The flavors of a pool before and after a change, and those that count parts of shared GPUs on its cluster."""
    flavors = dict.fromkeys([*root.gpu_flavors, *(each.flavor for each in desired)])
    return {"flavors": flavors, "parts": parts_among(root.backend.flavors) if flavors and root.backend else ()}


def require_no_approvals(desired: Sequence[tuple[Pool, PoolSettings, str]]) -> None:
    """The same for several pools (row, desired configuration, path) of one request. One refusal names all; changes of
    several pools cannot be requested together."""
    refusals = []
    for row, settings, path in desired:
        try:
            require_no_pool_approval(row, settings, path=path)
        except ApprovalNeeded as refusal:
            refusals.append(refusal)
    if len(refusals) == 1 and len(desired) == 1 and not desired[0][2]:
        raise refusals[0]
    _refuse_together(
        refusals, "Such changes are requested for one pool at a time: PUT /api/configs/pool/NAME?request_approval=true."
    )


def require_no_move_approvals(moves: Mapping[str, tuple[str | None, str | None]]) -> None:
    """Raise Conflict if a pool below one of these cohorts needs an approval to move with it. `moves` has the parent of
    each cohort before and after, None: it has none. The caller holds the configuration, under which pools get their
    limits and cohorts their parents."""
    if _is_approved.get():
        return
    parents = dict(Cohort.objects.values_list("name", "parent__name"))
    limited = Pool.objects.roots().filter(
        cohort__isnull=False, archived=False, **{f"config__{APPROVAL_ABOVE}__isnull": False}
    )
    refusals = []
    for row in limited.select_related("backend", "cohort").order_by("name"):
        assert row.cohort is not None
        settings, limit = pool_settings_of(row), approval_limit(row)
        for name in _with_parents(row.cohort.name, parents):
            before, after = moves.get(name, (None, None))
            if before == after or limit is None:
                continue
            if changes := moved_limits_above(settings, (_place(name, before), _place(name, after)), limit):
                refusals.append(
                    ApprovalNeeded.for_change(
                        subject=row.name,
                        version=row.version,
                        pool_id=row.pk,
                        limit=limit,
                        changes=changes,
                        path=f"pools.{row.name}",
                        **_units(row),
                    )
                )
    _refuse_together(
        refusals,
        "The move of a cohort cannot be requested. Move such pools one at a time: PATCH "
        "/api/configs/pool/NAME?request_approval=true with the new cohort.",
    )


def _with_parents(name: str, parents: Mapping[str, str | None]) -> Iterator[str]:
    """A cohort and the cohorts above it. A cycle, which raw SQL can make, ends where it closes."""
    seen: set[str] = set()
    above: str | None = name
    while above is not None and above not in seen:
        seen.add(above)
        yield above
        above = parents.get(above)


def _place(cohort: str, parent: str | None) -> str:
    return f"cohort {cohort}, which has no parent" if parent is None else f"cohort {parent}"


def _refuse_together(refusals: Sequence[ApprovalNeeded], advice: str) -> None:
    """Raise one Conflict with all of them; nothing if there are none."""
    if refusals:
        violations = [each for refusal in refusals for each in refusal.violations]
        raise Conflict(f"{joined_messages(violations)} {advice} Nothing was changed.", violations)


def require_no_subpool_approval(
    root: Pool,
    subject: str,
    *,
    row: Pool | None,
    asked: FlavorsAsked,
    after: FlavorsAsked | None = None,
    resolved: Mapping[str, Any] | None = None,
) -> None:
    """Raise ApprovalNeeded if this quota of a subpool needs an approval. `row` is the subpool now, None for a new one;
    one that is not ACTIVE has no quota. `after`: what follows a temporary quota."""
    limit = approval_limit(root)
    if limit is None or _is_approved.get():
        return
    before = subpool_amounts(FlavorsAsked(0))
    if row is not None and row.subpool_state == SubpoolState.ACTIVE:
        now = FlavorsAsked(row.last_quota or 0, gpus_by_flavor(row.flavors))
        lasting = None if row.quota_after is None else FlavorsAsked(row.quota_after, gpus_by_flavor(row.flavors_after))
        before = subpool_amounts(now, lasting)
    changes = changes_above(before, subpool_amounts(asked, after), limit)
    if changes:
        raise ApprovalNeeded.for_change(
            subject=subject,
            version=None if row is None else row.version,
            pool_id=root.pk,
            limit=limit,
            changes=changes,
            resolved=resolved,
            **_units(root),
        )
