"""The PriorityClasses that work needs in a cluster. They belong to no installation: missing ones are created, existing
ones are left alone."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.domain.cluster.naming import FIELD_MANAGER
from scheduling.domain.priorities import Priority
from scheduling.domain.queues.plan import Untouched
from scheduling.kube.connection.port import Cluster, ClusterReader
from scheduling.kube.connection.resource_kinds import PRIORITY_CLASS


@dataclass(frozen=True, slots=True)
class PriorityClassWrite:
    """A PriorityClass to be created."""

    name: str
    value: int

    @property
    def affected_names(self) -> tuple[str, ...]:
        """No other object depends on it."""
        return (self.name,)

    @property
    def description(self) -> str:
        """The step as a text for users."""
        return f"create PriorityClass {self.name}: {self.value}"


def plan_priority_classes(cluster: ClusterReader) -> tuple[list[PriorityClassWrite], list[Untouched]]:
    """The missing PriorityClasses, and those with another value. Raises ClusterError."""
    existing = {item["metadata"]["name"]: item.get("value") for item in cluster.list(PRIORITY_CLASS).items}
    desired = {f"osmo-{priority.lower()}": priority.priority_class_value for priority in Priority}
    missing = [PriorityClassWrite(name, value) for name, value in desired.items() if name not in existing]
    different = [
        Untouched(
            name, f"this PriorityClass has the value {existing[name]} instead of {value}, which cannot be changed"
        )
        for name, value in desired.items()
        if name in existing and existing[name] != value
    ]
    return missing, different


def create_priority_class(cluster: Cluster, write: PriorityClassWrite) -> None:
    """Create the PriorityClass. Raises ClusterError."""
    body = {
        "metadata": {"name": write.name},
        "value": write.value,
        "globalDefault": False,
        "description": "OSMO workflows. From 100 on, work stays inside its quota and is never preempted by KAI.",
    }
    cluster.apply(PRIORITY_CLASS, body, field_manager=FIELD_MANAGER, force=True)
