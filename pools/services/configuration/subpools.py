"""Subpools of a pool: create, resize, delete, drain, recreate.

Source: design, D1, D3, D4, D7, D8.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.db.models import F, QuerySet
from django.db.models.functions import Now

from pools.database.one_by_one import work_in_batch
from pools.database.transactions import change, database_time
from pools.domain import names, subpool_lifecycle
from pools.domain.changes.subpools import CreateSubpool, DeleteSubpool, ResizeSubpool, SetDrainDeadline
from pools.domain.configuration.pool_flavors import FlavorsAsked, asked_violations, read_subpool_quota
from pools.domain.configuration.version_check import check_version
from pools.domain.errors import BadInput, Conflict, Fault, NotFound, Violation
from pools.domain.people.roles import SYSTEM, Actor, Permission
from pools.domain.quota.pool_balance import PoolBalance, Subpool
from pools.domain.quota.stored_quotas import StoredFlavors, gpus_by_flavor
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import gpu_words, gpus_text
from pools.domain.values.counting import counted
from pools.domain.values.durations import minute_text
from pools.locking import lock_pool_tree, lock_pool_trees
from pools.models import Pool, Reservation
from pools.permissions import get_visible_root, require_permission, unknown_pool
from pools.selectors.quotas.pool_balance import read_balance, subpool_from_row
from pools.services.changes.approval_check import require_no_subpool_approval
from pools.services.configuration.pending_work import pending_work

DRAIN_BATCH = 500
LONGEST_TEMPORARY_QUOTA = timedelta(days=366)
LONGEST_DRAIN = timedelta(days=366)
TEMPORARY_QUOTA_ENDED = "the temporary quota ended"


@dataclass(frozen=True, slots=True)
class SubpoolResult:
    """A subpool after a change, and the warnings about it. `cancelled` is the number of workflows that a deletion has
    cancelled, None where it was not asked to."""

    row: Pool
    subpool: Subpool
    warnings: tuple[str, ...] = ()
    reactivated: bool = False
    cancelled: int | None = None

    @property
    def quota_text(self) -> str:
        """Its quota: `8 GPUs`, and with flavors `8 h100 GPUs`."""
        return gpus_text(self.subpool.quota, self.subpool.quotas, self.row.root.part_flavors)

    @property
    def quota_after_text(self) -> str:
        """The quota after a temporary one."""
        return gpus_text(self.subpool.quota_after or 0, self.subpool.quotas_after, self.row.root.part_flavors)


def create_subpool(
    command: CreateSubpool, *, actor: Actor, description: str = "", expected_version: int | None = None
) -> SubpoolResult:
    """Create a subpool, or restore an ARCHIVED one of that name (design, D8).

    `quota` is whole GPUs, a fraction or a percentage of the parent; `quotas` is the same by flavor. Raises BadInput
    (name, quota), Conflict (the name is ACTIVE or DELETING), NotFound/Forbidden (role).
    """
    require_permission(actor, Permission.POOL_PARTITION, command.parent)
    visible_root = get_visible_root(actor, command.parent)
    with change(actor=actor, description=description):
        root = _open_tree(visible_root)
        facts = read_balance(root)
        found = names.short_name_violations(
            command.subpool_name, namespace=root.namespace, parent=root.name, path="subpool_name"
        )
        row = Pool.objects.filter(parent=root, subpool_name=command.subpool_name).select_related("usage").first()
        if row is not None and row.subpool_state != SubpoolState.ARCHIVED:
            _check_version(row, expected_version)
            raise _name_conflict(row)
        asked = _allowed_quota(
            facts, command.subpool_name, command.quota, command.quotas, found, parts=root.part_flavors
        )
        name = names.canonical_name(root.name, command.subpool_name)
        check_version(name, expected_version, None if row is None else row.version)
        require_no_subpool_approval(root, name, row=row, asked=asked, resolved=asked.as_asked)
        if row is None:
            row = Pool.objects.create(
                name=name,
                parent=root,
                subpool_name=command.subpool_name,
                subpool_state=SubpoolState.ACTIVE,
                last_quota=asked.gpus,
                flavors=asked.stored,
            )
            reactivated = False
        else:
            row.subpool_state, row.last_quota, row.flavors = SubpoolState.ACTIVE, asked.gpus, asked.stored
            row.save(update_fields=["subpool_state", "last_quota", "flavors"])
            reactivated = True
        return read_result(row, warnings=asked.warnings, reactivated=reactivated)


def resize_subpool(
    command: ResizeSubpool, *, actor: Actor, description: str = "", expected_version: int | None = None
) -> SubpoolResult:
    """Give an ACTIVE subpool another quota. After a decrease running work continues, so `available` may be negative.

    With `until` the quota is temporary: at that time the subpool gets its present quota again
    (:func:`end_temporary_quotas`). Only a raise can be temporary: to end a cut, the subpool would need GPUs that
    another one may own by then. A change without `until` is lasting, and ends a temporary quota.
    """
    require_permission(actor, Permission.POOL_PARTITION, command.parent)
    visible_root = get_visible_root(actor, command.parent)
    with change(actor=actor, description=description):
        root = _open_tree(visible_root)
        row = _find_subpool(root, command.subpool_name)
        _check_version(row, expected_version)
        _require_active(row, "its quota cannot change")
        present = gpus_by_flavor(row.flavors)
        facts, parts = read_balance(root), root.part_flavors
        asked = _allowed_quota(facts, command.subpool_name, command.quota, command.quotas, [], present, parts)
        lasting, flavors = lasting_quota(row)
        if command.until is not None:
            _check_temporary(row, asked, FlavorsAsked(lasting, gpus_by_flavor(flavors)), parts, until=command.until)
        after = None if command.until is None else FlavorsAsked(lasting, gpus_by_flavor(flavors))
        require_no_subpool_approval(root, row.name, row=row, asked=asked, after=after, resolved=asked.as_asked)
        warnings = asked.warnings
        if command.until is None and row.quota_until is not None:
            warnings += (
                f"The temporary quota of {row.name} until {minute_text(row.quota_until)} ends with this change.",
            )
        row.last_quota, row.flavors = asked.gpus, asked.stored
        row.quota_until, row.quota_after, row.flavors_after = (
            (command.until, lasting, flavors) if command.until is not None else (None, None, [])
        )
        row.save(update_fields=["last_quota", "flavors", "quota_until", "quota_after", "flavors_after"])
        return read_result(row, warnings=warnings)


def lasting_quota(row: Pool) -> tuple[int, StoredFlavors]:
    """The quota of a subpool without its temporary raise, in all and by flavor."""
    quota, flavors = (row.last_quota, row.flavors) if row.quota_after is None else (row.quota_after, row.flavors_after)
    assert quota is not None, "a subpool has a quota (constraint pool_is_root_or_slice)"
    return quota, flavors


def delete_subpool(
    command: DeleteSubpool, *, actor: Actor, description: str = "", expected_version: int | None = None
) -> SubpoolResult:
    """Delete a subpool without stopping work: it is ARCHIVED at once if it has no live workflows, else DELETING until
    they have ended (design, D3). `cancel_pending` cancels the workflows that have not started, in the same transaction.
    `drain_by` is the deadline of the drain, as in :func:`set_drain_deadline`."""
    require_permission(actor, Permission.POOL_PARTITION, command.parent)
    visible_root = get_visible_root(actor, command.parent)
    with change(actor=actor, description=description):
        root = _open_tree(visible_root)
        row = _find_subpool(root, command.subpool_name)
        _check_version(row, expected_version)
        _require_active(row, "it cannot be deleted again")
        if command.drain_by is not None:
            _check_deadline(command.drain_by)
        require_no_subpool_approval(root, row.name, row=row, asked=FlavorsAsked(0))
        cancelled = pending_work.cancel(actor=actor, leaf=row) if command.cancel_pending else None
        row.usage.refresh_from_db()
        row.subpool_state = subpool_lifecycle.state_after_delete(live_workflows=row.usage.live_workflows)
        row.quota_until, row.quota_after, row.flavors_after = None, None, []
        drains = row.subpool_state == SubpoolState.DELETING
        row.drain_by = command.drain_by if drains else None
        row.save(update_fields=["subpool_state", "quota_until", "quota_after", "flavors_after", "drain_by"])
        is_needless = command.drain_by is not None and not drains
        warnings = (f"{row.name} has no active work, so it needs no deadline.",) if is_needless else ()
        return replace(read_result(row, warnings=warnings), cancelled=cancelled)


def set_drain_deadline(
    command: SetDrainDeadline, *, actor: Actor, description: str = "", expected_version: int | None = None
) -> SubpoolResult:
    """Set the time at which the work of a draining subpool should have ended; None removes it.

    A deadline stops no work and changes neither quota nor state, which are frozen during a drain. After it, the
    subpool is a problem on Home, and notices tell about it. Raises BadInput for a time that is past or more than
    LONGEST_DRAIN ahead, Conflict for a subpool that does not drain, NotFound/Forbidden (role).
    """
    require_permission(actor, Permission.POOL_PARTITION, command.parent)
    visible_root = get_visible_root(actor, command.parent)
    with change(actor=actor, description=description):
        root = _open_tree(visible_root)
        row = _find_subpool(root, command.subpool_name)
        _check_version(row, expected_version)
        if row.subpool_state != SubpoolState.DELETING:
            message = (
                f"Subpool {row.name} is {row.subpool_state}, so it has no drain that could have a deadline. Give the "
                "deadline when you delete it, or while it drains."
            )
            raise Conflict(message, [Violation("subpool_state", Fault.WRONG_STATE, message)])
        if command.drain_by is not None:
            _check_deadline(command.drain_by)
        row.drain_by = command.drain_by
        row.save(update_fields=["drain_by"])
        return read_result(row)


def end_temporary_quotas() -> int:
    """Give every subpool whose temporary quota has ended the quota that follows it, and return their number. Running
    work continues, as after any decrease, so the given-back GPUs drain where they are in use. Each batch is one
    transaction that locks its trees in order."""
    ended, last = 0, 0
    while True:
        due = Pool.objects.filter(quota_until__lte=Now(), pk__gt=last).order_by("pk")
        if not (batch := list(due.values_list("pk", flat=True)[:DRAIN_BATCH])):
            return ended
        ended += work_in_batch("the end of a temporary quota of a subpool", batch, _end_temporary)
        last = batch[-1]


def _end_temporary(subpools: Sequence[int]) -> int:
    with change(actor=SYSTEM, description=TEMPORARY_QUOTA_ENDED):
        due = Pool.objects.filter(pk__in=subpools, quota_until__lte=Now())
        lock_pool_trees(set(due.exclude(parent=None).values_list("parent_id", flat=True)))
        return due.update(
            last_quota=F("quota_after"), flavors=F("flavors_after"), quota_until=None, quota_after=None,
            flavors_after=[],
        )  # fmt: skip


def archive_if_drained(*, root: Pool, leaf_id: int) -> bool:
    """Archive a DELETING subpool that has no live workflows. The caller holds the tree's lock and its transaction."""
    if leaf_id == root.pk:
        return False
    drained = Pool.objects.filter(
        pk=leaf_id, parent=root, subpool_state=SubpoolState.DELETING, usage__live_workflows=0
    ).update(subpool_state=SubpoolState.ARCHIVED, drain_by=None)
    return bool(drained)


def archive_drained() -> int:
    """Archive every DELETING subpool without live workflows, and return the number of them. Normally the last workflow
    that ends archives its subpool; this periodic job finds subpools where that did not happen.

    Each batch is one transaction that locks its trees in order, so concurrent jobs and workflows that end at the
    same time do no harm. The job counts reservations and does not read the counter `live_workflows`, which may be
    wrong.
    """
    archived_count, last = 0, 0
    while True:
        batch = list(_drained().filter(pk__gt=last).order_by("pk").values_list("pk", flat=True)[:DRAIN_BATCH])
        if not batch:
            return archived_count
        archived_count += work_in_batch("the archive of a drained subpool", batch, _archive)
        last = batch[-1]


def _archive(subpools: Sequence[int]) -> int:
    with change(actor=SYSTEM, description="drained"):
        drained = _drained().filter(pk__in=subpools)
        lock_pool_trees(set(drained.exclude(parent=None).values_list("parent_id", flat=True)))
        return drained.update(subpool_state=SubpoolState.ARCHIVED, drain_by=None)


def _drained() -> QuerySet[Pool]:
    return Pool.objects.filter(subpool_state=SubpoolState.DELETING).exclude(
        pk__in=Reservation.objects.values("pool_id")
    )


def _open_tree(visible_root: Pool) -> Pool:
    try:
        root = lock_pool_tree(visible_root.pk)
    except Pool.DoesNotExist:
        raise unknown_pool(visible_root.name) from None
    if root.archived:
        raise Conflict(f"Pool {root.name} is archived. Put it again to bring it back, then partition it.")
    return root


def _find_subpool(root: Pool, subpool_name: str) -> Pool:
    row = Pool.objects.filter(parent=root, subpool_name=subpool_name).select_related("usage").first()
    if row is None:
        raise NotFound(f"Pool {root.name} has no subpool {subpool_name}.")
    return row


def _require_active(row: Pool, consequence: str) -> None:
    if row.subpool_state == SubpoolState.ACTIVE:
        return
    what_to_do = (
        "Wait until it has drained and is archived; then it can be recreated."
        if row.subpool_state == SubpoolState.DELETING
        else "Create it again to bring it back."
    )
    message = f"Subpool {row.name} is {row.subpool_state}, so {consequence}. {what_to_do}"
    raise Conflict(message, [Violation("subpool_state", Fault.WRONG_STATE, message)])


def _name_conflict(row: Pool) -> Conflict:
    advice = (
        "Change its quota instead, or choose another name."
        if row.subpool_state == SubpoolState.ACTIVE
        else "Wait until it has drained; then the name is free again."
    )
    message = f"Subpool {row.name} exists and is {row.subpool_state}. {advice}"
    return Conflict(message, [Violation("subpool_name", Fault.NAME_TAKEN, message)])


def _check_version(row: Pool, expected: int | None) -> None:
    check_version(row.name, expected, row.version)


def _allowed_quota(
    facts: PoolBalance,
    name: str,
    quota: object,
    quotas: object,
    found: Collection[Violation],
    present: Mapping[str, int] | None = None,
    parts: Collection[str] = (),
) -> FlavorsAsked:
    """The requested quota; `parts` are the flavors that count parts of shared GPUs. Raises BadInput with the
    faults found before and those of the quota itself."""
    asked = read_subpool_quota(quota, quotas, facts, present=present)
    faults = asked if isinstance(asked, list) else list(asked_violations(facts, name, asked, parts))
    if found or faults:
        raise BadInput.of([*found, *faults])
    assert isinstance(asked, FlavorsAsked)
    return asked


def _check_temporary(
    row: Pool, asked: FlavorsAsked, lasting: FlavorsAsked, parts: Collection[str], *, until: datetime
) -> None:
    """Raise BadInput unless the subpool may have this quota until this time."""
    now = database_time()
    if not now < until <= now + LONGEST_TEMPORARY_QUOTA:
        days = LONGEST_TEMPORARY_QUOTA.days
        message = (
            f"A temporary quota ends after {minute_text(now)}, at most {days} days later. Give such a time, or leave "
            "the end out for a lasting quota."
        )
        raise BadInput.of([Violation("until", Fault.BAD_END, message, numbers=(("longest_days", days),))])
    for flavor, gpus in lasting.by_flavor.items():
        if (quota := asked.by_flavor.get(flavor, 0)) < gpus:
            message = (
                f"A temporary quota of {counted(quota, *gpu_words(flavor, parts))} is below the lasting quota of "
                f"{row.name}, {gpus}. Only a raise can be temporary. Ask for at least {gpus}, or leave the end out."
            )
            numbers = (("flavor", flavor), ("requested", quota), ("lasting", gpus))
            raise BadInput.of([Violation(f"quotas.{flavor}", Fault.TEMPORARY_CUT, message, numbers=numbers)])
    if asked.gpus <= lasting.gpus:
        raised = gpus_text(asked.gpus, asked.by_flavor, parts)
        message = (
            f"A temporary quota of {raised} is not above the lasting quota of {row.name}, {lasting.gpus}. Only "
            f"a raise can be temporary: at its end {row.name} would need GPUs that another subpool may own by then. "
            f"Ask for more than {lasting.gpus}, or leave the end out."
        )
        raise BadInput.of([Violation("until", Fault.TEMPORARY_CUT, message, numbers=(("lasting", lasting.gpus),))])


def _check_deadline(drain_by: datetime) -> None:
    """Raise BadInput unless a drain may have this deadline."""
    now = database_time()
    if now < drain_by <= now + LONGEST_DRAIN:
        return
    message = (
        f"The deadline of a drain is after {minute_text(now)}, at most {LONGEST_DRAIN.days} days later. Give such a "
        "time, or leave it out."
    )
    raise BadInput.of(
        [Violation("drain_by", Fault.BAD_DEADLINE, message, numbers=(("longest_days", LONGEST_DRAIN.days),))]
    )


def read_result(row: Pool, *, warnings: tuple[str, ...] = (), reactivated: bool = False) -> SubpoolResult:
    """The result with the row as it is now in the database, where triggers changed its version and counters."""
    fresh = Pool.objects.select_related("parent__backend", "usage").get(pk=row.pk)
    return SubpoolResult(fresh, subpool_from_row(fresh), warnings, reactivated)
