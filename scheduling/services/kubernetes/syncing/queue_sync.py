"""Keeps a cluster's queues in step with the ledger.

The sync is level-triggered: each run reads the ledger's desired state and the cluster's queues, and writes the
difference in an order that a live scheduler survives. A change of the ledger sends a notification; a periodic task
finds the changes whose notification was lost. One run per backend at a time (a lease). After a failure of a cluster the
next run waits a growing pause, and the condition contains the reason.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from contextlib import suppress

from django.db.models.functions import Now
from django.utils import timezone

from pools.database.transactions import database_time
from pools.domain.errors import Conflict, NotFound
from pools.domain.people.roles import Actor
from pools.domain.subpool_lifecycle import SubpoolState
from pools.models import Backend, KubernetesSettings, Pool
from pools.permissions import require_platform
from pools.selectors.change_tokens import read_generation
from pools.services.configuration.backends import get_backend
from scheduling.domain.queues.observed import bounded_field
from scheduling.domain.queues.plan import QueueStep
from scheduling.kube.cluster_lease import HolderCheck
from scheduling.kube.connection import metrics
from scheduling.kube.connection.errors import ClusterError
from scheduling.kube.connection.resource_kinds import QUEUE
from scheduling.kube.events import EventReason, EventSubject
from scheduling.kube.queues.queue_comparison import QueueComparison
from scheduling.kube.queues.queue_writes import QueueWriter, WriteProgress
from scheduling.models import QueueSync
from scheduling.services import notifications
from scheduling.services.kubernetes import connections
from scheduling.services.kubernetes.cluster_events import record_event
from scheduling.services.kubernetes.instance_id import read_instance_id
from scheduling.services.kubernetes.leases import AlreadyClaimed, HeldElsewhere, Lease, hold_lease
from scheduling.services.kubernetes.syncing import sync_condition
from scheduling.services.kubernetes.syncing.drift_history import record_drift
from scheduling.services.kubernetes.syncing.sync_comparison import compare_with_ledger
from scheduling.services.kubernetes.syncing.sync_outcome import SyncOutcome, build_outcome

logger = logging.getLogger(__name__)

_MAX_ROUNDS = 20


def request_sync(*, actor: Actor, backend: str, reapply: Sequence[str] | bool = False) -> Backend:
    """Let a worker sync now, even if the cluster failed recently. `reapply` writes all queues, or the named ones, also
    where the sync only reports. `osmo-admin` only; Conflict for a simulated backend."""
    require_platform(actor)
    row = get_backend(backend)
    _, settings = _read_cluster(row.pk)
    connections.require_managed(row, settings)
    if reapply:
        notifications.enqueue_manual_queue_sync(row.pk, None if isinstance(reapply, bool) else list(reapply))
    else:
        QueueSync.objects.filter(backend=row).update(retry_at=None)
        notifications.enqueue_queue_sync(row.pk)
    return row


def sync_while_requested(backend_id: int) -> None:
    """Sync, and repeat the sync while the ledger changes.

    While another run holds the lease there is nothing to do: that run checks for new requests after it has released the
    lease.
    """
    for _ in range(_MAX_ROUNDS):
        try:
            outcome = sync_backend_queues(backend_id)
        except AlreadyClaimed:
            return
        is_requested = notifications.is_queue_sync_requested(backend_id) or is_cluster_behind(backend_id)
        if outcome.synced != QueueSync.Synced.TRUE or not is_requested:
            return


def is_cluster_behind(backend_id: int) -> bool:
    """Whether the ledger has changed since the cluster was last in step with it."""
    applied = QueueSync.objects.filter(pk=backend_id).values_list("applied_generation", flat=True).first()
    return applied is None or applied < read_generation(backend_id)


def needs_no_sync(backend_id: int) -> bool:
    """Whether a change of this backend leaves the queues as they are: the backend is simulated, its sync is off, or the
    change is not visible in queues. The quota of a draining subpool shrinks whenever a part of its work ends."""
    settings = KubernetesSettings.objects.filter(pk=backend_id).first()
    if settings is None or settings.sync_in_force == KubernetesSettings.Sync.OFF:
        return True
    draining = Pool.objects.filter(parent__backend=backend_id, subpool_state=SubpoolState.DELETING)
    return not is_cluster_behind(backend_id) and not draining.exists()


def backends_due_for_sync() -> list[int]:
    """The Kubernetes backends whose queues are to be compared now; a backend that failed recently waits."""
    rows = Backend.objects.filter(kubernetes__isnull=False).exclude(queue_sync__retry_at__gt=Now())
    rows = rows.exclude(kubernetes__mode=KubernetesSettings.ClusterMode.OBSERVE)
    return list(rows.exclude(kubernetes__sync_mode=KubernetesSettings.Sync.OFF).values_list("pk", flat=True))


def sync_backend_queues(
    backend_id: int, *, manual: bool = False, take_over: bool = False, only_objects: Collection[str] | None = None
) -> SyncOutcome:
    """One run. `manual` does not wait after a failure, and writes also where the sync only reports or is off;
    `only_objects` writes these objects alone; for `take_over` see :func:`compare_queues`.

    An error of the cluster is not raised: it becomes the condition. Raises AlreadyClaimed, LeaseLost, and NotFound or
    Conflict for a backend without a cluster.
    """
    backend, settings = _read_cluster(backend_id)
    row = QueueSync.objects.get_or_create(backend=backend)[0]
    if settings.is_observed:
        sync_condition.set_observed(row)
        return build_outcome(backend, row)
    if settings.sync_mode == KubernetesSettings.Sync.OFF and not manual:
        sync_condition.set_off(row)
        return build_outcome(backend, row)
    if row.retry_at is not None and row.retry_at > database_time() and not manual:
        return build_outcome(backend, row)
    with hold_lease(backend_id) as lease:
        notifications.queue_sync_started(backend_id)
        return _run(backend, settings, row, lease, manual=manual, take_over=take_over, only_objects=only_objects)


def _run(
    backend: Backend,
    settings: KubernetesSettings,
    row: QueueSync,
    lease: Lease,
    *,
    manual: bool,
    take_over: bool,
    only_objects: Collection[str] | None,
) -> SyncOutcome:
    """Compare, write, and record the condition; under the lease."""
    row.attempted_at = timezone.now()
    try:
        cluster = connections.connect(backend)
        check = HolderCheck(backend.namespace, read_instance_id(backend))
        if other := check.find_other(cluster):
            sync_condition.set_held_elsewhere(row, other)
            return build_outcome(backend, row)
        desired, comparison = compare_with_ledger(backend, settings, cluster, take_over=take_over)
    except ClusterError as error:
        sync_condition.set_unread(row, error)
        logger.warning("backend %s: queues not synced: %s", backend.name, error)
        return build_outcome(backend, row)
    writes_all = manual or settings.sync_mode == KubernetesSettings.Sync.APPLY
    is_chosen = [writes_all and (only_objects is None or write.name in only_objects) for write in comparison.writes]
    chosen = [write for write, taken in zip(comparison.writes, is_chosen, strict=True) if taken]
    skipped = [write for write, taken in zip(comparison.writes, is_chosen, strict=True) if not taken]
    writer = QueueWriter(cluster, desired.target, may_write=lease.may_write)

    def keep_lease() -> None:
        lease.renew()
        with suppress(ClusterError):  # the writes meet the same error
            if other := check.find_other(cluster):
                raise HeldElsewhere(other)

    try:
        progress = writer.run(chosen, renew_lease=keep_lease)
        lease.renew()
    except HeldElsewhere as error:
        sync_condition.set_held_elsewhere(row, error.message)
        return build_outcome(backend, row)
    record_drift(backend, comparison.drift, {write.name for write in progress.done})
    _tell_repairs(backend, comparison, progress)
    sync_condition.set_finished(row, desired, comparison, progress, skipped)
    remaining = [*progress.remaining, *skipped]
    return build_outcome(backend, row, written=progress.done, remaining=remaining, comparison=comparison)


def _tell_repairs(backend: Backend, comparison: QueueComparison, progress: WriteProgress) -> None:
    """Count the fields of others that this run overwrote, with a Kubernetes Event on each queue."""
    written = {write.name: write for write in progress.done if isinstance(write, QueueStep)}
    sentences: dict[str, list[str]] = {}
    for drift in comparison.drift:
        if drift.queue in written:
            found = drift.difference
            metrics.count_repair(backend.name, QUEUE.name, bounded_field(found.field))
            sentences.setdefault(drift.queue, []).append(
                f"{found.by} set {found.field} to {found.theirs!r}; it is {found.ours!r} again"
            )
    for name, lines in sentences.items():
        subject = EventSubject(QUEUE, name, uid=written[name].uid)
        record_event(backend, subject, EventReason.REPAIRED, "; ".join(lines))


def _read_cluster(backend_id: int) -> tuple[Backend, KubernetesSettings]:
    backend = Backend.objects.filter(pk=backend_id).first()
    if backend is None:
        raise NotFound("This cluster does not exist any more.")
    settings = KubernetesSettings.objects.filter(backend=backend).first()
    if settings is None:
        raise Conflict(f"Cluster {backend.name} is simulated; it has no queues to sync.")
    return backend, settings
