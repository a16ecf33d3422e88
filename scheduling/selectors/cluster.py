"""What the machines of a simulated backend have free."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Sum

from pools.models import Backend, Node
from scheduling.domain.placement import Machine
from scheduling.domain.statuses import TaskStatus
from scheduling.models import Task


def free_machines(backend: Backend) -> dict[str, Machine]:
    """The backend's nodes with what running tasks leave free on them; below 0 where a node was made smaller."""
    running = Task.objects.filter(status=TaskStatus.RUNNING, group__workflow__root_pool__backend=backend)
    taken: dict[str, Mapping[str, Any]] = {
        row["node_name"]: row
        for row in running.values("node_name")
        .order_by()
        .annotate(gpus=Sum("gpu_count"), cpu=Sum("cpu_count"), memory=Sum("memory_bytes"), storage=Sum("storage_bytes"))
    }
    machines = {}
    for node in Node.objects.filter(backend=backend):
        held = taken.get(node.name, {})
        machines[node.name] = Machine(
            name=node.name,
            platform=node.platform,
            gpus=node.gpus - held.get("gpus", 0),
            cpu=node.cpu - held.get("cpu", 0),
            memory_bytes=node.memory_bytes - int(held.get("memory", 0)),
            storage_bytes=node.storage_bytes - int(held.get("storage", 0)),
        )
    return machines
