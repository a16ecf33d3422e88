"""Workers by name: allocate, adjust, commit, release, and let reservations expire.

Each operation is one transaction under the namespace's lock, so no other process can allocate between the check and the
record. Each operation is idempotent by the id of a live allocation.
Source: design, G2, G3, G4, G5, D14.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models.functions import Now
from django.utils import timezone

from pools.database.one_by_one import left_out_on_error
from pools.database.prepared import read_rows
from pools.database.transactions import change, database_time
from pools.domain.changes.gpu_allocations import AdjustWorker, AllocateWorker, CommitWorker, ReleaseWorker
from pools.domain.errors import BadInput, Conflict, DomainError, ErrorCode, Fault, NotFound, Violation
from pools.domain.gpu_quota.checks import BrokenCap, broken_caps, broken_caps_of_change, broken_caps_of_gang
from pools.domain.gpu_quota.spec import namespace_violations
from pools.domain.gpu_quota.workers import (
    NO_WORKERS,
    GangWorker,
    GpuWorker,
    WorkerTotals,
    totals_of_worker,
    totals_of_workers,
)
from pools.domain.people.roles import SYSTEM, Actor, Permission
from pools.locking import lock_namespace, lock_namespace_and_worker, lock_namespaces
from pools.models import Backend, GpuAllocation
from pools.permissions import require_namespace, require_platform
from pools.selectors.gpu_namespace import GpuNamespace, allocation_columns, worker_from_row
from pools.services.gpu_quota.gpu_quota_conditions import update_conditions

ASSUMPTION_LIFETIME = timedelta(minutes=30)
"""The time after which a reservation without a commit expires."""

RELEASED_RETENTION = timedelta(days=90)
"""The time after which released allocations are deleted."""

EXPIRY_BATCH = 1000  # rows of one transaction of the sweep
PURGE_BATCH = 10_000

State, Source = GpuAllocation.State, GpuAllocation.Source


def allocate(command: AllocateWorker, *, actor: Actor, description: str = "") -> GpuAllocation:
    """Record one worker if every cap allows it. `assume` only reserves it, until it is committed or
    :data:`ASSUMPTION_LIFETIME` is over.

    A live allocation of the same id is returned if its amounts are the same; other amounts raise Conflict. A broken cap
    on one worker raises BadInput, a broken total Conflict; both carry every broken rule in the order of the checks.
    Without a quota every worker is recorded.
    """
    namespace, assume = command.namespace, command.assume
    require_namespace(actor, namespace, Permission.POOL_MANAGE_WORK)
    if faults := namespace_violations(namespace):
        raise BadInput.of(faults)
    with change(actor=actor, description=description):
        facts, newest = lock_namespace_and_worker(namespace, command.id)
        spec = facts.spec
        worker = spec.with_defaults(command.worker)
        if newest is not None and newest.state != State.RELEASED:
            return _require_same_amounts(newest, command.worker, worker)
        raise_broken_caps(namespace, broken_caps(spec, facts.committed_and_assumed, worker))
        row = GpuAllocation(
            namespace=namespace,
            name=command.id,
            workload=command.workload,
            state=State.ASSUMED if assume else State.COMMITTED,
            expires_at=database_time() + ASSUMPTION_LIFETIME if assume else None,
            **allocation_columns(worker),
        )
        if not assume:
            update_conditions(facts.quota, spec, facts.committed + totals_of_worker(worker), timezone.now())
        insert_allocation(row)
    return row


def insert_allocation(row: GpuAllocation) -> None:
    """Insert a new allocation, with the namespace locked; the row gets its id and times. A prepared statement, because
    each allocation runs it."""
    values = [json.dumps(row.written) if name == "written" else getattr(row, name) for name in _INSERTED]
    [(row.pk, row.created_at, row.changed_at)] = read_rows(_INSERT_SQL, values)


_STAMPED = ("id", "created_at", "changed_at")
_INSERTED = [field.attname for field in GpuAllocation._meta.concrete_fields if field.attname not in _STAMPED]
_INSERT_SQL = f"""
    INSERT INTO pools_gpuallocation ({", ".join(_INSERTED)}) VALUES ({", ".join("%s" for _ in _INSERTED)})
    RETURNING {", ".join(_STAMPED)}
"""
_RELEASE_SQL = f"""
    UPDATE pools_gpuallocation SET state = '{State.RELEASED}', expires_at = NULL, reason = %s WHERE id = ANY(%s)
    RETURNING id, released_at
"""


def adjust(command: AdjustWorker, *, actor: Actor, description: str = "") -> GpuAllocation:
    """Give a live allocation new amounts per GPU. Only amounts that grow are checked, so a decrease is never refused.
    Raises BadInput, NotFound, and Conflict (a broken total, a released allocation, or an allocation of a pod or of a
    workflow task)."""
    namespace, name = command.namespace, command.id
    require_namespace(actor, namespace, Permission.POOL_MANAGE_WORK)
    with change(actor=actor, description=description):
        facts, row = _require_live(namespace, name, "it cannot change")
        if row.source == Source.POD:
            message = f"Worker {name} in namespace {namespace} is a pod; its amounts are those of its annotations."
            raise Conflict(message, [Violation("id", Fault.KEPT_BY_POD, message)])
        _refuse_workflow(row, "its platform sets its amounts")
        before = worker_from_row(row)
        after = command.changed(before)
        if after.is_same_size(before):
            return row
        raise_broken_caps(namespace, broken_caps_of_change(facts.spec, facts.committed_and_assumed, before, after))
        _update_columns(row, allocation_columns(after))
        if row.state == State.COMMITTED:
            _update_conditions(facts, totals_of_worker(after), gone=totals_of_worker(before))
    return row


def commit(command: CommitWorker, *, actor: Actor, description: str = "") -> GpuAllocation:
    """Make a reservation a worker. A repeated commit is not an error. Raises Conflict for a released reservation."""
    require_namespace(actor, command.namespace, Permission.POOL_MANAGE_WORK)
    with change(actor=actor, description=description):
        facts, row = _require_live(command.namespace, command.id, "it cannot be committed; allocate it again")
        if row.state == State.ASSUMED:
            _update_columns(row, {"state": State.COMMITTED, "expires_at": None})
            _update_conditions(facts, totals_of_worker(worker_from_row(row)))
    return row


def release(command: ReleaseWorker, *, actor: Actor, description: str = "") -> GpuAllocation:
    """Release an allocation. A repeated release is not an error; an unknown allocation is NotFound. An
    allocation of a workflow task ends only with its workflow (Conflict). Only `osmo-admin` or the cluster may release
    the allocation of a pod."""
    require_namespace(actor, command.namespace, Permission.POOL_MANAGE_WORK)
    with change(actor=actor, description=description):
        facts, row = _lock_newest(command.namespace, command.id)
        if row.state != State.RELEASED:
            _refuse_workflow(row, "cancel the workflow instead")
            if row.source == Source.POD:
                require_platform(actor)  # the pod may still run and be counted again
            release_rows(facts, [row], reason="released")
    return row


def expire_assumed() -> int:
    """Release expired reservations, one namespace after the other, and return their number."""
    total = 0
    due = GpuAllocation.objects.filter(state=State.ASSUMED, expires_at__lt=Now())
    for namespace in sorted(set(due.values_list("namespace", flat=True))):
        with left_out_on_error("the end of GPU reservations of a namespace", namespace):
            count = EXPIRY_BATCH
            while count == EXPIRY_BATCH:
                with change(actor=SYSTEM, description="the reservation was over"):
                    facts = lock_namespace(namespace)
                    rows = list(due.filter(namespace=namespace)[:EXPIRY_BATCH])
                    release_rows(facts, rows, reason="expired")
                count = len(rows)
                total += count
    return total


def purge_released() -> int:
    """Delete old released allocations and return their number. The audit trail keeps those made through the API."""
    gone = 0
    while True:
        old = GpuAllocation.objects.filter(released_at__lt=Now() - RELEASED_RETENTION)
        some = list(old.order_by("released_at").values_list("pk", flat=True)[:PURGE_BATCH])
        if not some:
            return gone
        GpuAllocation.objects.filter(pk__in=some).delete()
        gone += len(some)


def allocate_gang(*, namespace: str, holder: UUID, workers: Sequence[GangWorker]) -> list[BrokenCap]:
    """Commit all workers of a gang, or none; returns the caps that do not allow it (defaults are filled in here).

    Inside the caller's transaction; the namespace is locked here. Workers that are committed already do not change.
    """
    facts = lock_namespace(namespace)
    live = GpuAllocation.objects.filter(holder=holder).exclude(state=State.RELEASED)
    known = set(live.values_list("name", flat=True))
    new = [(holder, each) for each in workers if each.name not in known]
    broken = (
        broken_caps_of_gang(
            facts.spec, facts.committed_and_assumed, [facts.spec.with_defaults(each.worker) for _, each in new]
        )
        if new
        else []
    )
    if new and not broken:
        _update_conditions(facts, _commit_workers(facts, new))
    return broken


def replace_gang_allocations(
    moves: Mapping[str, tuple[Collection[str], Sequence[tuple[UUID, GangWorker]]]],
) -> None:
    """By namespace: release the workers of these names, and commit those of these gangs. No cap is
    checked: admission checked the gangs before, and work that runs in a cluster counts whatever the caps say.

    Inside the caller's transaction; the namespaces are locked here.
    """
    for namespace, facts in lock_namespaces(name for name, (gone, new) in moves.items() if gone or new).items():
        gone, new = moves[namespace]
        rows = list(GpuAllocation.objects.filter(namespace=namespace, name__in=gone).exclude(state=State.RELEASED))
        released_totals = _mark_released(rows, reason="ended")
        committed_totals = _commit_workers(facts, new)
        _update_conditions(facts, committed_totals, gone=released_totals)


def change_pod_amounts(facts: GpuNamespace, row: GpuAllocation, after: GpuWorker) -> list[BrokenCap]:
    """Give the live allocation of a pod the amounts of its changed annotations, if every cap allows their growth;
    otherwise returns the broken caps. Inside the caller's transaction, with the namespace locked."""
    before = worker_from_row(row)
    if after.is_same_size(before):
        return []
    broken = broken_caps_of_change(facts.spec, facts.committed_and_assumed, before, after)
    if not broken:
        _update_columns(row, allocation_columns(after))
        if row.state == State.COMMITTED:
            _update_conditions(facts, totals_of_worker(after), gone=totals_of_worker(before))
    return broken


def _commit_workers(facts: GpuNamespace, new: Sequence[tuple[UUID, GangWorker]]) -> WorkerTotals:
    """Commit workers of gangs, defaults filled in, and return their totals."""
    workers = [facts.spec.with_defaults(each.worker) for _, each in new]
    GpuAllocation.objects.bulk_create(
        GpuAllocation(
            namespace=facts.name,
            name=each.name,
            workload=each.workload,
            source=Source.WORKFLOW,
            holder=holder,
            **allocation_columns(worker),
        )
        for (holder, each), worker in zip(new, workers, strict=True)
    )
    return totals_of_workers(workers)


def release_rows(facts: GpuNamespace, rows: Sequence[GpuAllocation], *, reason: str) -> None:
    """Release live rows of one locked namespace, in one statement."""
    if rows:
        _update_conditions(facts, NO_WORKERS, gone=_mark_released(rows, reason=reason))


def release_backend_pods(backend: Backend) -> None:
    """Release the pods of a cluster that is removed, inside the caller's transaction."""
    live = GpuAllocation.objects.filter(backend=backend).exclude(state=State.RELEASED)
    for facts in lock_namespaces(live.values_list("namespace", flat=True)).values():
        release_rows(facts, list(live.filter(namespace=facts.name)), reason="the backend was removed")


def _mark_released(rows: Sequence[GpuAllocation], *, reason: str) -> WorkerTotals:
    """Release these live rows and return the totals of those that were committed."""
    if not rows:
        return NO_WORKERS
    times: dict[int, datetime] = dict(read_rows(_RELEASE_SQL, [reason, [row.pk for row in rows]]))
    gone = totals_of_workers(worker_from_row(row) for row in rows if row.state == State.COMMITTED)
    for row in rows:
        row.state, row.expires_at, row.reason, row.released_at = State.RELEASED, None, reason, times[row.pk]
    return gone


def raise_broken_caps(namespace: str, broken: Sequence[BrokenCap]) -> None:
    """Raise the error for these broken caps: BadInput (final) if one of them is on a single worker, else Conflict,
    which may resolve."""
    if not broken:
        return
    kind: type[DomainError] = Conflict if all(each.is_resolvable for each in broken) else BadInput
    details = [each.as_violation(namespace) for each in broken]
    raise kind(details[0].message, details, error_code=ErrorCode.RESOURCE)


def _update_conditions(facts: GpuNamespace, committed_totals: WorkerTotals, *, gone: WorkerTotals = NO_WORKERS) -> None:
    update_conditions(facts.quota, facts.spec, (facts.committed + committed_totals).minus(gone), timezone.now())


def _require_same_amounts(live: GpuAllocation, requested: GpuWorker, worker: GpuWorker) -> GpuAllocation:
    before = worker_from_row(live)
    # The first request may have been filled with defaults that have changed since.
    if before.is_same_size(worker) or before.is_same_size(requested):
        return live
    message = (
        f"Allocation {live.name} is live in namespace {live.namespace} with other amounts; "
        "adjust it, or release it first."
    )
    raise Conflict(message, [Violation("id", Fault.OTHER_AMOUNTS, message)])


def _lock_newest(namespace: str, name: str) -> tuple[GpuNamespace, GpuAllocation]:
    """The locked namespace, and the live allocation of that id or the one released last."""
    facts, row = lock_namespace_and_worker(namespace, name)
    if row is None:
        raise NotFound(f"There is no allocation {name[:100]} in namespace {namespace[:100]}.")
    return facts, row


def _require_live(namespace: str, name: str, consequence: str) -> tuple[GpuNamespace, GpuAllocation]:
    facts, row = _lock_newest(namespace, name)
    if row.state == State.RELEASED:
        how = "expired" if row.reason == "expired" else "was released"
        message = f"Allocation {name} in namespace {namespace} {how}; {consequence}."
        raise Conflict(message, [Violation("id", Fault.RELEASED, message)])
    return facts, row


def _refuse_workflow(row: GpuAllocation, instead: str) -> None:
    if row.source == Source.WORKFLOW:
        message = f"Worker {row.name} in namespace {row.namespace} is the workflow task {row.workload}; {instead}."
        raise Conflict(message, [Violation("id", Fault.KEPT_BY_WORKFLOW, message)])


def _update_columns(row: GpuAllocation, columns: Mapping[str, Any]) -> None:
    for column, value in columns.items():
        setattr(row, column, value)
    row.save(update_fields=list(columns))
