"""Changes of one node: it is drained, takes work again, or is no longer suspect (docs/bad-day.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from pools.domain.audit_actions import AuditAction
from pools.domain.changes.command import ChangeCommand
from pools.domain.people.roles import Permission
from pools.domain.structured_input.declared_values import in_address

DRAINED_NOTE: Final = "the node is drained: no new work starts here"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChange(ChangeCommand):
    """A change of one node."""

    permission: ClassVar = Permission.PLATFORM_WRITE
    needs_version: ClassVar = False

    backend: str = in_address("BACKEND", "Cluster", "Name of the backend.")
    node: str = in_address("NODE", "Node", "Name of the node.")


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainNode(NodeChange):
    """Start no new work on a node of a simulated backend; its work continues until it ends."""

    service: ClassVar = "drain_node"
    audit: ClassVar = (AuditAction.NODE_UPDATED,)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreNode(NodeChange):
    """Let a drained node of a simulated backend take work again."""

    service: ClassVar = "restore_node"
    audit: ClassVar = (AuditAction.NODE_UPDATED,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearNode(NodeChange):
    """Say that a suspect node is in order."""

    service: ClassVar = "clear_node"
    audit: ClassVar = (AuditAction.NODE_CLEARED,)
