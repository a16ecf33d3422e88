"""The change of the scheduler settings, which apply without a restart (docs/settings.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from pools.domain.audit_actions import AuditAction
from pools.domain.changes.command import ChangeCommand
from pools.domain.configuration.ownership import OwnedKind
from pools.domain.errors import Fault
from pools.domain.people.roles import Permission
from pools.domain.structured_input.declared_values import value, whole_number
from pools.domain.structured_input.fields import FieldReader

DRAIN_INTERVAL: Final = "subpool_drain_interval_minutes"
MAX_RETRY: Final = "max_retry_per_task"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateSettings(ChangeCommand):
    """Change the workflow configuration; what is left out stays."""

    service: ClassVar = "update_workflow_config"
    audit: ClassVar = (AuditAction.WORKFLOW_CONFIG_UPDATED, AuditAction.WORKFLOW_CONFIG_CREATED)
    permission: ClassVar = Permission.PLATFORM_WRITE
    owned_kind: ClassVar[OwnedKind | None] = OwnedKind.SETTINGS

    subpool_drain_interval_minutes: int | None = value(
        whole_number(1, 10_080, "is a whole number of minutes from 1 to 10,080 (a week)."),
        "Check for drained subpools every",
        "1 to 10,080. The last workflow that ends archives its subpool at once; this check finds any that was missed. "
        "Applies without a restart.",
        default=None,
        unit="minutes",
    )
    max_retry_per_task: int | None = value(
        whole_number(0, 100, "is a whole number from 0 to 100."),
        "Retry a task at most",
        "0 to 100, where its exit actions say RESCHEDULE. Preempted work is always re-queued.",
        default=None,
        unit="times",
    )

    @classmethod
    def note_faults(cls, reader: FieldReader) -> None:
        if not reader.is_given(DRAIN_INTERVAL) and not reader.is_given(MAX_RETRY):
            reader.add_fault(DRAIN_INTERVAL, Fault.MISSING, f"is missing, and so is {MAX_RETRY}; give one of them.")
