"""Counters of our work with clusters, for `/metrics`. Every process counts for itself; with `PROMETHEUS_MULTIPROC_DIR`
the web server adds them up. The `backend` is the name of the cluster's backend."""

from __future__ import annotations

from prometheus_client import Counter

_EVENTS = Counter("osmo_cluster_events", "Kubernetes Events by outcome: written, or dropped.", ["backend", "outcome"])
_REPAIRS = Counter(
    "osmo_cluster_repairs", "Fields of our objects that others changed and we put back.", ["backend", "kind", "field"]
)

_CALLS = Counter("osmo_cluster_calls", "Calls to API servers by their answer.", ["backend", "verb", "resource", "code"])
_WAITS = Counter(
    "osmo_cluster_call_wait_seconds", "Seconds that calls waited for their turn, by urgency.", ["backend", "urgency"]
)
_PAUSES = Counter(
    "osmo_cluster_pauses", "Pauses that API servers demanded (429), by urgency of the call.", ["backend", "urgency"]
)
_LEASES = Counter(
    "osmo_cluster_lease_transitions", "Leases on work with a cluster, by what happened.", ["loop", "event"]
)


def count_call(backend: str, verb: str, resource: str, code: str) -> None:
    """One call was answered with `code`, or ended without an answer."""
    _CALLS.labels(backend, verb, resource, code).inc()


def count_wait(backend: str, urgency: str, seconds: float) -> None:
    """A call waited for its turn."""
    _WAITS.labels(backend, urgency).inc(seconds)


def count_pause(backend: str, urgency: str) -> None:
    """An API server answered 429."""
    _PAUSES.labels(backend, urgency).inc()


def count_lease(loop: str, event: str) -> None:
    """A lease was `claimed` or `lost`."""
    _LEASES.labels(loop, event).inc()


def count_repair(backend: str, kind: str, field: str) -> None:
    """One field of one object was put back."""
    _REPAIRS.labels(backend, kind, field).inc()


def count_event(backend: str, outcome: str) -> None:
    """One Kubernetes Event was `written` or `dropped`."""
    _EVENTS.labels(backend, outcome).inc()
