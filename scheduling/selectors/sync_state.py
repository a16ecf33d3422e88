"""How a cluster's queues stand, for API and pages."""

from __future__ import annotations

from typing import Any

from pools.models import Backend, KubernetesSettings
from scheduling.models import QueueDrift, QueueSync
from scheduling.selectors.wanted_queues import generation_of

MOST_DRIFT = 200


def sync_body(backend: Backend) -> dict[str, Any]:
    """The state of a Kubernetes backend's queues. `in_step` is whether what the ledger says right now is known to stand
    in the cluster."""
    row = QueueSync.objects.filter(backend=backend).first() or QueueSync(backend=backend)
    settings = KubernetesSettings.objects.filter(backend=backend).first()
    wanted = generation_of(backend.pk)
    return {
        "backend": backend.name,
        "mode": settings.sync_mode if settings is not None else None,
        "generation_wanted": wanted,
        "generation_applied": row.applied_generation,
        "in_step": row.synced == QueueSync.Synced.TRUE and row.applied_generation >= wanted,
        "condition": {
            "type": "Synced",
            "status": row.synced,
            "reason": row.reason,
            "message": row.message,
            "since": row.since if row.attempted_at else None,
        },
        "attempted_at": row.attempted_at,
        "succeeded_at": row.succeeded_at,
        "next_try_at": row.next_try_at,
        "failures": row.failures,
        "queues": row.objects_seen,
        "untouched": row.untouched,
        "drift": [drift_body(each) for each in drift_of(backend)],
        "connection": row.connection,
        "connection_at": row.connection_at,
        "connection_asked_at": row.connection_asked_at,
    }


def drift_of(backend: Backend) -> list[QueueDrift]:
    """What somebody else changed in the cluster, open ones first, the newest first."""
    rows = QueueDrift.objects.filter(backend=backend)
    still_open = list(rows.filter(healed_at=None)[:MOST_DRIFT])
    return still_open + list(rows.exclude(healed_at=None)[: MOST_DRIFT - len(still_open)])


def drift_body(row: QueueDrift) -> dict[str, Any]:
    """One field as the API shows it."""
    return {
        "queue": row.queue,
        "field": row.field,
        "theirs": row.theirs,
        "ours": row.ours,
        "by": row.author,
        "seen_at": row.seen_at,
        "reapplied_at": row.healed_at,
    }
