"""The history of drift: the fields of our queues that another client of the API server changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import timedelta

from django.utils import timezone

from pools.models import Backend
from scheduling.kube.queues.queue_comparison import QueueFieldDrift
from scheduling.models import QueueDrift

DRIFT_RETENTION = timedelta(days=30)


def record_drift(backend: Backend, found: Iterable[QueueFieldDrift], written: Collection[str]) -> None:
    """Open new drift, close drift that is gone or was written over (`written` names the queues), delete old rows."""
    now = timezone.now()
    current = {(drift.queue, drift.difference.field): drift for drift in found}
    for row in QueueDrift.objects.filter(backend=backend, reapplied_at=None):
        known = current.pop((row.queue, row.field), None)
        if known is None or row.queue in written:
            row.reapplied_at = now
            row.save(update_fields=["reapplied_at"])
        elif (row.theirs, row.author) != (known.difference.theirs, known.difference.by):
            row.theirs, row.author = known.difference.theirs, known.difference.by
            row.save(update_fields=["theirs", "author"])
    QueueDrift.objects.bulk_create(
        QueueDrift(
            backend=backend,
            queue=drift.queue,
            field=drift.difference.field,
            theirs=drift.difference.theirs,
            ours=drift.difference.ours,
            author=drift.difference.by,
            reapplied_at=now if drift.queue in written else None,
        )
        for drift in current.values()
    )
    QueueDrift.objects.filter(backend=backend, reapplied_at__lt=now - DRIFT_RETENTION).delete()
