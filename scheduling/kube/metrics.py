"""Counters of our work with clusters, for `/metrics`. Every process counts for itself; with `PROMETHEUS_MULTIPROC_DIR`
the web server adds them up. The `backend` is the name of the cluster's backend."""

from __future__ import annotations

from prometheus_client import Counter

_EVENTS = Counter("osmo_cluster_events", "Kubernetes Events by outcome: written, or dropped.", ["backend", "outcome"])
_REPAIRS = Counter(
    "osmo_cluster_repairs", "Fields of our objects that others changed and we put back.", ["backend", "kind", "field"]
)


def count_repair(backend: str, kind: str, field: str) -> None:
    """One field of one object was put back."""
    _REPAIRS.labels(backend, kind, field).inc()


def count_event(backend: str, outcome: str) -> None:
    """One Kubernetes Event was `written` or `dropped`."""
    _EVENTS.labels(backend, outcome).inc()
