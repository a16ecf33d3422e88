"""Workers by name: allocate, adjust, commit, release, and let reservations expire.

Each is one transaction under the lock of the namespace, so the check and the record are one step for every interface
and process. Each is idempotent by the id of a live allocation.
Source: tensorfusion-quota.md, sections 2, 3, 5 and 7; decision D14.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.utils import timezone

from pools.domain.errors import BadInput, Conflict, DomainError, ErrorCode, NotFound, Violation
from pools.domain.gpu_quota.checks import BrokenCap, broken_caps, broken_caps_of_change, broken_caps_of_gang
from pools.domain.gpu_quota.spec import namespace_violations
from pools.domain.gpu_quota.workers import (
    NO_WORKERS,
    AllocationRequest,
    GpuWorker,
    WorkerTotals,
    parse_adjustment,
    totals_of_worker,
    totals_of_workers,
)
from pools.domain.roles import SYSTEM, Actor, Permission
from pools.locking import lock_namespace, lock_namespaces
from pools.models import GpuAllocation
from pools.permissions import require_namespace, require_platform
from pools.selectors.gpu_namespace import GpuNamespace, allocation_columns, worker_from_row
from pools.services.gpu_quota_conditions import update_conditions
from pools.transactions import change

ASSUMPTION_LIFETIME = timedelta(minutes=30)
"""How long a reservation waits for its commit."""

RELEASED_RETENTION = timedelta(days=90)
"""How long released allocations are kept."""

EXPIRY_BATCH = 1000  # rows of one transaction of the sweep
PURGE_BATCH = 10_000

State, Source = GpuAllocation.State, GpuAllocation.Source


def allocate(
    *, actor: Actor, namespace: str, request: AllocationRequest, assume: bool = False, description: str = ""
) -> GpuAllocation:
    """Record one worker if every cap allows it. `assume` only reserves it, until it is committed or
    :data:`ASSUMPTION_LIFETIME` is over.

    The same live id with the same amounts is answered as it is, with others it is a Conflict. A cap on one worker is a
    BadInput, a total a Conflict; both have every broken rule in the order of the checks. Without a quota everything
    fits and is recorded all the same.
    """
    require_namespace(actor, namespace, Permission.POOL_MANAGE_WORK)
    if faults := namespace_violations(namespace):
        raise BadInput.of(faults)
    with change(actor=actor, description=description):
        facts = lock_namespace(namespace)
        worker = facts.spec.with_defaults(request.worker)
        live = _live(namespace, request.name)
        if live is not None:
            return _same(live, request, worker)
        raise_broken_caps(namespace, broken_caps(facts.spec, facts.committed_and_assumed, worker))
        now = timezone.now()
        row = GpuAllocation.objects.create(
            namespace=namespace,
            name=request.name,
            workload=request.workload,
            state=State.ASSUMED if assume else State.COMMITTED,
            expires_at=now + ASSUMPTION_LIFETIME if assume else None,
            **allocation_columns(worker),
        )
        if not assume:
            update_conditions(facts.quota, facts.spec, facts.committed + totals_of_worker(worker), now)
    return row


def adjust(*, actor: Actor, namespace: str, name: str, body: Mapping[str, Any], description: str = "") -> GpuAllocation:
    """Give a live allocation new amounts per GPU; what `body` leaves out stays. Only what grows is checked, so a
    release is never refused. Raises BadInput, Conflict (a total, or it was released, or it counts a pod or a task of a
    workflow), NotFound."""
    require_namespace(actor, namespace, Permission.POOL_MANAGE_WORK)
    with change(actor=actor, description=description):
        facts = lock_namespace(namespace)
        row = _live_or_refuse(namespace, name, "it cannot change")
        if row.source == Source.POD:
            sentence = f"Worker {name} in namespace {namespace} is a pod; its amounts are those of its annotations."
            raise Conflict(sentence, [Violation("id", "kept_by_pod", sentence)])
        _refuse_workflow(row, "what it asks for is its platform's to say")
        before = worker_from_row(row)
        after, faults = parse_adjustment(body, before)
        if faults:
            raise BadInput.of(faults)
        if after.is_same_size(before):
            return row
        raise_broken_caps(namespace, broken_caps_of_change(facts.spec, facts.committed_and_assumed, before, after))
        _set(row, allocation_columns(after))
        if row.state == State.COMMITTED:
            _restate_after(facts, totals_of_worker(after), gone=totals_of_worker(before))
    return row


def commit(*, actor: Actor, namespace: str, name: str, description: str = "") -> GpuAllocation:
    """Make a reservation a worker. Again is no error; after its release or its end it is a Conflict."""
    require_namespace(actor, namespace, Permission.POOL_MANAGE_WORK)
    with change(actor=actor, description=description):
        facts = lock_namespace(namespace)
        row = _live_or_refuse(namespace, name, "it cannot be committed; allocate it again")
        if row.state == State.ASSUMED:
            _set(row, {"state": State.COMMITTED, "expires_at": None})
            _restate_after(facts, totals_of_worker(worker_from_row(row)))
    return row


def release(*, actor: Actor, namespace: str, name: str, description: str = "") -> GpuAllocation:
    """Release an allocation. A repeated release is not an error; an unknown allocation is NotFound. Only its workflow
    releases the allocation of a task (Conflict), only `osmo-admin` or its cluster that of a pod."""
    require_namespace(actor, namespace, Permission.POOL_MANAGE_WORK)
    with change(actor=actor, description=description):
        facts = lock_namespace(namespace)
        row = _newest(namespace, name)
        if row.state != State.RELEASED:
            _refuse_workflow(row, "cancel the workflow instead")
            if row.source == Source.POD:
                require_platform(actor)  # the pod may still run, and would be counted again
            release_rows(facts, [row], reason="released")
            row.refresh_from_db(fields=["released_at"])  # the database's clock says when
    return row


def expire_assumed() -> int:
    """Release reservations whose time is over; how many. Namespaces are taken one after the other."""
    total = 0
    while True:
        due = GpuAllocation.objects.filter(state=State.ASSUMED, expires_at__lt=timezone.now())
        names = sorted(set(due.order_by("expires_at").values_list("namespace", flat=True)[:EXPIRY_BATCH]))
        if not names:
            return total
        for namespace in names:
            with change(actor=SYSTEM, description="the reservation was over"):
                facts = lock_namespace(namespace)
                rows = list(due.filter(namespace=namespace)[:EXPIRY_BATCH])
                release_rows(facts, rows, reason="expired")
                total += len(rows)


def purge_released() -> int:
    """Drop what was released long ago; how many. Who allocated by name stays in the audit trail."""
    gone = 0
    while True:
        old = GpuAllocation.objects.filter(released_at__lt=timezone.now() - RELEASED_RETENTION)
        some = list(old.order_by("released_at").values_list("pk", flat=True)[:PURGE_BATCH])
        if not some:
            return gone
        GpuAllocation.objects.filter(pk__in=some).delete()
        gone += len(some)


def allocate_gang(*, namespace: str, holder: UUID, workers: Sequence[AllocationRequest]) -> list[BrokenCap]:
    """Commit all workers of a gang, or none and say which caps do not allow it (defaults are filled in here).

    Inside the caller's transaction; the namespace is locked here. Workers that are held already are left alone.
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
        _restate_after(facts, _hold(facts, new))
    return broken


def replace_gang_allocations(
    moves: Mapping[str, tuple[Collection[str], Sequence[tuple[UUID, AllocationRequest]]]],
) -> None:
    """By namespace: release the workers of these names, and commit those of these gangs. Nothing is asked: what may
    begin was asked before, and what runs in a cluster counts whatever the caps say.

    Inside the caller's transaction; the namespaces are locked here.
    """
    for namespace, facts in lock_namespaces(name for name, (gone, new) in moves.items() if gone or new).items():
        gone, new = moves[namespace]
        rows = list(GpuAllocation.objects.filter(namespace=namespace, name__in=gone).exclude(state=State.RELEASED))
        lost = _release(rows, reason="ended")
        more = _hold(facts, new)
        _restate_after(facts, more, gone=lost)


def _hold(facts: GpuNamespace, new: Sequence[tuple[UUID, AllocationRequest]]) -> WorkerTotals:
    """Commit workers of gangs, defaults filled in; what they hold."""
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
        _restate_after(facts, NO_WORKERS, gone=_release(rows, reason=reason))


def _release(rows: Sequence[GpuAllocation], *, reason: str) -> WorkerTotals:
    """What these live rows had committed; they are released."""
    if not rows:
        return NO_WORKERS
    GpuAllocation.objects.filter(pk__in=[row.pk for row in rows]).update(
        state=State.RELEASED, expires_at=None, reason=reason
    )
    gone = totals_of_workers(worker_from_row(row) for row in rows if row.state == State.COMMITTED)
    for row in rows:
        row.state, row.expires_at, row.reason = State.RELEASED, None, reason
    return gone


def raise_broken_caps(namespace: str, broken: Sequence[BrokenCap]) -> None:
    """Raise what these broken caps amount to: final if one on a single worker is among them, else it may clear."""
    if not broken:
        return
    kind: type[DomainError] = Conflict if all(each.is_resolvable for each in broken) else BadInput
    details = [each.as_violation(namespace) for each in broken]
    raise kind(broken[0].refusal_text(namespace), details, error_code=ErrorCode.RESOURCE)


def _restate_after(facts: GpuNamespace, more: WorkerTotals, *, gone: WorkerTotals = NO_WORKERS) -> None:
    update_conditions(facts.quota, facts.spec, (facts.committed + more).minus(gone), timezone.now())


def _same(live: GpuAllocation, asked: AllocationRequest, worker: GpuWorker) -> GpuAllocation:
    before = worker_from_row(live)
    # What was asked for at first may have been filled with defaults that have changed since.
    if before.is_same_size(worker) or before.is_same_size(asked.worker):
        return live
    sentence = (
        f"Allocation {asked.name} is live in namespace {live.namespace} with other amounts; "
        "adjust it, or release it first."
    )
    raise Conflict(sentence, [Violation("id", "other_amounts", sentence)])


def _live(namespace: str, name: str) -> GpuAllocation | None:
    return GpuAllocation.objects.filter(namespace=namespace, name=name).exclude(state=State.RELEASED).first()


def _newest(namespace: str, name: str) -> GpuAllocation:
    """The live allocation of that id, or the one released last."""
    row = GpuAllocation.objects.filter(namespace=namespace, name=name).order_by("-id").first()
    if row is None:
        raise NotFound(f"There is no allocation {name[:100]} in namespace {namespace[:100]}.")
    return row


def _live_or_refuse(namespace: str, name: str, consequence: str) -> GpuAllocation:
    row = _newest(namespace, name)
    if row.state == State.RELEASED:
        how = "expired" if row.reason == "expired" else "was released"
        sentence = f"Allocation {name} in namespace {namespace} {how}; {consequence}."
        raise Conflict(sentence, [Violation("id", "released", sentence)])
    return row


def _refuse_workflow(row: GpuAllocation, instead: str) -> None:
    if row.source == Source.WORKFLOW:
        sentence = f"Worker {row.name} in namespace {row.namespace} is the workflow task {row.workload}; {instead}."
        raise Conflict(sentence, [Violation("id", "kept_by_workflow", sentence)])


def _set(row: GpuAllocation, columns: Mapping[str, Any]) -> None:
    for column, value in columns.items():
        setattr(row, column, value)
    row.save(update_fields=list(columns))
