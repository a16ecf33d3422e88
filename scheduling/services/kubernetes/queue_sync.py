"""Bringing a cluster's queues in step with the ledger.

Level-triggered: each run reads what the ledger wants now and what the cluster has now, and writes the difference in an
order that a live scheduler survives. A change of the ledger gives a hint, the beat finds what a lost hint left. One run
per backend at a time (a lease); a cluster that fails is left in peace for a growing while, and its condition says why.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.utils import timezone

from pools.domain.errors import Conflict, NotFound
from pools.domain.roles import Actor
from pools.domain.subpool_lifecycle import SubpoolState
from pools.models import Backend, KubernetesSettings, Pool
from pools.permissions import require_platform
from pools.services.backends import get_backend
from scheduling.domain.queues.plan import Untouched
from scheduling.kube.error_messages import condition_reason, error_message
from scheduling.kube.errors import ClusterError
from scheduling.kube.port import Cluster
from scheduling.kube.queue_writes import QueueWriter, WriteProgress
from scheduling.kube.queues import ClusterWrite, QueueComparison, compare_queues
from scheduling.models import ClusterState, QueueDrift, QueueSync
from scheduling.selectors.desired_queues import DesiredState, read_desired_state, read_generation
from scheduling.services import notifications
from scheduling.services.kubernetes import connections
from scheduling.services.kubernetes.leases import AlreadyClaimed, Lease, hold_lease

logger = logging.getLogger(__name__)

MAX_PAUSE = timedelta(minutes=5)
DRIFT_RETENTION = timedelta(days=30)
_MOST_ROUNDS = 20

Synced = QueueSync.Synced


@dataclass(frozen=True, slots=True)
class SyncOutcome:
    """What a run did and how the backend stands after it; every line is a sentence."""

    backend: str
    synced: str
    reason: str
    message: str
    written: tuple[str, ...] = ()
    remaining: tuple[str, ...] = ()
    drift: tuple[str, ...] = ()
    untouched: tuple[str, ...] = ()


def request_sync(*, actor: Actor, backend: str, reapply: Sequence[str] | bool = False) -> Backend:
    """Let a worker sync now, also a cluster that failed a moment ago. `reapply` writes (some, or all) queues also where
    the sync only reports. `osmo-admin` only; Conflict for a backend that is no cluster."""
    require_platform(actor)
    row = get_backend(backend)
    _cluster_of(row.pk)
    if reapply:
        notifications.enqueue_manual_queue_sync(row.pk, None if isinstance(reapply, bool) else list(reapply))
    else:
        QueueSync.objects.filter(backend=row).update(retry_at=None)
        notifications.enqueue_queue_sync(row.pk)
    return row


def sync_while_requested(backend_id: int) -> None:
    """Sync, and again while the ledger moved on meanwhile.

    Beside a run under way there is nothing to do: that one looks again after it has let go of its lease.
    """
    for _ in range(_MOST_ROUNDS):
        try:
            outcome = sync_backend_queues(backend_id)
        except AlreadyClaimed:
            return
        if outcome.synced != Synced.TRUE or not (
            notifications.is_queue_sync_requested(backend_id) or is_cluster_behind(backend_id)
        ):
            return


def is_cluster_behind(backend_id: int) -> bool:
    """Whether the ledger has changed since the cluster was last in step with it."""
    applied = QueueSync.objects.filter(pk=backend_id).values_list("applied_generation", flat=True).first()
    return applied is None or applied < read_generation(backend_id)


def needs_no_sync(backend_id: int) -> bool:
    """Whether a hint that something moved leaves the queues of this backend as they are: it is no cluster, its sync is
    off, or nothing moved that queues show. A draining slice gives room back with every piece of its work that ends."""
    settings = KubernetesSettings.objects.filter(pk=backend_id).first()
    if settings is None or settings.sync_mode == KubernetesSettings.Sync.OFF:
        return True
    drains = Pool.objects.filter(parent__backend=backend_id, subpool_state=SubpoolState.DELETING)
    return not is_cluster_behind(backend_id) and not drains.exists()


def backends_due_for_sync() -> list[int]:
    """The Kubernetes backends to be looked at now; one that failed a moment ago waits."""
    rows = Backend.objects.filter(kubernetes__isnull=False).exclude(queue_sync__retry_at__gt=timezone.now())
    return list(rows.exclude(kubernetes__sync_mode=KubernetesSettings.Sync.OFF).values_list("pk", flat=True))


def sync_backend_queues(
    backend_id: int, *, manual: bool = False, take_over: bool = False, only_objects: Collection[str] | None = None
) -> SyncOutcome:
    """One run. `manual` asks a cluster that failed a moment ago at once, and writes also where the sync only reports
    or is off; `only_objects` writes these objects alone; `take_over` see :func:`compare_queues`.

    Never raises for what a cluster does: that is its condition. Raises AlreadyClaimed, LeaseLost, and NotFound or
    Conflict for a backend that has no cluster.
    """
    backend, settings = _cluster_of(backend_id)
    row = QueueSync.objects.get_or_create(backend=backend)[0]
    if settings.sync_mode == KubernetesSettings.Sync.OFF and not manual:
        _settle(row, Synced.UNKNOWN, "Off", "The sync of this backend is switched off.")
        return _outcome(backend, row)
    if row.retry_at is not None and row.retry_at > timezone.now() and not manual:
        return _outcome(backend, row)
    with hold_lease(backend_id) as claim:
        notifications.queue_sync_started(backend_id)
        return _Run(backend, settings, row, claim).go(by_hand=manual, take_over=take_over, only=only_objects)


def preview_sync(backend: Backend, *, take_over: bool = False) -> SyncOutcome:
    """What a run would do now. Lists only. Raises ClusterError."""
    settings = connections.kubernetes_settings(backend)
    row = QueueSync.objects.filter(backend=backend).first() or QueueSync(backend=backend)
    _, look = _look(backend, settings, connections.connect(backend), take_over=take_over)
    return _outcome(backend, row, left=look.writes, look=look)


class _Run:
    """One run, under its lease."""

    def __init__(self, backend: Backend, settings: KubernetesSettings, row: QueueSync, claim: Lease) -> None:
        self._backend, self._settings, self._row, self._claim = backend, settings, row, claim

    def go(self, *, by_hand: bool, take_over: bool, only: Collection[str] | None) -> SyncOutcome:
        """Look, write, remember."""
        self._row.attempted_at = timezone.now()
        try:
            cluster = connections.connect(self._backend)
            wanted, look = _look(self._backend, self._settings, cluster, take_over=take_over)
        except ClusterError as error:
            return self._failed(error)
        writes = by_hand or self._settings.sync_mode == KubernetesSettings.Sync.APPLY
        chosen = [step for step in look.writes if writes and (only is None or step.name in only)]
        writer = QueueWriter(cluster, wanted.target, may_write=self._claim.may_write)
        work = writer.run(chosen, renew_lease=self._claim.renew)
        self._claim.renew()
        asked = {id(step) for step in chosen}
        unasked = [step for step in look.writes if id(step) not in asked]
        _remember_drift(self._backend, look, {step.name for step in work.done})
        return self._finished(wanted, look, work, unasked)

    def _failed(self, error: ClusterError) -> SyncOutcome:
        self._retry_later(error)
        _settle(self._row, Synced.FALSE, condition_reason(error), error_message(error))
        logger.warning("backend %s: queues not synced: %s", self._backend.name, error)
        return _outcome(self._backend, self._row)

    def _finished(
        self, wanted: DesiredState, look: QueueComparison, work: WriteProgress, unasked: Sequence[ClusterWrite]
    ) -> SyncOutcome:
        row = self._row
        row.objects_observed = look.owned_queues
        row.untouched = [{"name": each.name, "note": each.note} for each in look.untouched]
        in_the_way = [each for each in look.untouched if each.name in wanted.queues or each.name in wanted.topologies]
        if work.fatal_error is not None or work.failures:
            error = work.fatal_error or work.failures[0][1]
            self._retry_later(error)
            _settle(row, Synced.FALSE, condition_reason(error), _fault_sentence(work, error))
        else:
            row.failures, row.retry_at = 0, None
            if work.remaining:
                message = f"The run was too slow and stopped; {len(work.remaining)} writes are left to the next one."
                _settle(row, Synced.FALSE, "Interrupted", message)
            elif unasked:
                message = f"{len(unasked)} writes are due; the sync of this backend only reports them."
                _settle(row, Synced.FALSE, "WritesDue", message)
            elif in_the_way:
                first = in_the_way[0]
                more = f", and {len(in_the_way) - 1} more" if len(in_the_way) > 1 else ""
                _settle(row, Synced.FALSE, "InTheWay", f"{first.name} stays as it is: {first.note}{more}.")
            else:
                row.applied_generation = max(row.applied_generation, wanted.generation)
                row.succeeded_at = timezone.now()
                message = f"{len(wanted.queues)} queues follow the ledger's generation {wanted.generation}."
                _settle(row, Synced.TRUE, "InStep", message)
        return _outcome(self._backend, row, done=work.done, left=[*work.remaining, *unasked], look=look)

    def _retry_later(self, error: ClusterError) -> None:
        pause = min(MAX_PAUSE, timedelta(seconds=2 ** min(self._row.failures, 10)))
        self._row.failures += 1
        self._row.retry_at = timezone.now() + max(pause, timedelta(seconds=error.retry_after or 0))


def _look(
    backend: Backend, settings: KubernetesSettings, cluster: Cluster, *, take_over: bool
) -> tuple[DesiredState, QueueComparison]:
    identity = ClusterState.objects.get_or_create(backend=backend)[0].identity
    wanted = read_desired_state(backend, settings, identity)
    look = compare_queues(cluster, wanted.target, wanted.queues, wanted.topologies, wanted.leaf_of, take_over=take_over)
    return wanted, look


def _cluster_of(backend_id: int) -> tuple[Backend, KubernetesSettings]:
    backend = Backend.objects.filter(pk=backend_id).first()
    if backend is None:
        raise NotFound("This backend does not exist any more.")
    settings = KubernetesSettings.objects.filter(backend=backend).first()
    if settings is None:
        raise Conflict(f"Backend {backend.name} is no Kubernetes cluster; it has no queues to sync.")
    return backend, settings


def _fault_sentence(work: WriteProgress, error: ClusterError) -> str:
    where = next((step.description for step, fault in work.failures if fault is error), "")
    more = f" {len(work.remaining)} writes are left." if len(work.remaining) > 1 else ""
    return f"{where}: {error_message(error)}{more}" if where else f"{error_message(error)}{more}"


def _settle(row: QueueSync, synced: Synced, reason: str, message: str) -> None:
    """Write the condition; `since` moves only when it becomes another one. The lease's columns are not ours here."""
    if (row.synced, row.reason) != (synced, reason):
        row.since = timezone.now()
    row.synced, row.reason, row.message = synced, reason, message
    row.save(update_fields=_CONDITION)


_CONDITION = [
    "applied_generation", "synced", "reason", "message", "since", "attempted_at", "succeeded_at", "retry_at",
    "failures", "objects_observed", "untouched",
]  # fmt: skip


def _remember_drift(backend: Backend, look: QueueComparison, written: set[str]) -> None:
    """Open what is new, close what is as it should be again, forget what was closed long ago."""
    now = timezone.now()
    seen = {(each.queue, each.difference.field): each for each in look.drift}
    for row in QueueDrift.objects.filter(backend=backend, reapplied_at=None):
        there = seen.pop((row.queue, row.field), None)
        if there is None or row.queue in written:
            row.reapplied_at = now
            row.save(update_fields=["reapplied_at"])
        elif (row.theirs, row.author) != (there.difference.theirs, there.difference.by):
            row.theirs, row.author = there.difference.theirs, there.difference.by
            row.save(update_fields=["theirs", "author"])
    QueueDrift.objects.bulk_create(
        QueueDrift(
            backend=backend,
            queue=each.queue,
            field=each.difference.field,
            theirs=each.difference.theirs,
            ours=each.difference.ours,
            author=each.difference.by,
            reapplied_at=now if each.queue in written else None,
        )
        for each in seen.values()
    )
    QueueDrift.objects.filter(backend=backend, reapplied_at__lt=now - DRIFT_RETENTION).delete()


def _outcome(
    backend: Backend,
    row: QueueSync,
    *,
    done: Sequence[ClusterWrite] = (),
    left: Sequence[ClusterWrite] = (),
    look: QueueComparison | None = None,
) -> SyncOutcome:
    untouched: Iterable[Untouched] = look.untouched if look is not None else ()
    drift = look.drift if look is not None else ()
    return SyncOutcome(
        backend.name,
        row.synced,
        row.reason,
        row.message,
        tuple(step.description for step in done),
        tuple(step.description for step in left),
        tuple(f"{each.difference.by} changed {_field(each.queue, each.difference)}" for each in drift),
        tuple(f"{each.name}: {each.note}" for each in untouched),
    )


def _field(queue: str, difference: Any) -> str:
    return f"{queue} {difference.field}: {difference.theirs} instead of {difference.ours}"
