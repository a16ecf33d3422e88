"""The default of a new installation: a simulated backend with four nodes, so that the first submission runs."""

from __future__ import annotations

from pools.domain.changes.backends import PutBackend
from pools.domain.people.roles import SYSTEM
from pools.models import AuditEntry
from pools.services.configuration.backends import put_backend

BACKEND = "simulated"
NAMESPACE = "default"
NODES = 4
GPUS = 8


def seed_defaults() -> None:
    """Create the default backend in an installation that never had it. A changed or deleted default backend is not
    restored."""
    if AuditEntry.objects.filter(object=f"backend/{BACKEND}").exists():
        return
    nodes = [{"name": f"n{number}", "gpus": GPUS} for number in range(1, NODES + 1)]
    body = {"type": "simulated", "namespace": NAMESPACE, "nodes": nodes}
    put_backend(PutBackend(name=BACKEND, body=body), actor=SYSTEM, description="the default backend")
