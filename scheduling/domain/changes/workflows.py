"""The changes of workflows that were admitted: cancel, report an end, tags. For the owner or the admins of the pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from pools.domain.audit_actions import AuditAction
from pools.domain.changes.command import ChangeCommand
from pools.domain.errors import Fault
from pools.domain.structured_input.declared_values import BOOLEAN, TEXT, TEXTS, choice, in_address, value
from pools.domain.structured_input.fields import FieldReader


class EndStatus(StrEnum):
    """Statuses with which simulated work may end."""

    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowChange(ChangeCommand):
    """A change of one workflow."""

    permission: ClassVar = None
    needs_version: ClassVar = False

    name: str = in_address("WORKFLOW", "Workflow", "Workflow ID or UUID.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelWorkflow(WorkflowChange):
    """Cancel a workflow. A dry run also names the work that would start, and the LOW work that would be reclaimed."""

    service: ClassVar = "cancel_workflow"
    audit: ClassVar = (AuditAction.WORKFLOW_CANCELED, AuditAction.SUBPOOL_ARCHIVED)

    message: str = value(
        TEXT,
        "Reason",
        "Why it is cancelled; the owner sees it with the workflow. Optional.",
        default="",
        short="-m",
        in_query=True,
    )
    force: bool = value(
        BOOLEAN,
        "Also if it has ended",
        "Then nothing changes, and that is not an error.",
        default=False,
        short="-f",
        in_query=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EndWorkflow(WorkflowChange):
    """Report how simulated work ended."""

    service: ClassVar = "end_workflow"
    audit: ClassVar = (AuditAction.WORKFLOW_ENDED, AuditAction.SUBPOOL_ARCHIVED)

    status: EndStatus = value(choice(list(EndStatus)), "The running gangs", "Final status.", short="-s", missing="")
    group: str | None = value(TEXT, "Group", "Only this group.", default=None, short="-g")

    @classmethod
    def note_faults(cls, reader: FieldReader) -> None:
        if reader.body.get("status") not in list(EndStatus):
            reader.add_fault("status", Fault.BAD_VALUE, f"must be {' or '.join(EndStatus)}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TagWorkflow(WorkflowChange):
    """Add tags to a workflow and remove others."""

    service: ClassVar = "tag_workflow"
    audit: ClassVar = (AuditAction.WORKFLOW_UPDATED,)

    add: Sequence[str] = value(TEXTS, "Add", "Tags to add.", default=(), in_query=True)
    remove: Sequence[str] = value(TEXTS, "Remove", "Tags to remove.", default=(), in_query=True)
