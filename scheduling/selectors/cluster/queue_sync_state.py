"""The sync state of a cluster's queues, for API and pages."""

from __future__ import annotations

from datetime import datetime
from math import inf
from typing import Annotated, Any, NotRequired, TypedDict

from django.db.models import Count, F, OuterRef, Q, TextField, Value
from django.db.models.functions import Coalesce, Now

from pools.models import Backend, KubernetesSettings
from pools.selectors.change_tokens import generation_of, read_generation
from scheduling.domain.queues.adoption import AdoptionAnswer, find_adoption
from scheduling.kube.connection_checks import ConnectionAnswer
from scheduling.models import ClusterState, QueueDrift, QueueSync

MAX_DRIFT = 200


class ConditionAnswer(TypedDict):
    """A condition as Kubernetes words it."""

    type: str
    status: str
    reason: str
    message: str
    since: datetime | None


class LeaseAnswer(TypedDict):
    """The Lease in the cluster, as our agent saw it last."""

    state: str
    message: str
    since: datetime | None


class DriftAnswer(TypedDict):
    """A field that another client changed in the cluster."""

    queue: str
    field: str
    theirs: Any
    ours: Any
    by: str
    seen_at: datetime
    reapplied_at: datetime | None
    adopt: Annotated[AdoptionAnswer | None, "The number of the ledger that would make their value the desired one."]


class UntouchedAnswer(TypedDict):
    """A queue object of somebody else, which no sync changes."""

    name: str
    note: str


class UnassignedAnswer(TypedDict):
    """A queue or namespace of an observed cluster that no pool takes, with its workloads and their GPUs. `pool` is the
    one that it names, which is not on this cluster or takes no new work."""

    queue: str
    workloads: int
    gpus: int
    pool: NotRequired[str]


class UnreadAnswer(TypedDict):
    """An object of an observed cluster that cannot count, and why."""

    kind: str
    namespace: str
    name: str
    problem: str


class QueueSyncAnswer(TypedDict):
    """How far the queues of a cluster follow the ledger."""

    backend: str
    mode: str | None
    generation_wanted: int
    generation_applied: int
    in_step: Annotated[bool, "Whether the state of the ledger is known to be applied in the cluster."]
    condition: ConditionAnswer
    lease: LeaseAnswer
    attempted_at: datetime | None
    succeeded_at: datetime | None
    next_try_at: datetime | None
    failures: int
    queues: Annotated[int, "The queue objects that were seen in the cluster."]
    untouched: list[UntouchedAnswer]
    unassigned: Annotated[list[UnassignedAnswer], "Of an observed cluster; at most 50, the most GPUs first."]
    unread: Annotated[list[UnreadAnswer], "Of an observed cluster; at most 50."]
    contact_error: Annotated[str, "Why the cluster did not answer last, or what it refuses; empty otherwise."]
    drift: list[DriftAnswer]
    connection: Annotated[ConnectionAnswer | None, "The report of the last connection test; null before the first."]
    connection_at: datetime | None
    connection_asked_at: datetime | None


def find_queue_sync(backend: Backend) -> QueueSync:
    """The state of a cluster's queues; before the first sync or connection test it exists only with its default
    values."""
    return QueueSync.objects.filter(backend=backend).first() or QueueSync(backend=backend)


def queue_sync_body(backend: Backend) -> QueueSyncAnswer:
    """The state of a Kubernetes backend's queues. `in_step` says whether the current state of the ledger is known to be
    applied in the cluster."""
    row = find_queue_sync(backend)
    settings = KubernetesSettings.objects.filter(backend=backend).first()
    desired = read_generation(backend.pk)
    state = ClusterState.objects.filter(backend=backend).first() or ClusterState(backend=backend)
    return {
        "backend": backend.name,
        "mode": settings.sync_in_force if settings is not None else None,
        "generation_wanted": desired,
        "generation_applied": row.applied_generation,
        "in_step": row.synced == QueueSync.Synced.TRUE and row.applied_generation >= desired,
        "condition": {
            "type": "Synced",
            "status": row.synced,
            "reason": row.reason,
            "message": row.message,
            "since": row.since if row.attempted_at else None,
        },
        "lease": _cluster_lease_body(state),
        "attempted_at": row.attempted_at,
        "succeeded_at": row.succeeded_at,
        "next_try_at": row.retry_at,
        "failures": row.failures,
        "queues": row.objects_observed,
        "untouched": row.untouched,
        "unassigned": state.unassigned,
        "unread": state.unread,
        "contact_error": state.error,
        "drift": [drift_body(each, backend.namespace) for each in list_drift(backend)],
        "connection": row.connection_test,
        "connection_at": row.connection_tested_at,
        "connection_asked_at": row.connection_test_requested_at,
    }


def read_closed_queues(backend_id: int) -> dict[str, str]:
    """The queues of a cluster that work cannot use, by their Kubernetes names, with the message of the sync."""
    found = QueueSync.objects.filter(pk=backend_id).values_list("closed_queues", flat=True).first()
    return found or {}


def _cluster_lease_body(state: ClusterState) -> LeaseAnswer:
    """The state of the Lease in the cluster, as our agent saw it last."""
    return {
        "state": state.cluster_lease or "unknown",
        "message": state.cluster_lease_message,
        "since": state.cluster_lease_since,
    }


def read_sync_metrics() -> dict[str, dict[str, float]]:
    """The state of all clusters for metrics, by backend; one query."""
    rows = (
        Backend.objects.filter(kind=Backend.Kind.KUBERNETES, kubernetes__isnull=False)
        .annotate(
            wanted=Coalesce(generation_of(OuterRef("pk")), 0),
            applied=Coalesce("queue_sync__applied_generation", -1),
            synced=Coalesce("queue_sync__synced", Value(QueueSync.Synced.UNKNOWN, output_field=TextField())),
            failed=Coalesce("queue_sync__failures", 0),
            retry_at=F("queue_sync__retry_at"),
            heard_at=F("cluster_state__heartbeat_at"),
            agent_lease_ends=F("cluster_state__lease_expires_at"),
            gpu_lease_ends=F("gpu_controller_lease__lease_expires_at"),
            cluster_lease=F("cluster_state__cluster_lease"),
            measured_at=Now(),
            mode=F("kubernetes__mode"),
            drift=Count("queue_drift", filter=Q(queue_drift__reapplied_at=None)),
        )
        .order_by("name")
    )
    return {
        row.name: {
            # No queue of an observed cluster is to follow the ledger.
            "in_step": int(_is_observed(row) or (row.synced == QueueSync.Synced.TRUE and row.applied >= row.wanted)),
            "generations_behind": 0 if _is_observed(row) else max(0, row.wanted - max(row.applied, 0)),
            "drift_fields": row.drift,
            "sync_failures": row.failed,
            "sync_paused": int(row.retry_at is not None and row.retry_at > row.measured_at),
            "agent_lease_held": int(row.agent_lease_ends is not None and row.agent_lease_ends > row.measured_at),
            "gpu_controller_lease_held": int(row.gpu_lease_ends is not None and row.gpu_lease_ends > row.measured_at),
            "held_elsewhere": int(row.cluster_lease == "elsewhere"),
            "seconds_since_heard": (
                inf if row.heard_at is None else max(0.0, (row.measured_at - row.heard_at).total_seconds())
            ),
        }
        for row in rows
    }


def _is_observed(row: Any) -> bool:
    return bool(row.mode == KubernetesSettings.ClusterMode.OBSERVE)


def list_drift(backend: Backend) -> list[QueueDrift]:
    """The fields that others changed in the cluster: open ones first, then the newest first."""
    rows = QueueDrift.objects.filter(backend=backend)
    still_open = list(rows.filter(reapplied_at=None)[:MAX_DRIFT])
    return still_open + list(rows.exclude(reapplied_at=None)[: MAX_DRIFT - len(still_open)])


def drift_body(row: QueueDrift, namespace: str) -> DriftAnswer:
    """One field in the form of the API. `adopt` is the number of the ledger that would make their value the desired
    one; null where none does."""
    adoption = find_adoption(namespace, row.queue, row.field, row.theirs)
    return {
        "queue": row.queue,
        "field": row.field,
        "theirs": row.theirs,
        "ours": row.ours,
        "by": row.author,
        "seen_at": row.seen_at,
        "reapplied_at": row.reapplied_at,
        "adopt": None if adoption is None else adoption.as_dict(),
    }
