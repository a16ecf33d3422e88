"""Whether a cluster answers: written by whoever meets it, judged by the clock (OSMO contract, section 5.3)."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Q
from django.utils import timezone

from pools.domain.roles import SYSTEM
from pools.models import Backend
from pools.transactions import change
from scheduling.models import ClusterState

HEARTBEAT_LIFETIME = timedelta(minutes=2)
"""A backend whose last heartbeat is older is OFFLINE."""


def cluster_state(backend: Backend) -> ClusterState:
    """What is known of this cluster; its identity is made when somebody first asks for it."""
    state, _ = ClusterState.objects.get_or_create(backend=backend)
    return state


def record_heartbeat(backend: Backend) -> None:
    """The cluster answers and its pods are known: its pools are ONLINE, unless an admin keeps it offline."""
    ClusterState.objects.filter(backend=backend).update(heartbeat_at=timezone.now(), error="")
    _set_offline(backend, is_offline=False, why="the cluster answers")


def record_fault(backend: Backend, message: str) -> None:
    """What is wrong with the cluster since its last heartbeat, or beside it."""
    ClusterState.objects.filter(backend=backend).exclude(error=message).update(error=message)


def set_silent_offline() -> list[str]:
    """Set those backends OFFLINE that were not heard for too long, or never. Returns their names."""
    dead = timezone.now() - HEARTBEAT_LIFETIME
    silent = Backend.objects.filter(kind=Backend.Kind.KUBERNETES, offline=False).filter(
        Q(cluster_state=None) | Q(cluster_state__heartbeat_at=None) | Q(cluster_state__heartbeat_at__lt=dead)
    )
    found = list(silent.order_by("name"))
    for backend in found:
        _set_offline(backend, is_offline=True, why=f"the cluster was not heard for {HEARTBEAT_LIFETIME}")
    return [backend.name for backend in found]


def _set_offline(backend: Backend, *, is_offline: bool, why: str) -> None:
    other = Backend.objects.filter(pk=backend.pk, offline_requested=False).exclude(offline=is_offline)
    if not other.exists():
        return
    with change(actor=SYSTEM, description=why):
        other.update(offline=is_offline)
