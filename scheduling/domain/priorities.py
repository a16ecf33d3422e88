"""The three priorities (design, D6, O9; on a cluster the classes `osmo-high|normal|low`)."""

from __future__ import annotations

from enum import StrEnum


class Priority(StrEnum):
    """HIGH and NORMAL work stays inside its quota and is never reclaimed; LOW work may exceed it and may be
    preempted."""

    HIGH = "HIGH"
    NORMAL = "NORMAL"
    LOW = "LOW"

    @property
    def priority_class_value(self) -> int:
        """The PriorityClass value; below 100 is preemptible."""
        return {Priority.HIGH: 125, Priority.NORMAL: 100, Priority.LOW: 50}[self]

    @property
    def is_preemptible(self) -> bool:
        """Whether the work may be reclaimed or preempted, and so may exceed the quota."""
        return self is Priority.LOW


def priority_of_value(value: int, normal: int) -> Priority:
    """The priority of work whose class in Kubernetes, Kueue or another scheduler has this value: NORMAL where it is the
    value of the default class (0 without one), above it HIGH, below it LOW."""
    return Priority.NORMAL if value == normal else Priority.HIGH if value > normal else Priority.LOW
