"""The three priorities (scheduling design, "Priority"; KAI's classes `osmo-high|normal|low`)."""

from __future__ import annotations

from enum import StrEnum


class Priority(StrEnum):
    """HIGH and NORMAL stay inside quota and are never taken back; LOW may go over it and may be preempted."""

    HIGH = "HIGH"
    NORMAL = "NORMAL"
    LOW = "LOW"

    @property
    def priority_class_value(self) -> int:
        """The PriorityClass value; below 100 is preemptible."""
        return {Priority.HIGH: 125, Priority.NORMAL: 100, Priority.LOW: 50}[self]

    @property
    def is_preemptible(self) -> bool:
        """May be taken back, and so may go over quota."""
        return self is Priority.LOW
