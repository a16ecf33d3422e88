"""Kubernetes clusters by their mode."""

from __future__ import annotations

from django.db.models import QuerySet

from pools.models import Backend, KubernetesSettings


def managed_clusters() -> QuerySet[Backend]:
    """The Kubernetes clusters to which we may write; one that has no access yet is among them."""
    return Backend.objects.filter(kind=Backend.Kind.KUBERNETES).exclude(
        kubernetes__mode=KubernetesSettings.ClusterMode.OBSERVE
    )


def is_observed(backend: Backend | None) -> bool:
    """Whether we only read this backend."""
    if backend is None or backend.kind != Backend.Kind.KUBERNETES:
        return False
    return observed_clusters().filter(pk=backend.pk).exists()


def observed_clusters() -> QuerySet[Backend]:
    """The Kubernetes clusters that we only read."""
    rows = Backend.objects.filter(kind=Backend.Kind.KUBERNETES, kubernetes__mode=KubernetesSettings.ClusterMode.OBSERVE)
    return rows.select_related("kubernetes")
